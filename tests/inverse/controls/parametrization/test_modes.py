import equinox as eqx
import numpy as np
import pytest

from pdefit.inverse.controls.parametrization.control_axes import FieldAxes
from pdefit.inverse.controls.parametrization.modes import Modes


def there_and_back(modes, field):
    """The coefficients of a field, and the field of these."""

    @eqx.filter_jit
    def both(field):
        coefficients = modes.coefficients(field)
        return coefficients, modes.field(coefficients)

    return [np.asarray(x) for x in both(field)]


@pytest.mark.parametrize(
    "periodic, basis",
    [
        ((False,), "waves"),
        ((True,), "waves"),
        ((True, False), "waves"),
        ((False, True, True), "waves"),
        ((False,), "polynomials"),
        ((False, False), "polynomials"),
    ],
)
def test_all_modes_together_hold_every_field(periodic, basis):
    shape = (6, 5, 4)[: len(periodic)]
    modes = Modes(shape, int(np.prod(shape)), (0.5,) * len(shape), periodic, basis)
    field = np.random.default_rng(0).standard_normal(shape)
    coefficients, back = there_and_back(modes, field)
    np.testing.assert_allclose(back, field, atol=1e-12)
    # every mode has mean square 1
    np.testing.assert_allclose(np.sum(coefficients**2), np.mean(field**2), rtol=1e-12)


def test_waves_of_a_periodic_axis_come_in_pairs():
    """Wave numbers are those of the grid's lengths: multiples of 2 pi over the period."""
    modes = Modes((16,), 5, (0.25,), (True,), "waves")
    np.testing.assert_allclose(modes.waves, np.pi / 2 * np.array([0, 1, 1, 2, 2]))
    x = np.arange(16) / 16
    wave = 3.0 + np.cos(2 * np.pi * x + 0.3) - 0.5 * np.sin(4 * np.pi * x)
    np.testing.assert_allclose(there_and_back(modes, wave)[1], wave, atol=1e-12)


def test_the_lowest_modes_of_a_box_are_those_of_its_longest_axis():
    modes = Modes((8, 8), 4, (2.0, 1.0), (False, False), "waves")
    np.testing.assert_allclose(modes.waves, np.pi / 16 * np.array([0, 1, 2, 2]))


def test_few_polynomials_hold_a_field_with_a_kink_where_its_period_ends():
    """Waves fall off as one over the square of their number there, polynomials faster than any power."""
    axes = FieldAxes(("x",), (np.linspace(-1.0, 1.0, 128, endpoint=False),), (True,))
    field = axes.points[0] ** 2 * np.cos(np.pi * axes.points[0])
    left = {}
    for basis in ("waves", "polynomials"):
        modes = Modes.of("y0.u", 16, basis, axes)
        left[basis] = np.max(np.abs(there_and_back(modes, field)[1] - field))
    assert left["polynomials"] < 1e-6 < 1e-2 < left["waves"]
