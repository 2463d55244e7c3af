"""Every parametrization is linear: its parts agree with the matrix of its field."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pdefit
from pdefit.inverse.controls.parametrization.base import Plain
from pdefit.inverse.controls.parametrization.control_axes import FieldAxes
from pdefit.inverse.controls.parametrization.modes import Modes
from pdefit.inverse.controls.parametrization.sobolev import GridSmoother, Sobolev

SHAPE = (6, 4)
AXES = FieldAxes(("x", "y"), tuple(0.5 * np.arange(n) for n in SHAPE), (True, False))
RNG = np.random.default_rng(0)
SMOOTHER = GridSmoother.of("u", pdefit.Smoothing(0.8, 0.3), AXES)
BACKGROUND = jnp.asarray(RNG.normal(size=SHAPE))
EACH = {
    "plain": Plain(SHAPE),
    "sobolev": Sobolev(SHAPE, SMOOTHER, BACKGROUND, roughness=jnp.full(24, 2.0), open=True),
    "modes": Modes.of("u", 24, "waves", AXES),
}


@pytest.mark.parametrize("name", EACH)
def test_parts_agree_with_the_matrix_of_the_field(name):
    one = EACH[name]
    z, variance = jnp.asarray(RNG.normal(size=one.size)), np.full(one.size, 0.7)
    matrix = np.asarray(jax.jit(jax.jacobian(one.field))(z)).reshape(-1, one.size)
    back = jax.jit(lambda z: one.coefficients(one.field(z)))(z)
    np.testing.assert_allclose(np.ravel(back), z, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(np.ravel(one.variance(variance)), matrix**2 @ variance, rtol=1e-12)
    moved = z if name == "modes" else matrix @ z
    np.testing.assert_allclose(np.asarray(eqx.filter_jit(one.at_points)(z[None]))[0], moved, rtol=1e-10, atol=1e-12)
    assert jax.eval_shape(one.field, z).shape == one.shape == SHAPE and one.groups.shape == one.weights.shape == (
        one.size,
    )


def test_an_amplitude_is_one_over_the_weight():
    field = EACH["sobolev"]
    assert field.amplitude(3.0) == pytest.approx(0.3 * 3.0 / 2.0, rel=1e-12)
    assert EACH["plain"].amplitude(3.0) is None and EACH["modes"].amplitude(3.0) is None
