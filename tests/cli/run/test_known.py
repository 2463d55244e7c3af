"""Arguments of a system from a file: their units, the order of their axes, and their positions."""

from typing import ClassVar, NamedTuple

import h5py
import jax.numpy as jnp
import numpy as np
import pytest
import xarray
from jaxtyping import Array

import pdefit
from pdefit.cli.config._system import SystemSettings
from pdefit.cli.config.sources import DataSettings
from pdefit.cli.run.known import with_known


class State(NamedTuple):
    u: Array = pdefit.field(unit="g/L")


class Plume(pdefit.ReactionDiffusion):
    """A plume in a known wind, with a known loss."""

    time_unit: ClassVar[str] = "h"
    velocity: Array = pdefit.parameter(unit="length/time")
    loss: Array = pdefit.parameter(unit="1/time")

    def reaction(self, t, y, args):
        return State(-self.loss * y.u)

    def init(self, key):
        return State(jnp.ones(self.grid.shape))


class PlumeSettings(SystemSettings):
    def build(self):
        shape, given = self.node["shape"], {name: self.node[name] for name in ("velocity", "loss")}
        grid = pdefit.CartesianGrid(shape, shape, length_unit="m")
        return Plume(grid, **{name: np.asarray(values) for name, values in given.items()})

    def changed(self, changes):
        return PlumeSettings({**self.node, **changes})


def _film(axes, shape=(3, 3)):
    """A wind along x and y with another value at every point, and a loss, with the axes of the file."""
    letters = ("component", "x", "y")
    wind = xarray.DataArray(np.arange(2.0 * shape[0] * shape[1]).reshape(2, *shape), dims=letters)
    where = {name: (name, np.arange(size) + 0.5, {"units": "m"}) for name, size in zip("xy", shape, strict=True)}
    turned = wind.transpose(*axes).assign_attrs(units="m/h")
    loss = wind[0].transpose(*(axis for axis in axes if axis != "component"))
    return xarray.Dataset({"wind": turned, "loss": loss}, where), wind.values


@pytest.fixture
def read(tmp_path):
    """The system with the arguments of a film, written by xarray or by numpy, and what is told about them."""

    def made(film, suffix="nc", shape=(3, 3), **more):
        path = tmp_path / f"film.{suffix}"
        if suffix == "nc":
            film.to_netcdf(path, engine="h5netcdf")
        else:
            np.savez(path, **{str(name): x.values for name, x in film.variables.items()})
        data = DataSettings(str(path), {"u": "u"}, system={"velocity": "wind", "loss": "loss"}, **more)
        return with_known(PlumeSettings({"shape": shape}), data)

    return made


def test_named_axes_are_put_into_the_order_of_the_grid(read):
    """A square grid, on which the wrong order has the right shape."""
    film, right = _film(("component", "y", "x"))
    system, told, remarks = read(film)
    np.testing.assert_array_equal(system.velocity, right)
    np.testing.assert_array_equal(system.loss, right[0])
    assert told is None
    assert "states no unit for loss; the model's are taken: 1/h" in remarks[0] and len(remarks) == 1


def test_axes_of_different_lengths_need_no_names(read):
    film, right = _film(("component", "y", "x"), (3, 5))
    system, _, remarks = read(film, "npz", (3, 5))
    told = "The axes of 'wind' were (2, 5, 3) in 'film.npz'; they were put into the order (2, 3, 5)"
    assert told in remarks and sum("put into the order" in line for line in remarks) == 2
    np.testing.assert_array_equal(system.velocity, right)
    np.testing.assert_array_equal(system.loss, right[0])


def test_the_user_names_axes(read):
    film, right = _film(("y", "component", "x"))
    system, told, _ = read(film, "npz", axes={"velocity": ["y", "part", "x"], "loss": ["y", "x"]})
    # the axis of the vector stays where it is
    np.testing.assert_array_equal(system.velocity, right.transpose(1, 0, 2))
    assert told is None


def test_the_unit_of_a_file_becomes_that_of_the_parameter(read):
    film, right = _film(("component", "x", "y"))
    system, _, remarks = read(
        film.assign(wind=film.wind.assign_attrs(units="km/h"), loss=film.loss.assign_attrs(units="1/min"))
    )
    np.testing.assert_allclose(system.velocity, 1000 * right, rtol=1e-14)
    np.testing.assert_allclose(system.loss, 60 * right[0], rtol=1e-14)
    assert remarks == []


FILM, _ = _film(("component", "x", "y"))
WIDE, _ = _film(("component", "x", "y"), (3, 5))


