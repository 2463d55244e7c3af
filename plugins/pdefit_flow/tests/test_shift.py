"""Shifts and all their derivatives against `jnp.roll`, and the operations in the transpose of a flow."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pdefit_flow import NavierStokes
from pdefit_flow.navier_stokes import Flow
from pdefit_flow.shift import shift

import pdefit
from pdefit.boundaries import Periodic


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@pytest.mark.parametrize(("by", "axis"), [(1, 0), (-1, 1), (7, 1)])
def test_all_derivatives_are_those_of_a_roll(dtype, by, axis):
    u, v = jnp.asarray(np.random.default_rng(0).normal(size=(2, 3, 4)), dtype)
    batch = jnp.stack([u, v, u - v], 1)

    def results(move):
        def cubic(x):
            return jnp.sum(move(x, by, axis) * x**2)

        slope = jax.grad(jax.checkpoint(cubic))
        _, tangent = jax.linearize(slope, u)
        yield from (move(u, by, axis), slope(u), jax.jvp(slope, (u,), (v,))[1], tangent(v))
        yield jax.vmap(lambda x: move(x, by, axis), 1, 2)(batch)
        yield jax.vmap(slope, 1)(batch)
        # an axis of the batch behind those of the field
        yield jax.vmap(lambda x: jax.jvp(slope, (u,), (x,))[1], -1)(jnp.moveaxis(batch, 1, -1))

    for found, expected in zip(*(jax.jit(lambda m=m: list(results(m)))() for m in (shift, jnp.roll)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=10 * jnp.finfo(dtype).eps, atol=10 * jnp.finfo(dtype).eps)
        assert found.dtype == dtype
    assert np.array_equal(shift(u, by, axis), np.roll(u, by, axis))


def test_the_transpose_of_a_periodic_flow_pads_nothing():
    """XLA:CPU recomputes pads in each loop that reads them, which took three times as long."""
    system = NavierStokes(pdefit.CartesianGrid((6, 4), (1.0, 1.0), boundary=Periodic()), *map(jnp.asarray, (0.1, 0.1)))
    y = Flow(*jnp.ones((2, 6, 4)))

    def transposed(y, rate):
        return jax.vjp(lambda y: system.vector_field(jnp.zeros(()), y, None), y)[1](rate)

    program = str(jax.make_jaxpr(transposed)(y, y))
    assert "shift[" in program and "pad[" not in program
