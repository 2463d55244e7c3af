"""Files of the fields of a run: fields.h5 with diagnostics and derived fields, maps.h5 and points.csv."""

import dataclasses
from pathlib import Path

import h5py
import jax.numpy as jnp
import numpy as np
import pandas
import pytest
import xarray
from pdefit_reaction.fisher_kpp import FisherKPP
from rich.console import Console

import pdefit
from pdefit.cli.config._system import SystemSettings
from pdefit.cli.config.settings import Job
from pdefit.cli.run.build import build_experiment
from pdefit.cli.run.fields import write_film
from pdefit.cli.run.simulate import run_simulate
from pdefit.output.pictures.figures import draw_all

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
