"""Flows on a sphere from files on rasters of their own."""

import re
import runpy
from pathlib import Path

import numpy as np
import pytest
import xarray

from pdefit._util.errors import PdefitError
from pdefit.cli.run.build import build_experiment

WHERE = ("experiment", "frame", "theta", "phi", "component")
READ = (
    "+system=sphere/navier_stokes",
    "system.sphere.degree=4",
    "++system.sphere.length_unit=um",
    "++system.unit_of_time=min",
    "solver=etdrk4",
    "initial=data",
    "observe={name: sphere/raster}",
    "data={path: embryos.h5, variables: {u_theta: 'velocity[theta]', u_phi: 'velocity[phi]'}, system: {sphere.radius: radius}}",
    "+controls.viscosity={transform: log}",
    "dt=0.25",
    "recordings=experiment",
)


@pytest.fixture
def film(tmp_path, monkeypatch) -> xarray.Dataset:
    """The file that the page writes."""
    page = (Path(__file__).parents[3] / "docs/cases/sphere.md").read_text()
    (script,) = re.findall(r"```python\n(.*?xarray.*?)```", page, re.DOTALL)
    (tmp_path / "write.py").write_text(script)
    monkeypatch.chdir(tmp_path)
    runpy.run_path("write.py")
    with xarray.open_dataset("embryos.h5") as found:
        return found.load()


def _write(film: xarray.Dataset) -> None:
    film.to_netcdf("embryos.h5", engine="h5netcdf")


def test_the_file_of_the_page_is_read(film, compose):
    made = build_experiment(compose(*READ))
    assert [*made.recordings] == ["embryo1", "embryo2", "embryo3"]
    for name, step, radius in ("embryo2", 0.5, 205.0), ("embryo3", 0.25, 214.0):
        one = made.recordings[name]
        problem = one.functional.problem
        assert problem.system.sphere.radius == radius
        np.testing.assert_allclose(one.source.record.ts, step * np.arange(20))
        # the start is the rotation, and about that where nothing is seen
        error = np.asarray(problem.y0.u_phi) - 3 * np.sin(problem.system.sphere.theta)[:, None]
        seen = problem.system.sphere.phi < np.radians(180)
        assert np.abs(error[:, seen]).max() < 0.1 and np.abs(error).max() < 0.4, name


def _poles(film: xarray.Dataset) -> xarray.Dataset:
    """A flow across the poles, on a raster with rows there."""
    theta, phi = np.linspace(0, 180, 7), np.arange(0, 360, 30)
    a, b = np.radians(theta)[:, None], np.radians(phi)
    rigid = np.stack([-np.sin(b) + 0 * a, -np.cos(a) * np.cos(b) + np.sin(a)], -1)
    u = np.broadcast_to(rigid, (3, 4, 7, 12, 2)) + np.random.default_rng(0).normal(0, 0.05, (3, 4, 7, 12, 2))
    new = xarray.Dataset({"velocity": (WHERE, u)}, {"theta": theta, "phi": phi})
    for name in ("theta", "phi"):
        new[name].attrs["units"] = "degree"
    return new.assign({n: film[n] for n in ("frame_time", "radius", "experiment", "component")})


def test_consistent_rows_at_the_poles_are_used(film, compose):
    new = _poles(film)
    _write(new)
    made = build_experiment(compose(*READ))
    assert made.functional.observed_values == new.velocity.size


CASES = {
    "points north": (lambda f: f.assign(velocity=f.velocity * [-1.0, 1.0]), "points? north.*change its sign"),
    "swapped": (lambda f: f.assign(velocity=(WHERE, f.velocity.values[..., ::-1])), "seem to be swapped"),
    "one vector repeated": (lambda f: f.assign(velocity=f.velocity * 0 + [1.0, 2.0]), "north pole.*turn them by phi"),
    "radius": (lambda f: f.assign(radius=f.radius.where(f.experiment != "embryo3")), "'radius' in .*embryo3.* is missing"),
    "no value": (lambda f: f.where(f.experiment != "embryo3"), "embryo3.*(is missing|no frame with a time)"),
    "latitude": (lambda f: f.assign_coords(theta=("theta", 90 - f.theta.values, {"units": "degrees_north"})), "colatitude"),
    "latitude in degree": (
        lambda f: f.assign_coords(theta=("theta", 90 - f.theta.values, {"units": "degree"})),
        "theta from 0 to pi",
    ),
    "degrees without unit": (lambda f: f.assign_coords(theta=("theta", f.theta.values)), "state the unit of degrees"),
    "0 and 360": (lambda f: f.pad(phi=(0, 1), mode="wrap").assign_coords(phi=np.arange(13) * np.pi / 6), "repeats the first"),
    "descending": (lambda f: f.isel(phi=slice(None, None, -1)), "sort the longitudes"),
    "no angles": (lambda f: f.drop_vars("phi"), "states no positions along phi"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_refused_files(film, compose, case):
    change, message = CASES[case]
    _write(change(_poles(film)))
    with pytest.raises(PdefitError, match=message) as error:
        build_experiment(compose(*READ))
    assert "\n" not in str(error.value)


def test_names_of_entries_that_belong_to_another_field(film, compose):
    variables = "data.variables={u_theta: 'velocity[phi]', u_phi: 'velocity[theta]'}"
    with pytest.raises(PdefitError, match="'velocity.phi.' .*u_theta"):
        build_experiment(compose(*READ, variables))
