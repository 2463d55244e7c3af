import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pdefit


@pytest.mark.parametrize(
    "function",
    [
        lambda x: jnp.sum(pdefit.safe_sqrt(x)),
        lambda x: pdefit.safe_norm(x),
        lambda x: jnp.sum(pdefit.safe_div(jnp.ones_like(x), x)),
    ],
    ids=["sqrt", "norm", "div"],
)
def test_value_and_gradient_are_finite_at_zero(function):
    value, gradient = jax.value_and_grad(function)(jnp.zeros(3))
    assert np.isfinite(value)
    np.testing.assert_array_equal(gradient, 0.0)


def test_away_from_zero_they_are_the_textbook_functions(key):
    x = jax.random.uniform(key, (4, 3), minval=0.1)
    np.testing.assert_array_equal(pdefit.safe_sqrt(x), jnp.sqrt(x))
    np.testing.assert_allclose(pdefit.safe_norm(x, axis=1), jnp.linalg.norm(x, axis=1), rtol=1e-15)
    np.testing.assert_array_equal(pdefit.safe_div(x, x + 1), x / (x + 1))
    gradient = jax.grad(lambda x: pdefit.safe_norm(x))(x)
    np.testing.assert_allclose(gradient, x / jnp.linalg.norm(x), rtol=1e-14)
