"""Files of the fields of a run: fields.h5 with diagnostics and derived fields, maps.h5 and points.csv."""

import dataclasses
import functools
from pathlib import Path
from typing import NamedTuple

import h5py
import jax
import jax.numpy as jnp
import numpy as np
import pandas
import pytest
import xarray
from pdefit_reaction.fisher_kpp import FisherKPP
from rich.console import Console

import pdefit
from pdefit.analysis.forecast.skill import Skill
from pdefit.cli.config._system import SystemSettings
from pdefit.cli.config.settings import Job, Store
from pdefit.cli.run.build import build_experiment
from pdefit.cli.run.experiment import Experiment
from pdefit.cli.run.fields import write_film
from pdefit.cli.run.simulate import run_simulate
from pdefit.output.pictures.figures import draw_all
from pdefit.output.store.fields import read_frame

FRONT = ("experiment=reaction/fisher_front", "twin=self", "system.grid.shape=[80]", "times.count=7", "render=false")


class Diagnosed(FisherKPP, pdefit.capabilities.AbstractDiagnosed):
    def diagnostics(self, t, y):
        return {
            "growth_mean": jnp.mean(self.r * y.u * (1 - y.u)),
            "growth_fastest": self.r / 4,
            "density": jnp.mean(y.u),
        }


class Settings(SystemSettings):
    """Settings of a system whose class no registry holds."""

    def build(self):
        plain = super().build()
        return Diagnosed(**{f.name: getattr(plain, f.name) for f in dataclasses.fields(plain)})

    def changed(self, changes):
        return Settings(super().changed(changes).node)


@pytest.fixture
def settings(compose):
    composed = compose(*FRONT, "store.every=2")
    return dataclasses.replace(composed, system=Settings(composed.system.node))


def _growth(u):
    return (u * (1 - u)).mean("x").values


def test_a_fit_writes_diagnostics_of_predicted_and_true_states(settings, tmp_path):
    exp = build_experiment(settings)
    found = pdefit.fit(exp.functional, max_iterations=1)
    write_film(exp, found, settings.store, tmp_path / "fields.h5", "front")
    with xarray.open_dataset(tmp_path / "fields.h5", engine="h5netcdf") as film:
        assert film.attrs["fields"] == "u growth_mean growth_fastest density"
        assert film.attrs["diagnostics"] == "growth_mean growth_fastest density"
        assert film["growth_mean_true"].attrs["long_name"] == "growth mean, true"
        assert film["growth_mean_true"].dims == ("time",) and film["time"].size == 4
        # each with the growth rate of its own system
        for kind, r in (("true", 1.0), ("predicted", float(found.problem.system.r))):
            np.testing.assert_allclose(film[f"growth_fastest_{kind}"], np.full(4, r / 4), rtol=1e-12)
            np.testing.assert_allclose(film[f"growth_mean_{kind}"], r * _growth(film[f"u_{kind}"]), rtol=1e-12)
    assert abs(float(found.problem.system.r) - 1) > 1e-3


def test_a_simulation_writes_diagnostics(settings, tmp_path):
    run_simulate(Job(settings, tmp_path, "front", Console(quiet=True)))
    with xarray.open_dataset(tmp_path / "fields.h5", engine="h5netcdf") as film:
        np.testing.assert_allclose(film["growth_mean_predicted"], _growth(film["u_predicted"]), rtol=1e-12)
        assert "growth_mean_true" not in film


class Derived(FisherKPP, pdefit.capabilities.AbstractDerived):
    def derived(self, t, y):
        return {"growth": t + self.r * y.u}

    def derived_coords(self):
        return {"growth": dataclasses.replace(self.coords()["u"], unit="1/day", long_name="growth")}


class DerivedSettings(Settings):
    """Settings of a system with a derived field."""

    def build(self):
        plain = SystemSettings.build(self)
        return Derived(**{f.name: getattr(plain, f.name) for f in dataclasses.fields(plain)})

    def changed(self, changes):
        return DerivedSettings(SystemSettings.changed(self, changes).node)


