"""Penalties on the slopes of a control, along some of its axes."""

import jax.numpy as jnp
import numpy as np
import pytest

import pdefit
from pdefit.cli.config._reader import make

# knots in time and space, with two components
X = jnp.asarray(np.random.default_rng(0).normal(size=(3, 4, 5, 2)))


def penalty(x=X, **arguments):
    return float(jnp.sum(pdefit.regularizers.H1("force.values", 2.0, **arguments).residual(x) ** 2))


def test_slopes_along_the_axes_that_are_named():
    in_time = 2.0 * np.sum((np.diff(X, axis=0) / 0.5) ** 2) / X.size
    np.testing.assert_allclose(penalty(axes=(0,), spacing=0.5), in_time, rtol=1e-14)
    in_space = 2.0 * (np.sum((np.diff(X, axis=1) / 2) ** 2) + np.sum((np.diff(X, axis=2) / 3) ** 2)) / X.size
    np.testing.assert_allclose(penalty(axes=(1, 2), spacing=(2.0, 3.0)), in_space, rtol=1e-14)
    # all axes by default
    np.testing.assert_allclose(penalty(), sum(penalty(axes=(axis,)) for axis in range(4)), rtol=1e-14)


def test_periodic_axes_have_no_ends():
    moved = jnp.roll(X, 1, axis=1)
    assert abs(penalty(axes=(1,)) - penalty(moved, axes=(1,))) > 1e-3
    np.testing.assert_allclose(penalty(axes=(1,), periodic=True), penalty(moved, axes=(1,), periodic=True), rtol=1e-14)
    both = penalty(axes=(0, 1), periodic=(False, True))
    np.testing.assert_allclose(both, penalty(axes=(0,)) + penalty(axes=(1,), periodic=True), rtol=1e-14)


def test_a_weight_is_that_of_the_mean_square_slope_on_any_grid():
    for n in (50, 100):
        x = jnp.linspace(0.0, 2 * jnp.pi, n, endpoint=False)
        np.testing.assert_allclose(penalty(jnp.sin(x), spacing=2 * np.pi / n, periodic=True), 1.0, rtol=2e-3)


@pytest.mark.parametrize(
    "arguments", [{"axes": (4,)}, {"axes": (-1,)}, {"spacing": (1.0, 2.0)}, {"axes": (0,), "periodic": (True, False)}]
)
def test_axes_that_are_not_there(arguments):
    with pytest.raises(
        pdefit.PdefitError, match="H1 of force.values expects axes below 4, and one spacing or one for each"
    ):
        penalty(**arguments)


def test_a_configuration_names_axes():
    node = {
        "name": "h1",
        "control": "force.values",
        "weight": 2.0,
        "axes": [1, 2],
        "spacing": [2.0, 3.0],
        "periodic": True,
    }
    made = make(node, "regularizers.space", pdefit.regularizers.AbstractRegularizer)
    expected = penalty(axes=(1, 2), spacing=(2.0, 3.0), periodic=True)
    np.testing.assert_allclose(jnp.sum(made.residual(X) ** 2), expected, rtol=1e-14)
