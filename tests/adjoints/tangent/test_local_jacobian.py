"""Coefficients of a local Jacobian: collected once, and exact."""

import jax
import jax.numpy as jnp
import numpy as np

from pdefit.adjoints.tangent._local_jacobian import linearised


def test_coefficients_are_collected_once():
    """A chain of products on one tangent ends as one coefficient; a difference in space starts another; switches stay."""

    def chain(y):
        x = jnp.where(y > 0.5, 3.0 * y, -y * y) * jnp.cos(y) / (1 + y**2)
        return x + jnp.sin(y) + 0.5 * (jnp.roll(y, 1) - y) ** 2

    y, dy = np.linspace(0.0, 1.0, 16), np.cos(np.arange(16.0))
    found = linearised(lambda p, y: p * chain(y), jnp.asarray(1.5), jnp.asarray(y))
    value, slope = jax.jit(lambda y, dy: jax.jvp(chain, (y,), (dy,)))(y, dy)
    np.testing.assert_allclose(found.value, 1.5 * value, rtol=1e-14)
    np.testing.assert_allclose(found.jacobian(jnp.asarray(dy)), 1.5 * slope, rtol=1e-13)
    np.testing.assert_allclose(found.along(jnp.asarray(2.0)), 2.0 * value, rtol=1e-14)
    # of y and of its neighbour
    assert sum(x.size == y.size for x in jax.tree.leaves(found.jacobian)) == 2


def test_what_no_control_moves_has_no_derivative():
    p = {"a": jnp.ones(3), "b": jnp.ones(3)}
    found = linearised(lambda p, y: (p["a"] * 2.0 * y, p["b"] + y), p, jnp.ones(3)).along({"a": jnp.ones(3), "b": None})
    assert found[1] is None
    np.testing.assert_allclose(found[0], 2.0)
