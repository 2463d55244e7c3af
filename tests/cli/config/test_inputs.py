"""Inputs in time and boundary conditions from a configuration."""

import equinox as eqx
import h5py
import numpy as np
import pdefit_cardiac
import pytest

import pdefit
from pdefit._util.errors import PdefitError
from pdefit.cli.config._controls import read_controls
from pdefit.cli.config._reader import make


def test_inputs_come_from_numbers_and_files(tmp_path):
    times = np.linspace(0.0, 1.0, 9)
    with h5py.File(tmp_path / "edge.h5", "w") as file:
        file["t"], file["edge"], file["error"] = times, times**2, np.full(9, 0.01)
    node = {
        "name": "inputs",
        "left": {"name": "time_series", "times": [0, 1], "values": [0, 2.0], "method": "linear"},
        "right": {"name": "time_series", "path": str(tmp_path / "edge.h5"), "times": "t", "values": "edge", "sigma": "error"},
        "loss": 2.0,
    }  # fmt: skip
    inputs = make(node, "args", eqx.Module)
    assert isinstance(inputs, pdefit.Inputs) and float(inputs.left(0.25)) == 0.5 and float(inputs.loss) == 2.0
    np.testing.assert_allclose(inputs.right.values, times**2)
    assert inputs.right.measured.sigma[3] == 0.01
    read = read_controls({"args": {"right": {"values": {"prior": "measured"}}}})
    assert read["args"]["right"]["values"].prior == pdefit.priors.Measured()


def test_a_field_on_knots_starts_from_zero():
    node = {"name": "interpolant", "knots": [6, 4, 3], "times": [0.0, 5.0], "extent": [2.0, 1.0], "origin": [-1.0, 0.0],
            "components": [2], "periodic": [True, False]}  # fmt: skip
    field = make(node, "system.force", eqx.Module)
    assert isinstance(field, pdefit.Interpolant) and field.values.shape == (6, 4, 3, 2) and not np.any(field.values)
    assert field.axes == ((-1.0, -0.5, 0.0, 0.5), (0.0, 0.5, 1.0)) and field.periods == (2.0, None)
    assert make({**node, "periodic": False}, "system.force", pdefit.Interpolant).axes[0][-1] == 1.0


def test_boundaries_of_ends_fields_and_time():
    node = {
        "name": "cardiac/aliev_panfilov",
        "grid": {"shape": [8, 4], "extent": [4.0, 2.0], "boundary": {
            "u": [
                {"name": "ends", "lower": {"name": "dirichlet", "value": "left"},
                 "upper": {"name": "neumann", "value": [0, 1, 2, 3]}},
                {"name": "robin", "a": 1.0, "b": 0.5, "value": {"name": "time_series", "times": [0, 1], "values": [0, 2]}},
            ],
            "v": {"name": "no_flux"},
        }},
        **pdefit_cardiac.ALIEV_PANFILOV,
        "D": 1e-3,
    }  # fmt: skip
    grid = make(node, "system", pdefit.AbstractSystem).grid
    (ends, robin), v = grid.of("u").at(0.5, pdefit.Inputs(left=3.0)).boundaries, grid.of("v").boundaries
    assert float(ends.lower.value) == 3.0 and ends.upper.value.shape == (4,) and float(robin.value) == 1.0
    assert v == (pdefit.boundaries.NoFlux(),) * 2


@pytest.mark.parametrize(
    ("node", "words"),
    [
        ({"name": "time_series", "times": "t", "values": [1, 2]}, "times of a time series are names, which expect a data file"),
        ({"name": "time_series", "times": [0, 1], "values": [1, 2], "knot": 2}, "did you mean knots"),
        ({"name": "inputs", "left": {"name": "time_serie", "times": [0], "values": [1]}}, "did you mean time_series"),
        ({"name": "time_series", "times": [0, 1], "values": ["a", 2]}, "could not convert"),
    ],
)  # fmt: skip
def test_inputs_that_cannot_be(node, words):
    with pytest.raises(PdefitError) as error:
        make(node, "args", eqx.Module)
    assert words in str(error.value) and "\n" not in str(error.value)
