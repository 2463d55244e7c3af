import dataclasses

import numpy as np
import pytest
from hydra.errors import HydraException

from pdefit._util.errors import PdefitError
from pdefit.cli import main
from pdefit.cli.commands.list import KINDS
from pdefit.cli.config import _registry as registry
from pdefit.cli.config._reader import read_section
from pdefit.cli.config.catalogue import experiments
from pdefit.cli.config.configuration import readable
from pdefit.cli.config.settings import Store
from pdefit.cli.run.build import build_experiment
from pdefit.systems.system import AbstractSystem

FRONT = ("experiment=reaction/fisher_front", "system.grid.shape=[80]", "times.count=13")


def test_every_experiment_composes(compose):
    names = list(experiments())
    assert {
        "reaction/fisher_front",
        "particles/pleiades",
        "particles/solar_system",
        "particles/solar_system_positions",
    } <= set(names)
    for name in names:
        cfg = compose(f"experiment={name}")
        assert cfg.system.node["name"] in registry.names(AbstractSystem), name


def test_a_twin_keeps_its_later_frames_for_the_forecast(compose):
    exp = build_experiment(compose(*FRONT))
    assert exp.source.record.ts.size == 13 and exp.fitted == 7 and exp.functional.observations.ts[-1] == 6.0
    assert exp.source.variant == "twin (independent)" and set(exp.source.true_paths) == {"D", "r"}
    assert exp.functional.controls.names() == ["D", "r"]
    assert exp.truth is not None and float(exp.truth.system.D) == 1.0


@pytest.mark.parametrize("refine", ["2", "1.5"])
def test_a_field_is_averaged_from_the_twins_finer_grid(compose, refine):
    patch = "{name: cardiac/patches, background: 0.001, boxes: [[[0.35, 1.6], [0, 1.6]]], values: 0.002}"
    cfg = compose(
        "experiment=reaction/fisher_front", "system=cardiac/aliev_panfilov", "system.grid.shape=[8,8]", "times.count=3",
        "system.grid.extent=[1.6,1.6]", f"system.D={patch}", "~controls.r", "~controls.D.bounds",
        "times.stop=1.0", "times.fit_until=null", "solver=rk4",
        f"twin.refine={refine}",
    )  # fmt: skip
    exp = build_experiment(cfg)
    assert exp.truth is not None and exp.truth.system.D.shape == (8, 8) and exp.functional.theta0.size == 64
    np.testing.assert_allclose(exp.truth.system.D[:, 3], [1e-3, 1.25e-3, *[2e-3] * 6], rtol=1e-12)


def test_the_seed_decides_guess_and_noise(compose):
    first, again, other = (build_experiment(compose(*FRONT, f"seed={s}")) for s in (0, 0, 1))
    np.testing.assert_array_equal(first.functional.theta0, again.functional.theta0)
    np.testing.assert_array_equal(first.source.record.values["u"], again.source.record.values["u"])
    assert np.all(np.asarray(first.functional.theta0 != other.functional.theta0))
    assert np.any(np.asarray(first.source.record.values["u"] != other.source.record.values["u"]))


def test_a_run_in_single_precision(compose):
    exp = build_experiment(compose(*FRONT, "dtype=float32"))
    assert exp.functional.problem.y0.u.dtype == np.float32 and exp.functional.theta0.dtype == np.float64


def test_a_control_may_spell_its_unit_in_another_way(compose):
    exp = build_experiment(compose(*FRONT, "+controls.D.unit='mm2 s-1'"))
    assert exp.functional.controls.items[0].unit == "mm2 s-1"