def test_a_fit_writes_derived_fields_of_predicted_and_true_states(settings, tmp_path):
    settings = dataclasses.replace(settings, system=DerivedSettings(settings.system.node))
    exp = build_experiment(settings)
    found = pdefit.fit(exp.functional, max_iterations=1)
    write_film(exp, found, settings.store, tmp_path / "fields.h5", "front")
    with xarray.open_dataset(tmp_path / "fields.h5", engine="h5netcdf") as film:
        assert film.attrs["fields"] == "u growth" and film.attrs["derived"] == "growth"
        assert film["growth_true"].attrs["units"] == "1/day" and "growth_observed" not in film
        for kind, r in (("true", 1.0), ("predicted", float(found.problem.system.r))):
            expected = film["time"] + r * film[f"u_{kind}"]
            np.testing.assert_allclose(film[f"growth_{kind}"], expected, rtol=1e-12)
    only_state = dataclasses.replace(settings.store, fields=("u",))
    write_film(exp, found, only_state, tmp_path / "state.h5", "front")
    with xarray.open_dataset(tmp_path / "state.h5", engine="h5netcdf") as film:
        assert "growth_predicted" not in film


class Filmed(FisherKPP, pdefit.capabilities.AbstractFilmed):
    def maps(self, ts, fields):
        mean = np.mean([(t + 1) * u for t, u in zip(ts, fields["u"], strict=True)], 0)
        return {"mean": (mean, dataclasses.replace(self.coords()["u"], long_name="mean density"))}

    def points(self, ts, fields):
        at = np.array([np.argmax(u) for u in fields["u"]])
        return {"frame": np.arange(ts.size), "x": self.grid.axis(0)[at], "sign": np.ones(ts.size)}


class FilmedSettings(Settings):
    """Settings of a system that reads its film."""

    def build(self):
        plain = SystemSettings.build(self)
        return Filmed(**{f.name: getattr(plain, f.name) for f in dataclasses.fields(plain)})

    def changed(self, changes):
        return FilmedSettings(SystemSettings.changed(self, changes).node)


def test_a_system_reads_maps_and_points_from_each_kind_of_its_film(settings, tmp_path):
    settings = dataclasses.replace(settings, system=FilmedSettings(settings.system.node))
    exp = build_experiment(settings)
    found = pdefit.fit(exp.functional, max_iterations=1)
    write_film(exp, found, settings.store, tmp_path / "fields.h5", "front")
    points = pandas.read_csv(tmp_path / "points.csv")
    assert [*points] == ["kind", "time", "frame", "x", "sign"]
    with (
        xarray.open_dataset(tmp_path / "fields.h5", engine="h5netcdf") as film,
        xarray.open_dataset(tmp_path / "maps.h5", engine="h5netcdf") as maps,
    ):
        assert maps["mean_true"].attrs["long_name"] == "mean density, true"
        for kind in ("true", "observed", "predicted"):
            u = film[f"u_{kind}"]
            np.testing.assert_allclose(maps[f"mean_{kind}"][0], ((film["time"] + 1) * u).mean("time"), rtol=1e-6)
            here = points[points.kind == kind]
            np.testing.assert_allclose(here.time, film["time"])
            np.testing.assert_allclose(here.x, film["x"][u.argmax("x")])


def test_maps_are_made_of_fields_and_not_of_what_the_instrument_makes_of_them(settings, tmp_path):
    camera = pdefit.instruments.Camera(gain=3.0, offset=1.0)
    settings = dataclasses.replace(settings, system=FilmedSettings(settings.system.node), observe=camera)
    exp = build_experiment(settings)
    found = pdefit.Fit(exp.functional, exp.functional.theta0, 0.0, 0.0, [], 0, "done", True, {}, [])
    write_film(exp, found, settings.store, tmp_path / "fields.h5", "front")
    with (
        xarray.open_dataset(tmp_path / "fields.h5", engine="h5netcdf") as film,
        xarray.open_dataset(tmp_path / "maps.h5", engine="h5netcdf") as maps,
    ):
        fields = {kind: film[f"u_state_{kind}"] for kind in ("true", "predicted")}
        for kind, u in (fields | {"observed": (film["u_observed"] - 1) / 3}).items():
            np.testing.assert_allclose(maps[f"mean_{kind}"][0], ((film["time"] + 1) * u).mean("time"), rtol=1e-5)


CLAMP = Path(__file__).parents[3] / "examples" / "voltage_clamp.yaml"


def clamp(*overrides):
    """The current of the example, at few times; the operator has the name of its class."""
    short = ["times.start=1000.0", "times.stop=1100.0", "times.count=6", "dt=5.0", "observe.name=ClampCurrent"]
    return pdefit.load_experiment(CLAMP, [*short, *overrides], CLAMP.with_suffix(".py"))


