"""Where the points lie that an observation operator sees."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_systems import Decay, State

import pdefit
from pdefit._util.trees import named_fields
from pdefit.inverse.problem.observed_fields import observed_fields, observed_positions
from pdefit.systems.coordinates import FieldCoords

GRID = pdefit.CartesianGrid(shape=(12, 6), extent=(6.0, 12.0), origin=(-1.0, 0.0), length_unit="mm")
X, Y = GRID.axis(0), GRID.axis(1)
# centres of blocks of 3 x 2 cells
BLOCKS = X.reshape(4, 3).mean(axis=1), Y.reshape(3, 2).mean(axis=1)
STATE = {"u": jnp.asarray(np.random.default_rng(0).uniform(0.3, 0.7, (12, 6))), "n": jnp.asarray(0.5)}
COORDS = {"u": GRID.coords(), "n": FieldCoords((), {})}


class Blocks(pdefit.instruments.AbstractObservationOperator):
    """Means over blocks of cells."""

    def __call__(self, t, y, args):
        return {"u": named_fields(y)["u"].reshape(4, 3, 3, 2).mean(axis=(1, 3))}


class Camera(pdefit.instruments.AbstractObservationOperator):
    """A blurred, nonlinear image with gain and offset, under another name."""

    def __call__(self, t, y, args):
        u = jnp.pad(named_fields(y)["u"], 1, mode="edge")
        return {"light": 3 * (u[:-2, 1:-1] + u[1:-1, 1:-1] + u[2:, 1:-1] + u[1:-1, 2:]) ** 2 + 7}


class Flipped(pdefit.instruments.AbstractObservationOperator):
    """Upside down."""

    def __call__(self, t, y, args):
        return {"u": named_fields(y)["u"][::-1]}


class Column(pdefit.instruments.AbstractObservationOperator):
    """The mean along x: a profile."""

    def __call__(self, t, y, args):
        return {"u": named_fields(y)["u"].mean(axis=0)}


class Total(pdefit.instruments.AbstractObservationOperator):
    """A number that depends on every point."""

    def __call__(self, t, y, args):
        return {"u": jnp.sum(named_fields(y)["u"])}


@pytest.mark.parametrize(
    ("operator", "name", "expected"),
    [
        (pdefit.instruments.ObserveAll(), "u", (X, Y)),
        (pdefit.instruments.Select("u"), "u", (X, Y)),
        # the middle of an odd stride; of an even one, the point before it
        (
            pdefit.instruments.Compose([pdefit.instruments.Select("u"), pdefit.instruments.Subsample([3, 2])]),
            "u",
            (X[1::3], Y[::2]),
        ),
        (
            pdefit.instruments.Compose(
                [pdefit.instruments.Select("u"), pdefit.instruments.Subsample([2, 2], offset=[1, 0])]
            ),
            "u",
            (X[1::2], Y[::2]),
        ),
        (
            pdefit.instruments.Compose([pdefit.instruments.Select("u"), pdefit.instruments.Subsample([2, 6])]),
            "u",
            (X[::2], Y[2:3]),
        ),
        (Blocks(), "u", BLOCKS),
        (
            pdefit.instruments.Compose([Blocks(), pdefit.instruments.Subsample([2, 1])]),
            "u",
            (BLOCKS[0][::2], BLOCKS[1]),
        ),
        (Camera(), "light", (X, Y)),
        (Flipped(), "u", (X[::-1], Y)),
        (Column(), "u", (Y,)),
        (Total(), "u", ()),
    ],
)
def test_positions(operator, name, expected):
    found = observed_positions(operator, 0.0, STATE, None, COORDS)[name]
    dims = {2: ("x", "y"), 1: ("y",), 0: ()}[len(expected)]
    assert found.dims == dims and all(found.coord_units[d] == "mm" for d in dims)
    for dim, points in zip(dims, expected, strict=True):
        np.testing.assert_allclose(found.coords[dim], points, atol=1e-12)


def test_labels_are_no_positions():
    bodies = FieldCoords(("body",), {"body": np.asarray(["Sun", "Mars"])})
    found = observed_positions(pdefit.instruments.ObserveAll(), 0.0, {"gm": jnp.ones(2)}, None, {"gm": bodies})["gm"]
    assert found.dims == ("",) and found.coords == {}


def test_single_precision_states_keep_their_positions():
    state = jax.tree.map(lambda x: x.astype(jnp.float32), STATE)
    found = observed_positions(pdefit.instruments.ObserveAll(), 0.0, state, None, COORDS)["u"]
    np.testing.assert_allclose(found.coords["x"], X, rtol=0, atol=1e-3 * 0.5)


def test_logarithms_far_from_the_state_are_undone():
    """Newton's steps from the state, 4, would leave the domain of the logarithm on their way to 0.01."""
    operator = pdefit.instruments.Compose((pdefit.instruments.ObserveAll(), pdefit.instruments.Logarithm("u")))
    system, truth = Decay(k=0.1), np.array([4.0, 0.01, 900.0])[:, None] * np.ones(3)
    problem = pdefit.Problem(system, State(jnp.full(3, 4.0)), operator)
    record = pdefit.Observations.build(np.arange(3.0), {"u": np.log(truth)}, {"u": 0.1})
    np.testing.assert_allclose(observed_fields(problem, record).values["u"], truth, rtol=1e-12)
