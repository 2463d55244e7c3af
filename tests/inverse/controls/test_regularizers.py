"""Penalties on the slopes of a control, along some of its axes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pdefit
from pdefit.cli.config._reader import make

# knots in time and space, with two components
X = jnp.asarray(np.random.default_rng(0).normal(size=(3, 4, 5, 2)))


def penalty(x=X, **arguments):
    return float(np.sum(np.asarray(jax.jit(pdefit.regularizers.H1("force.values", 2.0, **arguments).residual)(x)) ** 2))


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
        x = np.linspace(0.0, 2 * np.pi, n, endpoint=False)
        np.testing.assert_allclose(penalty(np.sin(x), spacing=2 * np.pi / n, periodic=True), 1.0, rtol=2e-3)


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


# a field with a flat half, whose slopes are 0
FLAT = jnp.asarray(np.random.default_rng(1).normal(size=(5, 6))).at[:3].set(0.7)
TV = pdefit.regularizers.TotalVariation("D", 3.0, 0.2, spacing=(0.5, 0.25))


@jax.jit
def tv(x, v):
    """The penalty, its gradient by residuals, and J_r^T J_r v."""
    r, pull = jax.vjp(TV.residual, x)
    return jnp.sum(r**2) / 2, pull(r)[0], pull(jax.jvp(TV.residual, (x,), (v,))[1])[0], r


def test_half_the_square_of_its_residuals_is_the_total_variation():
    along, across = (np.diff(FLAT, axis=0) / 0.5, np.diff(FLAT, axis=1) / 0.25)
    squares = np.pad(along, [(0, 1), (0, 0)]) ** 2 + np.pad(across, [(0, 0), (0, 1)]) ** 2
    expected = 3.0 * np.mean(np.sqrt(squares + 0.2**2) - 0.2)
    np.testing.assert_allclose(tv(FLAT, FLAT)[0], expected, rtol=1e-13)


def test_total_variation_is_smooth_where_a_field_is_flat():
    v = jnp.asarray(np.random.default_rng(2).normal(size=FLAT.shape))
    for x in (FLAT, jnp.full_like(FLAT, 0.7)):
        value, gradient, product, _ = map(np.asarray, tv(x, v))
        assert np.all(np.isfinite(gradient)) and np.all(np.isfinite(product))
        h = 1e-6
        slope = (tv(x + h * v, v)[0] - tv(x - h * v, v)[0]) / (2 * h)
        np.testing.assert_allclose(np.sum(gradient * np.asarray(v)), slope, rtol=1e-7, atol=1e-8)
        # the matrix of Gauss-Newton by differences of residuals
        change = (np.asarray(tv(x + h * v, v)[3]) - np.asarray(tv(x - h * v, v)[3])) / (2 * h)
        np.testing.assert_allclose(np.sum(np.asarray(v) * product), np.sum(change**2), rtol=1e-7)
    # around a flat field that is the matrix of H1, with the weight over the slope
    slopes = pdefit.regularizers.H1("D", 3.0 / 0.2, spacing=(0.5, 0.25)).residual(v)
    np.testing.assert_allclose(np.sum(np.asarray(v) * product), jnp.sum(slopes**2), rtol=1e-12)


def test_a_jump_costs_its_height_whatever_its_width():
    x = jnp.linspace(-1.0, 1.0, 400)
    costs = [
        jnp.sum(pdefit.regularizers.TotalVariation("D", 400.0, 1e-4).residual(jnp.tanh(x / width)) ** 2) / 2
        for width in (0.02, 0.2)
    ]
    np.testing.assert_allclose(costs, 2.0, rtol=0.02)


def test_a_slope_of_zero_is_refused():
    with pytest.raises(ValueError, match="slope above 0, but got 0"):
        pdefit.regularizers.TotalVariation("D", 1.0, 0.0)