def test_a_current_is_in_the_film_and_its_figure(compose, tmp_path):
    exp = clamp()
    found = pdefit.fit(exp.functional, max_iterations=1)
    write_film(exp, found, compose(*FRONT).store, tmp_path / "fields.h5", "clamp")
    with xarray.open_dataset(tmp_path / "fields.h5", engine="h5netcdf") as film:
        assert film.attrs["measured"] == "current" and film["current_predicted"].attrs["units"] == "pA"
        np.testing.assert_array_equal(film["current_observed"], exp.source.record.values["current"])
        np.testing.assert_allclose(film["current_sigma"], np.full(6, exp.source.record.sigma["current"][0]))
        voltage = np.array([float(exp.functional.problem.args.voltage(t)) for t in film["time"]])
        # each current through its own instrument
        for kind, g in (("true", 152.4), ("predicted", float(found.problem.observe.g))):
            expected = g * film[f"a_{kind}"] * film[f"r_{kind}"] * (voltage + 88)
            np.testing.assert_allclose(film[f"current_{kind}"], expected, rtol=1e-12)
    assert abs(float(found.problem.observe.g) - 152.4) > 1
    drawn = draw_all(tmp_path)
    assert {"observations", "fields"} <= {file.stem for file in drawn.files} and not [
        note for note in drawn.notes if "observations" in note
    ]
    assert [c.unit for c in exp.functional.controls.items if c.path == "observe.g"] == ["nS"]
    with pytest.raises(pdefit.PdefitError, match="unit is pS, but the observation operator declares nS"):
        clamp("controls.observe.g.unit=pS")


def test_a_current_in_another_unit_is_converted(tmp_path):
    with h5py.File(tmp_path / "trace.h5", "w") as file:
        file["time"] = np.linspace(1000.0, 1100.0, 6)
        file["time"].attrs["units"] = "ms"
        file["I"] = np.linspace(0.1, 0.2, 6)
        file["I"].attrs["units"] = "nA"
    lines = CLAMP.read_text().splitlines()
    own = [line for line in lines if not line.startswith(("defaults", "twin", "noise", "times", "  p"))]
    data = f"data: {{path: {tmp_path / 'trace.h5'}, variables: {{current: I}}, sigma: {{current: 1.0}}}}"
    (tmp_path / "trace.yaml").write_text(
        "\n".join([*own, data]).replace("guess: {perturb: [0.5, 2.0]}", "guess: 100.0")
    )
    exp = pdefit.load_experiment(tmp_path / "trace.yaml", [], CLAMP.with_suffix(".py"))
    np.testing.assert_allclose(exp.source.record.values["current"], np.linspace(100.0, 200.0, 6), rtol=1e-12)


class Points(pdefit.instruments.AbstractObservationOperator):
    """The square of every tenth value, under a name of its own."""

    def __call__(self, t, y, args):
        return {"light": y.u[4::10] ** 2}


def test_points_and_rasters_of_an_instrument_have_axes_of_their_own(compose, tmp_path):
    exp = build_experiment(dataclasses.replace(compose(*FRONT), observe=Points()))
    found = pdefit.fit(exp.functional, max_iterations=1)
    write_film(exp, found, compose(*FRONT).store, tmp_path / "fields.h5", "front")
    with xarray.open_dataset(tmp_path / "fields.h5", engine="h5netcdf") as film:
        assert film["light_predicted"].dims == ("time", "light_x") and film["u_predicted"].dims == ("time", "x")
        np.testing.assert_allclose(film["light_x"], film["x"][4::10], atol=1e-9)
        np.testing.assert_allclose(film["light_predicted"], film["u_predicted"][:, 4::10] ** 2, rtol=1e-12)
    assert not [note for note in draw_all(tmp_path).notes if "no " in note and ("fields" in note or "traces" in note)]


DYE = """
from typing import NamedTuple
import jax.numpy as jnp
import pdefit
from jaxtyping import Array

class State(NamedTuple):
    u: Array = pdefit.field(diffusivity="D")

class Dye(pdefit.ReactionDiffusion):
    time_unit = "s"
    D: Array = pdefit.parameter(unit="mm^2/s")

    def reaction(self, t, y, args):
        return State(0 * y.u)

    def init(self, key):
        return State(5 * jnp.exp(-self.grid.mesh()[0] ** 2 / 4))

class Bleached(pdefit.instruments.AbstractObservationOperator):
    k: Array = pdefit.parameter(unit="1/s")

    def __call__(self, t, y, args):
        return {"u": jnp.exp(-self.k * t) * y.u}
"""
CONFIGURATION = """
system: {name: dye, grid: {shape: [12], extent: [12.0], origin: [-6.0], length_unit: mm}, D: 0.5}
data: {path: '%s', variables: {u: u}, sigma: {u: 0.5}}
times: {fit_until: 2.0}
observe: %s
controls: {D: {transform: log}}
"""
INSTRUMENTS = {
    "own": "{name: Bleached, k: 0.3}",
    "camera": "{name: camera, fields: u, gain: 3.0, offset: 1.0, knots: [0.0, 4.0], bleaching: [0.0, -0.5]}",
    "blurred camera": "{name: camera, fields: u, gain: 3.0, offset: 1.0, blur: 1.0}",
}