@pytest.mark.parametrize(
    ("film", "more", "words"),
    [
        (FILM, {"suffix": "npz"}, "axes (?, ?, ?) of 'wind' in 'film.npz' have the lengths (2, 3, 3), where x has 3, y has 3"),
        (FILM.drop_vars(["x", "y"]).rename(y="lat"), {}, "axes (component, x, lat) of 'wind' in 'film.nc'"),
        # a file whose x has as many points as the y of the model
        (WIDE.rename(x="y", y="x"), {"shape": (3, 5)}, "axes (component, y, x) of 'wind' in 'film.nc' have the lengths"),
        (FILM, {"axes": {"velocity": ["x", "y"]}}, "axes (x, y) of 'wind' in 'film.nc' have the lengths (2, 3, 3)"),
        (FILM.assign(wind=FILM.wind.assign_attrs(units="g/h")), {}, "'wind' in 'film.nc' is in g/h, but the model expects m/h"),
        (FILM.isel(x=slice(None, None, -1)), {}, "x of 'velocity' in 'film.nc' runs from 2.5 to 0.5 m where"),
        (FILM.assign_coords(x=FILM.x + 0.5), {}, "x of 'velocity' in 'film.nc' starts at 1 m where"),
        # positions with another name, on an axis that its length tells
        (
            WIDE.assign_coords(x=("x", WIDE.x.values + 0.5, {"units": "m"})).rename(x="along"),
            {"shape": (3, 5)},
            "along of 'velocity' in 'film.nc' starts at 1 m where",
        ),
    ],
)  # fmt: skip
def test_an_open_order_another_unit_and_other_positions_are_refused(read, film, more, words):
    with pytest.raises(pdefit.PdefitError) as error:
        read(film, **more)
    assert words in str(error.value) and "\n" not in str(error.value)


def test_an_experiment_names_the_axes_of_known_arrays(tmp_path):
    """HDF5 without names of axes, on a square grid: `data.axes` has entries for fields and for arguments of the system."""
    source = np.arange(16.0).reshape(4, 4)
    with h5py.File(tmp_path / "film.h5", "w") as file:
        for name, values in {"time": np.arange(3.0), "A": np.ones((4, 3, 4)), "source": source.T}.items():
            file[name] = values
    (tmp_path / "film.yaml").write_text(
        f"""
# A known source.
system: {{name: reaction/association, grid: {{shape: [4, 4], extent: [100, 100], length_unit: um}}, D: 1.0}}
data: {{path: {tmp_path / "film.h5"}, variables: {{A: A}}, sigma: {{A: 0.1}}, system: {{a: source}},
  axes: {{a: [y, x], A: [y, time, x]}}}}
observe: {{name: select, fields: [A]}}
controls: {{k_A: {{guess: 1.0}}}}
solver: {{name: rk4}}
dt: 0.1
"""
    )
    exp = pdefit.load_experiment(tmp_path / "film.yaml")
    np.testing.assert_array_equal(exp.functional.problem.system.a, source)
    assert exp.source.record.values["A"].shape == (3, 4, 4)
    assert any("states no unit for source; the model's are taken: mol/L/s" in line for line in exp.remarks)
    assert any("positions: a at x = 12.5 to 87.5 by 25 um, y = " in line for line in exp.choices)
    with h5py.File(tmp_path / "film.h5", "a") as file:
        file["coarse"] = source[:3, :2]
    with pytest.raises(pdefit.PdefitError, match=r"; from 'film.h5', a is 'coarse' of shape \(3, 2\)$"):
        pdefit.load_experiment(tmp_path / "film.yaml", ["data.system.a=coarse"])


def test_arrays_inside_another_argument_have_its_units(tmp_path, compose):
    """A radius has the unit of lengths of its sphere, and the arrays of a force have that of the force, or of time."""
    changes = {"unit_of_time": "min", "force": {"name": "sphere/knot_force", "knots": [2, 2, 4], "times": [0.0, 90.0]}}
    settings = compose(
        "+system=sphere/navier_stokes", "system.sphere.degree=4", "++system.sphere.length_unit=um", "~twin"
    )
    shape = np.shape(settings.system.changed(changes).build().force.values)
    with h5py.File(tmp_path / "film.h5", "w") as file:
        for name, values, unit in (
            ("radius", 0.25, "mm"),
            ("turns", 12.0, "1/h"),
            ("push", np.ones(shape), "mm/h^2"),
            ("begin", 0.5, "h"),
            ("odd", 3.0, "K"),
        ):
            file[name] = values
            file[name].attrs["units"] = unit
    arguments = {"sphere.radius": "radius", "rotation": "turns", "force.values": "push", "delay": "begin"}
    data = DataSettings(str(tmp_path / "film.h5"), {"u": "u"}, system=arguments)
    system, told, remarks = with_known(settings.system.changed(changes), data)
    assert (system.sphere.radius, float(system.rotation), float(system.delay)) == (250.0, 0.2, 30.0)
    np.testing.assert_allclose(system.force.values, np.full(shape, 1000 / 3600), rtol=1e-14)
    assert told is None and remarks == []
    odd = DataSettings(str(tmp_path / "film.h5"), {"u": "u"}, system={"sphere.radius": "odd"})
    *_, remarks = with_known(settings.system.changed(changes), odd)
    assert "states units of odd (K), but the model has none there" in remarks[0]
