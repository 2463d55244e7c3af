"""Experiments that are loaded in Python."""

import os
import subprocess
import sys

import hydra
import jax
import numpy as np
import pytest
from hydra.core.global_hydra import GlobalHydra
from hydra.core.plugins import Plugins
from hydra.core.singleton import Singleton
from omegaconf import OmegaConf
from omegaconf.basecontainer import BaseContainer

import pdefit
from pdefit.cli.commands.new import write_files
from pdefit.cli.run.build import build_experiment
from pdefit.inverse.objective.fingerprint import fingerprint

# as the run that tests of the command line share, so that programs are compiled once
FRONT = ("reaction/fisher_front", ["max_iterations=3", "system.grid.shape=[80]", "times.count=13"])


@pytest.fixture(scope="module")
def front() -> pdefit.Experiment:
    return pdefit.load_experiment(*FRONT)


def test_an_experiment_is_that_of_the_command_line(front, compose):
    name, overrides = FRONT
    expected = build_experiment(compose(f"experiment={name}", *overrides))
    assert fingerprint(front.functional) == fingerprint(expected.functional)
    np.testing.assert_array_equal(front.functional.theta0, expected.functional.theta0)
    assert front.stages == expected.stages and front.max_iterations == 3
    assert type(front.driver) is type(expected.driver)


def test_a_fit_is_that_of_the_command_line(front, fitted):
    found, run = front.fit(), pdefit.load_run(fitted.run)
    assert found.iterations == len(run.history) == 3
    np.testing.assert_allclose(found.loss, run.history.loss.min(), rtol=1e-6)
    estimates = [run.parameters.estimate[name] for name in ("D", "r")]
    np.testing.assert_allclose([found.problem.system.D, found.problem.system.r], estimates, rtol=1e-6)
    assert "3 iterations" in repr(found) and "<td>mm^2/s</td>" in found._repr_html_()
    intervals = pdefit.intervals(found.functional, found.theta)
    assert intervals.names == ("D", "r") and intervals.units == ("mm^2/s", "1/s")
    assert f"<td>{intervals.low[0]:.5g} to {intervals.high[0]:.5g}</td>" in intervals._repr_html_()


def test_a_table_shows_guesses_and_true_values(front):
    shown = front._repr_html_()
    assert (
        f"<tr><td>D</td><td>mm^2/s</td><td>{float(front.functional.problem.system.D):.6g}</td><td>1</td></tr>" in shown
    )
    assert "twin (independent), 560 values at 7 times, 2 unknowns" in repr(front)
    # a table in a notebook may be light or dark
    assert "color" not in shown and "style" not in shown


def test_hydra_of_a_notebook_is_left_alone():
    with hydra.initialize_config_module("pdefit_conf", version_base="1.3"):
        OmegaConf.register_new_resolver("oc.env", lambda name: f"mine: {name}", replace=True)
        before = (dict(Singleton._instances), dict(BaseContainer._resolvers), GlobalHydra.instance().hydra)
        chosen = list(Plugins.instance().plugin_type_to_subclass_list.values())
        pdefit.load_experiment(*FRONT)
        with pytest.raises(pdefit.PdefitError):
            pdefit.load_experiment(FRONT[0], ["seed=x"])
        assert (dict(Singleton._instances), dict(BaseContainer._resolvers), GlobalHydra.instance().hydra) == before
        assert list(Plugins.instance().plugin_type_to_subclass_list.values()) == chosen
        assert OmegaConf.create({"a": "${oc.env:HOME}"}).a == "mine: HOME"


_ALONE = """
import os
before = dict(os.environ)
import jax
jax.config.update("jax_enable_x64", True)
import pdefit
settings = ["system.grid.shape=[80]", "times.count=13", "~system.name", "+system._target_=pdefit_reaction.FisherKPP"]
pdefit.load_experiment("reaction/fisher_front", settings)
assert jax.config.jax_compilation_cache_dir is None
added = {key for key, value in os.environ.items() if before.get(key) != value}
assert not added, added
"""


def test_compiler_and_cache_of_a_process_are_left_alone():
    environment = {key: value for key, value in os.environ.items() if key != "XLA_FLAGS"}
    done = subprocess.run([sys.executable, "-c", _ALONE], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("name", "overrides", "told"),
    [
        ("reaction/fisher_fron", [], "did you mean reaction/fisher_front"),
        ("reaction/fisher_front,particles/pleiades", [], "No experiment is called"),
        (FRONT[0], ["sed=3"], "No key is called 'sed'; did you mean seed"),
        (FRONT[0], ["controls.D.gues=3"], "did you mean guess"),
        (FRONT[0], ["solver=rk5"], "No solver is called 'rk5'"),
        (FRONT[0], ["seed=0,1"], "more than one value"),
        (FRONT[0], ["-m"], "'-m' is a flag of the command line; in Python settings are written key=value"),
        (FRONT[0], "seed=3", r"expects a list of settings, but got one text; write \['seed=3'\]"),
        (FRONT[0], ["hydra.job.env_set.PATH=/tmp"], "hydra.job.env_set.PATH may not be set"),
        (FRONT[0], ["++system._target_=os.system"], "os.system"),
        (FRONT[0], ["times.count=1"], "times.count expects a whole number >= 2"),
    ],
)
def test_mistakes_are_one_sentence(name, overrides, told):
    with pytest.raises(pdefit.PdefitError, match=told):
        pdefit.load_experiment(name, overrides)


def test_single_precision_is_refused_with_the_remedy():
    jax.config.update("jax_enable_x64", False)
    try:
        with pytest.raises(pdefit.PdefitError, match=r'jax.config.update\("jax_enable_x64", True\)'):
            pdefit.load_experiment(*FRONT)
    finally:
        jax.config.update("jax_enable_x64", True)


def test_files_of_equations_and_of_an_experiment(tmp_path):
    source, experiment = write_files(tmp_path, "mine")
    found = pdefit.load_experiment(experiment, ["system.grid.shape=[20]", "times.count=7"], equations=source)
    assert type(found.functional.problem.system).__name__ == "Bistable"
    with pytest.raises(pdefit.PdefitError, match="There is no experiment|No experiment"):
        pdefit.load_experiment("mine")
    with pytest.raises(pdefit.PdefitError, match="equations="):
        pdefit.load_experiment(source)
    with pytest.raises(pdefit.PdefitError, match="bistable"):
        pdefit.load_experiment(experiment)
