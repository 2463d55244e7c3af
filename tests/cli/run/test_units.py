"""Declared units against those of the grid and of the file."""

import h5py
import numpy as np
import pytest

import pdefit

CELLS = """
from typing import NamedTuple
from jaxtyping import Array
import jax.numpy as jnp
import pdefit

class State(NamedTuple):
    u: Array = pdefit.field(unit="{field}", doc="cells")

class Cells(pdefit.ReactionDiffusion):
    time_unit = "h"
    K: Array = pdefit.parameter(unit="{parameter}", positive=True, default=4000.0)
    r: Array = pdefit.parameter(unit="1/time", positive=True, default=1.0)

    def reaction(self, t, y, args):
        return State(self.r * y.u * (1 - y.u / self.K))

    def init(self, key):
        return State(jnp.full(self.grid.shape, 100.0))

class Dim(pdefit.instruments.AbstractObservationOperator):
    width: Array = pdefit.parameter(unit="mm", default=1.0)

    def __call__(self, t, y, args):
        return {{"u": self.width * y.u}}
"""
YAML = """
# Cells that grow.
system: {{name: cells, grid: {{shape: [4], extent: [8.0], length_unit: {length}}}}}
data: {{path: {path}, variables: {{u: density}}, sigma: {{u: 3e-5}}}}
controls: {{r: {{guess: 0.8}}}}
dt: 0.1
{more}
"""


@pytest.fixture
def cells(tmp_path):
    """An experiment with counts of a file per mm^2 and minutes, whose positions are in um."""

    def made(field="1/mm^2", parameter="1/mm^2", length="um", more=""):
        path = tmp_path / "film.h5"
        with h5py.File(path, "w") as file:
            for name, values, unit in (
                ("time", [0.0, 60.0, 120.0], "min"),
                ("density", np.full((3, 4), 2e8), "1/m^2"),
                ("x", [1.0, 3.0, 5.0, 7.0], "um"),
            ):
                file[name] = values
                file[name].attrs["units"] = unit
        (tmp_path / "cells.py").write_text(CELLS.format(field=field, parameter=parameter))
        (tmp_path / "cells.yaml").write_text(YAML.format(length=length, path=path, more=more))
        return pdefit.load_experiment(tmp_path / "cells.yaml", equations=tmp_path / "cells.py")

    return made


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ("K is declared in 1/mm^2", "lengths in um and times in h", "declare 1/length^2")),
        ({"parameter": "cells/mm^2"}, ("u is declared in 1/mm^2", "lengths in um")),
        ({"field": "1", "parameter": "1", "more": "observe: {name: dim}"}, ("width of Dim is declared in mm",)),
        # the positions of the file tell what the grid does not
        ({"length": '"1"'}, ("units of 'film.h5' are taken", "K is declared in 1/mm^2", "lengths in um")),
    ],
)
def test_a_declared_length_that_is_not_the_grids_is_refused_before_anything_runs(cells, changes, words):
    with pytest.raises(pdefit.PdefitError) as error:
        cells(**changes)
    assert "\n" not in str(error.value)
    for word in words:
        assert word in str(error.value)


def test_one_line_tells_the_units_of_values_and_of_numbers_of_sigma(cells):
    exp = cells(field="1/length^2", parameter="1/length^2")
    assert "units: u in 1/um^2, time in h, as are numbers of data.sigma and times" in exp.choices
    record = exp.source.record
    np.testing.assert_allclose(record.values["u"], np.full((3, 4), 2e-4), rtol=1e-12)
    assert np.all(np.asarray(record.sigma["u"]) == np.float64(3e-5)) and record.ts.tolist() == [0, 1, 2]
