"""Precision of states beside the numbers of their equations, and parts of arrays."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import VALUE

import pdefit
from pdefit._util.trees import cast, promoted, taken
from pdefit.cli.run.initial_state import initial_state


class Decay(pdefit.AbstractSystem):
    """A decay of two fields, whose first state is in single precision."""

    time_unit: ClassVar[str] = "s"
    rate: jax.Array = pdefit.parameter(positive=True, default=1.0)

    def vector_field(self, t, y, args):
        return {"x": -self.rate * y["x"], "y": -y["y"]}

    def init(self, key):
        return {"x": jnp.ones((), jnp.float32), "y": np.float32(2)}


def _types(state):
    return {jnp.asarray(x).dtype.name for x in jax.tree.leaves(state)}


def test_a_float32_state_beside_float64_parameters_becomes_float64():
    system, ts = Decay(), np.linspace(0.0, 1.0, 5)
    y0 = system.init(None)
    data = pdefit.simulate(system, y0, ts, dt=0.1)
    np.testing.assert_allclose(data.values["x"], np.exp(-ts), rtol=1e-6)
    problem = pdefit.Problem(system, y0)
    J = pdefit.Functional(problem, data, {"rate": pdefit.Control(pdefit.transforms.Log())}, dt=0.1)
    # data of the same steps in the same precision leave nothing
    assert float(VALUE(J, J.theta0)) == 0.0 and J.observations.values["x"].dtype == jnp.float64
    assert _types(problem.y0) == _types(initial_state("system", 0, system, None)[0]) == {"float64"}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_state_in_the_precision_of_its_equations_stays_as_it_is(dtype):
    system, y0 = cast(Decay(), dtype), {"x": jnp.ones((2,), dtype), "n": jnp.ones((), int)}
    # times of a series stay float64 beside it, and so do coefficients of a transform
    assert promoted(y0, (system, np.ones(3), jnp.ones(2, complex))) is y0


@pytest.mark.parametrize("dtype", [np.float64, np.float32, bool], ids=str)
def test_a_part_of_an_array_is_what_its_index_takes(dtype):
    x = np.arange(12).reshape(4, 3).astype(dtype)
    for index in (1, slice(2), np.array([3, 0]), np.s_[:, :2]):
        for array in (x, jax.device_put(x)):
            part = taken(array, index)
            assert isinstance(part, np.ndarray) == isinstance(array, np.ndarray)
            assert part.dtype == dtype
            np.testing.assert_array_equal(part, x[index])
    traced = jax.jit(lambda y: taken(y, 1))(x)
    np.testing.assert_array_equal(traced, x[1])
