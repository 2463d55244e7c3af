import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pdefit
from pdefit.inverse.controls.parametrization.control_axes import FieldAxes
from pdefit.inverse.controls.parametrization.sobolev import GridSmoother
from tests.problems import fisher, fisher_functional
from tests.small_systems import Level, State


def operator(length=0.1, amplitude=None, mean=None):
    """S on a box of length 2, periodic along x, with walls along z."""
    x, z = 2.0 / 9 * np.arange(9), (np.arange(8) + 0.5) / 8
    axes = FieldAxes(("x", "z"), (x, z), (True, False))
    return GridSmoother.of("y0.T", pdefit.Smoothing(length, amplitude, mean=mean or {}), axes), x, z


def test_modes_of_the_box_are_divided_by_one_plus_their_squared_wave_number():
    S, x, z = operator(mean={"x": 5.0})
    smoothed, unsmoothed = jax.jit(lambda mode: S.smooth(mode)), jax.jit(lambda mode: S.unsmooth(mode))
    for m, n in ((0, 0), (0, 2), (3, 1)):
        mode = np.sin(np.pi * m * x + 0.3)[:, None] * np.cos(np.pi * n * z)
        expected = (5.0 if m == 0 else 1.0) * mode / (1 + 0.1**2 * np.pi**2 * (m**2 + n**2))
        smooth = smoothed(mode)
        np.testing.assert_allclose(smooth, expected, atol=1e-14)
        np.testing.assert_allclose(unsmoothed(smooth), mode, atol=1e-13)


def test_an_amplitude_is_the_standard_deviation_at_a_point():
    S = operator(amplitude=0.3)[0]
    columns = np.asarray(jax.jit(jax.vmap(lambda mode: S.smooth(mode)))(np.eye(72).reshape(72, 9, 8)))
    np.testing.assert_allclose(np.mean(np.sum(columns**2, axis=0)), 0.3**2, rtol=1e-12)
    np.testing.assert_allclose(S.variance, np.sum(columns**2, axis=0), rtol=1e-12)
    # S is symmetric, so that S^2 is the covariance
    matrix = columns.reshape(72, 72)
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-15)


@pytest.mark.parametrize(("smoothing", "residuals"), [(pdefit.Smoothing(1.5, 0.2), 64), (pdefit.Smoothing(1.5), 0)])
def test_a_smoothing_with_an_amplitude_has_a_prior_of_unit_variance(smoothing, residuals):
    functional = fisher_functional({"y0": {"u": pdefit.Control(smoothing=smoothing)}})
    theta = functional.theta0 + jnp.linspace(0, 1, 64)
    extra = functional.extra_residuals(theta)
    assert sum(x.size for x in extra) == residuals
    if extra:
        np.testing.assert_allclose(extra[0], np.linspace(0, 1, 64), atol=1e-12)
    # a length in the unit of the grid, whose cells are 40/64 wide
    cells = fisher_functional({"y0": {"u": pdefit.Control(smoothing=1.5 * 64 / 40)}})
    factor = 0.2 / np.sqrt(np.mean(cells.controls.items[0].parametrization.smoother.spectrum ** 2)) if extra else 1.0
    moved = [f.at(f.theta0 + s * jnp.linspace(0, 1, 64)).y0.u for f, s in ((functional, 1.0), (cells, factor))]
    np.testing.assert_allclose(*moved, rtol=1e-10)


def test_the_words_of_a_smoothing_are_checked():
    with pytest.raises(pdefit.PdefitError, match=r"No axis of 'y0.u'.*there are: x"):
        fisher_functional({"y0": {"u": pdefit.Control(smoothing=pdefit.Smoothing(1.0, mean={"z": 2.0}))}})
    with pytest.raises(ValueError, match="positive amplitude"):
        pdefit.Smoothing(1.0, amplitude=-1.0)
    with pytest.raises(pdefit.PdefitError, match="one to three axes"):
        fisher_functional({"D": pdefit.Control(smoothing=2.0)})


def test_states_that_are_controls_obey_the_constraint():
    truth, guess = Level(k=2.0), Level(k=1.0)
    ts = np.linspace(0.0, 1.0, 5)
    data = pdefit.add_noise(pdefit.simulate(truth, truth.init(None), ts, dt=0.1), 0.01, jax.random.key(0))
    controls = {"k": pdefit.transforms.Log(), "y0": {"u": pdefit.Control(guess=pdefit.guesses.FromData())}}
    problem = pdefit.Problem(guess, State(jnp.zeros(3)))
    functional = pdefit.Functional(problem, data, controls, dt=0.1)
    # the noisy guess is projected, and so is every state that theta stands for
    np.testing.assert_allclose(jnp.sum(functional.problem.y0.u), 0.0, atol=1e-14)
    assert abs(float(jnp.sum(data.values["u"][0]))) > 1e-3
    np.testing.assert_allclose(jnp.sum(functional.at(functional.theta0 + 1.0).y0.u), 0.0, atol=1e-14)
    assert pdefit.certify(functional, functional.theta0).passed
    found = pdefit.fit(functional, [pdefit.optimizers.LevenbergMarquardt()])
    np.testing.assert_allclose(found.problem.system.k, 2.0, rtol=0.05)


def test_fields_on_a_coarser_raster_are_interpolated_by_cubic_splines():
    system = fisher()
    x = system.grid.axis(0)
    observe = pdefit.instruments.Subsample((4,))
    clean = pdefit.Observations.build(np.arange(2.0), {"u": np.tile(np.cos(x[1::4] / 8), (2, 1))}, 0.01)

    def guess(data):
        problem = pdefit.Problem(system, system.init(None), observe)
        return pdefit.guesses.FromData().value(problem.y0.u, "y0.u", jax.random.key(0), data, problem)

    inside = slice(1, 62)
    np.testing.assert_allclose(guess(clean)[inside], np.cos(x / 8)[inside], atol=1e-3)
    holes = clean.values["u"].at[0, 5].set(jnp.nan)
    holey = pdefit.Observations.build(np.arange(2.0), {"u": holes}, 0.01)
    # straight lines where points are missing
    np.testing.assert_allclose(guess(holey)[inside], np.cos(x / 8)[inside], atol=0.1)
    assert np.all(np.isfinite(guess(holey)))
