"""A stimulus from a configuration: what `args` takes, drives and lets find."""

import json

import h5py
import numpy as np
import pytest
from rich.console import Console

from pdefit._util.errors import PdefitError
from pdefit.cli.config.settings import Job
from pdefit.cli.run.build import build_experiment
from pdefit.cli.run.simulate import run_simulate
from pdefit.output.store.tables import read_parameters

REST = (
    "experiment=reaction/fisher_front", "system=cardiac/aliev_panfilov", "twin=self", "system.grid.shape=[6]",
    "system.grid.extent=[1.2]", "initial={name: cardiac/rest}", "~controls.r", "~controls.D", "dt=0.1",
    "times.stop=4.0", "times.count=9", "times.fit_until=null", "certificate=warn", "render=false", "noise=0.001",
    "solver=rk4",
)  # fmt: skip
PULSE = "args={name: cardiac/stimulus, times: [0.5], duration: 1.0, strength: 0.3, rise: 0.5}"
STRENGTH = "+controls.args.strength={transform: log, guess: 0.2}"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_a_strength_is_found_and_compared_with_the_truth(pdefit_inside, tmp_path):
    code, _, err = pdefit_inside("fit", *REST, PULSE, STRENGTH, "certificate=end", f"hydra.run.dir={tmp_path / 'run'}")
    assert code == 0, err
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    ((name, row),) = summary["parameters"].items()
    steps = json.loads((tmp_path / "run" / "plan.json").read_text())["steps"]
    assert steps["dt"] == 0.1 and steps["given"]
    # the guess was another
    (found,) = read_parameters(tmp_path / "run" / "parameters.csv")
    assert name == found.control == "args.strength" and found.guess == pytest.approx(0.2)
    assert row["truth"] == pytest.approx(0.3) and abs(row["relative_error"]) < 0.01
    with h5py.File(tmp_path / "run" / "fields.h5") as film:
        predicted, true = (np.asarray(film[f"u_{kind}"]) for kind in ("predicted", "true"))
    np.testing.assert_allclose(predicted, true, atol=3e-3)
    assert true[-1].min() > 0.1 and true[0].max() < 1e-6


@pytest.mark.parametrize(
    ("steps", "dtype"), [((), "float64"), (("dt=null", "steps=adaptive", "solver=tsit5"), "float32")]
)
def test_simulate_is_driven(compose, tmp_path, steps, dtype):
    films = []
    for name, args in (("driven", (PULSE,)), ("quiet", ())):
        (tmp_path / name).mkdir()
        run_simulate(Job(compose(*REST, *args, *steps, f"dtype={dtype}"), tmp_path / name, "x", Console(quiet=True)))
        with h5py.File(tmp_path / name / "fields.h5") as film:
            films.append(np.asarray(film["u_predicted"]))
    # before the pulse nothing has happened; it brings in about strength times duration
    assert np.abs(films[0][0]).max() < 1e-6 and 0.1 < films[0][4].max() < 0.4
    assert np.abs(films[1]).max() < 1e-6


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ("args={_target_: pdefit_particles.State}", "args expects a kind of input"),
        ("args={name: cardiac/stimulu}", "did you mean cardiac/stimulus"),
        ("args={_target_: os.system}", "not allowed"),
        ("args={strength: 1.0}", "args expects the name"),
        ("args=[1, 2]", "args expects the name of a kind of input"),
        ("args={name: rk4}", "'rk4' is a kind of solver"),
        (PULSE.replace("strength: 0.3", "strength: [0.3, 0.4]"), "strength expects one number"),
        (PULSE.replace("strength", "strenght"), "did you mean strength"),
        (PULSE.replace("duration: 1.0", "duration: -1.0"), "duration expects times above 0"),
    ],
)
def test_inputs_that_cannot_be(compose, args, words):
    with pytest.raises(PdefitError) as error:
        build_experiment(compose(*REST, args, "+controls.k.transform=log"))
    assert words in str(error.value) and "\n" not in str(error.value)


def test_a_control_without_inputs_is_named(compose):
    with pytest.raises(PdefitError, match="'args'"):
        build_experiment(compose(*REST, STRENGTH))
