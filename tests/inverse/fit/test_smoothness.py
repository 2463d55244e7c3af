"""Unknown fields of smooth modes, whose smoothness the data choose."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import fisher
from resumed import bits, run

import pdefit
from pdefit._util.errors import PdefitError
from pdefit.inverse.fit import _fit_run as fit_run
from pdefit.inverse.fit.smoothness import choose_smoothness
from pdefit.inverse.objective.compiled import normal_equations

MODES = 24
STAGES = [pdefit.Stage(pdefit.optimizers.LevenbergMarquardt())]
NUMBERS = {"D": pdefit.transforms.Log(), "r": pdefit.transforms.Log()}


def front(noise=0.0, seed=0, modes=MODES, sigma=None):
    """D, r and the initial state of a moving front, from a start 20 % off."""
    truth = fisher()
    y0, ts = truth.init(None), np.linspace(0.0, 4.0, 5)
    exact = np.asarray(pdefit.simulate(truth, y0, ts, dt=0.05).values["u"])
    seen = exact + noise * np.random.default_rng(seed).standard_normal(exact.shape)
    data = pdefit.Observations.build(ts, {"u": seen}, sigma or noise or 1.0)
    field = pdefit.Control(modes=modes, guess=pdefit.guesses.FromData())
    return pdefit.Functional(pdefit.Problem(fisher(0.8, 1.2), y0), data, NUMBERS | {"y0": {"u": field}}, dt=0.05)


def errors(found):
    """Errors of D and r, in logarithms, and of the initial state."""
    exact = fisher().init(None).u
    return np.asarray(found.theta[:2]), float(jnp.sqrt(jnp.mean((found.problem.y0.u - exact) ** 2)))


def test_a_noisy_fit_chooses_its_smoothness_and_a_resumed_one_the_same(monkeypatch):
    monkeypatch.setattr(fit_run, "power_of_two", lambda rate: 2)
    functional = front(noise=0.02)
    whole, rows, states = run(functional, STAGES)
    numbers, field = errors(whole)
    # the modes alone would keep sqrt(24/64) of the first frame's noise, or 0.012
    assert field < 0.006
    known = pdefit.intervals(whole.functional, whole.theta)
    assert np.all(np.abs(numbers) < 3 * known.error[:2])
    assert any("smoothness chosen by the data" in event for event in whole.events)
    state = states[-2]
    again, later, _ = run(functional, STAGES, resume=state)
    assert np.asarray(again.theta).tobytes() == np.asarray(whole.theta).tobytes()
    assert (again.loss, again.events) == (whole.loss, whole.events)
    assert bits(rows[: state.iterations] + later) == bits(rows)


def test_the_prior_fades_where_data_have_no_noise():
    """Whatever sigma was given, here 1."""
    numbers, _ = errors(pdefit.fit(front(), STAGES))
    assert np.all(np.abs(numbers) < 1e-5)


def test_the_scale_of_sigma_does_not_change_the_estimate():
    found = [pdefit.fit(front(noise=0.02, sigma=sigma), STAGES).theta for sigma in (0.02, 1.0)]
    known = pdefit.intervals(front(noise=0.02), found[0]).error
    assert np.all(np.abs(found[0] - found[1]) < 0.05 * known)


def test_intervals_of_numbers_count_the_smooth_field_as_noise_of_its_own_size():
    """The covariance is the residual variance times (J^T J + prior)^-1, and only what the data determine is used up."""
    functional = front(noise=0.02)
    found = choose_smoothness(functional, functional.theta0, normal_equations)
    functional = functional.with_roughness(found.weights)
    known = pdefit.intervals(functional, functional.theta0)
    matrix = np.asarray(normal_equations(functional, functional.theta0)[2])
    weights = np.concatenate([[0, 0], functional.controls.items[-1].parametrization.roughness])
    used = np.trace(np.linalg.solve(matrix, matrix - np.diag(weights**2)))
    assert used < 2 + MODES - 2
    assert known.degrees == functional.observed_values - round(used)
    ratio = known.covariance / np.linalg.inv(matrix)
    np.testing.assert_allclose(ratio[:3, :3], ratio[0, 0], rtol=1e-6)
    assert known.names[2] == "y0.u.mode0" and known.estimate.size == 2 + MODES


def test_the_fitted_field_is_certified():
    functional = front(noise=0.02)
    found = choose_smoothness(functional, functional.theta0, normal_equations)
    functional = functional.with_roughness(found.weights)
    checks = pdefit.certify(functional, functional.theta0).checks
    failed = [c.name for c in checks if not c.passed]
    assert not failed
    assert jax.tree.leaves(functional.controls.roughness)[0][0] == 0


def test_many_recordings_are_refused():
    with pytest.raises(PdefitError, match="remove modes"):
        pdefit.Recordings([front(), front(seed=1)])
