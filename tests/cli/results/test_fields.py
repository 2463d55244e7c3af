"""fields.h5 of systems with diagnostics."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
import xarray
from pdefit_reaction.fisher_kpp import FisherKPP
from rich.console import Console

import pdefit
from pdefit.cli.commands.simulate import run_simulate
from pdefit.cli.config._system import SystemSettings
from pdefit.cli.experiment.build import build_experiment
from pdefit.cli.results.fields import write_film

FRONT = ("experiment=reaction/fisher_front", "twin=self", "system.grid.shape=[80]", "times.count=7", "render=false")


class Diagnosed(FisherKPP, pdefit.capabilities.AbstractDiagnosed):
    def diagnostics(self, y):
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
    run_simulate(settings, tmp_path, "front", Console(quiet=True))
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