def test_units_of_controls_are_those_of_the_grid_and_of_fields(compose):
    exp = build_experiment(compose(*FRONT, "system.grid.length_unit=um"))
    assert [c.unit for c in exp.functional.controls.items] == ["um^2/s", "1/s"]
    small = ("system.grid.shape=[4,4]", "++controls.y0.A={guess: 1.0}")
    exp = build_experiment(
        compose(
            "experiment=reaction/fisher_front",
            "system=reaction/association",
            *small,
            "~controls.r",
            "~controls.D.bounds",
        )
    )
    assert {c.path: c.unit for c in exp.functional.controls.items} == {"D": "um^2/s", "y0.A": "mol/L"}


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["~twin"], ("observations",)),
        (["~controls.D", "~controls.r"], ("at least one control",)),
        (["+controls.D.unit='cm^2/s'"], ("controls.D.unit", "cm^2/s", "mm^2/s")),
        (["+controls.D.unit=s"], ("controls.D.unit", "mm^2/s")),
        (["+controls.D.unit=furlongs"], ("controls.D.unit", "furlongs")),
        (["times.fit_until=0.5"], ("times.fit_until", "1 frames")),
        (["times.stop=-1"], ("times", "start < stop")),
        (["twin.system.R=2.0"], ("twin.system",)),
        (["+twin.system.R=2.0"], ("'R'",)),
        (["~stages"], ("stages", "at least one stage")),
        (["+stages.main.window=-1.0"], ("stages.main",)),
        (["solver=rk4", "+solver._target_=os.system"], ("solver", "not allowed")),
        (["system.name=rk4"], ("system", "'rk4' is a kind of solver")),
        (["solver=rk4", "solver.name=rk5"], ("solver", "did you mean rkc or rk4")),
        (["adjoint=store_all", "driver=hosted"], ("driver=hosted", "expects adjoint=checkpointed", "StoreAll")),
        (["system.D=null"], ("system",)),
        (["system.grid.shape=[80,80]"], ("grid",)),
    ],
)
def test_a_mistake_is_one_sentence(compose, overrides, words):
    try:
        with pytest.raises(PdefitError) as caught:
            build_experiment(compose(*FRONT, *overrides))
        error = caught.value
    except HydraException as problem:
        # what the command line makes of Hydra's own complaints
        error = readable(problem, [*FRONT, *overrides])
    assert "\n" not in str(error)
    for word in words:
        assert word in str(error)


def test_a_fit_without_observations_is_one_sentence(compose):
    with pytest.raises(PdefitError, match="observations"):
        build_experiment(compose("experiment=particles/pleiades"))


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["data.path=nofile.h5"], ("nofile.h5", "PDEFIT_DATA")),
        (["data.variables.position=postion"], ("did you mean position",)),
        (["data.system.gm=gn"], ("'gn'",)),
        # arrays of the system come from the file of the film
        (["data.system.gm={path: other.h5}"], ("data.system.gm",)),
        (["~data.variables"], ("variables",)),
        (["times.start=30000"], ("frames",)),
        (["initial=system"], ("Gravity", "initial state")),
    ],
)
def test_a_mistake_about_data_is_one_sentence(compose, overrides, words):
    with pytest.raises(PdefitError) as error:
        build_experiment(compose("experiment=particles/solar_system", *overrides))
    assert "\n" not in str(error.value)
    for word in words:
        assert word in str(error.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"fields": ["v"]}, ("'v'",)),
        ({"budget": "1 kB"}, ("fields.h5", "1 kB")),
    ],
)
def test_what_cannot_be_stored_is_refused_before_anything_runs(compose, change, words):
    cfg = compose(*FRONT)
    exp = build_experiment(cfg)
    coords = exp.functional.problem.coords()
    assert cfg.store.wanted(coords, 13, 3) == ["u"]
    with pytest.raises(PdefitError) as error:
        read_section(Store, {**dataclasses.asdict(cfg.store), "fields": None, **change}, "store").wanted(coords, 13, 3)
    for word in words:
        assert word in str(error.value)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], 0, "usage: pdefit VERB"),
        (["--help"], 0, "usage: pdefit VERB"),
        (["--version"], 0, "."),
        *[(["list", kind], 0, kind) for kind in KINDS],
        (["list"], 0, "reaction/fisher_front"),
        (["list", "solver"], 1, "error: No list is called 'solver'; did you mean solvers"),
        (["fitt"], 1, "error: No verb is called 'fitt'; did you mean fit"),
        # not a style of the terminal
        (["[/x]"], 1, "error: No verb is called '[/x]'"),
        (["[red]"], 1, "error: No verb is called '[red]'"),
    ],
)
def test_commands_without_a_configuration(monkeypatch, capsys, arguments, code, words):
    monkeypatch.setattr("sys.argv", ["pdefit", *arguments])
    monkeypatch.setattr(main, "_failures", [])
    try:
        main.main()
        found = 0
    except SystemExit as end:
        found = end.code
    out, err = capsys.readouterr()
    assert found == code and words in (err if code else out)
    assert err.count("error:") == code and "Traceback" not in err