class Seen(NamedTuple):
    """A run at the right numbers: its film, its scores, and what the instrument sees of its state."""

    film: dict
    folder: Path
    score: Skill | None
    exp: Experiment
    state: np.ndarray
    prediction: np.ndarray


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """A run by the name of its instrument, each made once."""

    @functools.cache
    def made(name):
        folder, ts = tmp_path_factory.mktemp("dye"), np.arange(6.0)
        with h5py.File(folder / "film.h5", "w") as file:
            file["u"], file["time"], file["x"] = np.ones((6, 12)), ts, np.arange(12) - 5.5
        (folder / "dye.py").write_text(DYE)
        (folder / "dye.yaml").write_text(CONFIGURATION % (folder / "film.h5", INSTRUMENTS[name]))
        exp = pdefit.load_experiment(folder / "dye.yaml", equations=folder / "dye.py")
        problem = exp.functional.problem
        u = pdefit.solve(
            problem.system, problem.y0, ts[1:], solver=exp.functional.runner.solver, dt=exp.functional.dt, t0=0.0
        ).u
        state = np.concatenate([np.asarray(problem.y0.u)[None], u])
        look = jax.jit(jax.vmap(lambda t, u: problem.instrument(t, type(problem.y0)(u), None)["u"]))
        prediction = np.asarray(look(ts, state))
        noisy = prediction + 0.5 * np.random.default_rng(0).normal(size=state.shape)
        record = dataclasses.replace(exp.source.record, values={"u": jnp.asarray(noisy)})
        exp = dataclasses.replace(exp, source=dataclasses.replace(exp.source, record=record))
        found = pdefit.Fit(exp.functional, exp.functional.theta0, 0.0, 0.0, [], 0, "done", True, {}, [])
        score, _ = write_film(exp, found, Store(None, 1, "float64", 10**9), folder / "fields.h5", "dye")
        with h5py.File(folder / "fields.h5") as file:
            return Seen({n: x[()] for n, x in file.items() if x.ndim == 2}, folder, score, exp, state, prediction)

    return made


@pytest.mark.parametrize("name", [*INSTRUMENTS])
def test_what_a_film_subtracts_is_the_residual_of_the_fit(seen, name):
    """Data minus prediction through the instrument, both in the unit of the data, or both before gain and offset."""
    run = seen(name)
    data = np.asarray(run.exp.source.record.values["u"])
    gain = (data - run.prediction) / (run.film["u_observed"] - run.film["u_predicted"])
    np.testing.assert_allclose(gain, np.broadcast_to(gain[:, :1], gain.shape), rtol=1e-9)


def test_a_film_holds_the_prediction_of_an_own_instrument_and_the_state_apart(seen):
    run = seen("own")
    np.testing.assert_allclose(run.film["u_predicted"], run.prediction, rtol=1e-9)
    assert any(n != "u_predicted" and np.allclose(x, run.state, rtol=1e-9) for n, x in run.film.items())


def test_persistence_is_the_last_measured_frame(seen):
    run = seen("own")
    data = np.asarray(run.exp.source.record.values["u"])
    gap, size = (np.linalg.norm(x, axis=1) for x in (data[2] - data[3:], data[3:]))
    np.testing.assert_allclose(run.score.baseline_l2, gap / size, rtol=1e-9)


def test_a_forecast_that_differs_by_the_noise_alone_is_valid(seen):
    assert seen("own").score.valid_to_end


def test_every_baseline_has_a_name(seen):
    named = getattr(seen("own").score, "baselines", {"baseline": None})
    assert {"last frame", "mean of frames", "linear extrapolation"} <= set(named)


def test_pictures_draw_what_an_own_instrument_made_of_the_state(seen):
    drawn = draw_all(seen("own").folder)
    assert "fields" in {file.stem for file in drawn.files} and not [n for n in drawn.notes if n.startswith("no ")]


def test_a_state_is_read_back_beside_what_the_instrument_made_of_it(seen):
    run = seen("own")
    found = read_frame(run.folder / "fields.h5", {"u": (12,)}, "Dye")
    np.testing.assert_allclose(found["u"], run.state[-1], rtol=1e-9)
