"""Profiles of the likelihood, beside what is known of them."""

import jax.numpy as jnp
import numpy as np
import pytest
from problems import VALUE, decays
from scipy import optimize, stats
from small_systems import State

import pdefit
from pdefit._util.errors import PdefitError


class Saturating(pdefit.AbstractSystem):
    """u' = -v u / (k + u): of a short record with little u, only v / k is seen."""

    time_unit = "s"
    v: jnp.ndarray = pdefit.parameter(positive=True)
    k: jnp.ndarray = pdefit.parameter(positive=True)

    def vector_field(self, t, y, args):
        return State(-self.v * y.u / (self.k + y.u))

    def init(self, key):
        return State(jnp.array([1.0]))


def saturating(noise=0.02, bounds=None, seed=3, own=False):
    """The fit of v = 1 and k = 1, with a v of each recording's own or not."""
    ts = np.linspace(0.0, 4.0, 17)
    # u + log u = 1 - t
    exact = np.array([optimize.brentq(lambda u, t=t: u + np.log(u) - 1 + t, 1e-9, 2.0) for t in ts])
    values = exact[:, None] + noise * np.random.default_rng(seed).standard_normal((17, 1))
    data = pdefit.Observations.build(ts, {"u": values}, noise)
    system = Saturating(v=jnp.asarray(1.0), k=jnp.asarray(1.0))
    log = pdefit.Control(pdefit.transforms.Log(), bounds=bounds)
    problem = pdefit.Problem(system, system.init(None))
    v = pdefit.Control(pdefit.transforms.Log(), scope="experiment") if own else pdefit.transforms.Log()
    return pdefit.Functional(problem, data, {"v": v, "k": log}, dt=0.25)


@pytest.fixture(scope="module")
def fit():
    return pdefit.fit(saturating(), [pdefit.optimizers.LevenbergMarquardt(decrement=0.0)])


@pytest.fixture(scope="module")
def found(fit):
    states = []
    both = pdefit.profiles(fit.functional, fit.theta, callback=lambda progress: states.append(progress.state()))
    return both, states


def test_a_profile_is_the_lowest_j_with_the_number_held(fit, found):
    (v, k), _ = found
    assert (v.control, k.control) == ("v", "k") and k.ends == ("limit", "limit")
    j = fit.functional

    def rise(log_k):
        lowest = optimize.minimize_scalar(
            lambda log_v: float(j.value(jnp.asarray([log_v, log_k]))), bracket=(log_k, log_k + 0.1), tol=1e-9
        )
        return 2 * (lowest.fun - fit.loss)

    for i in (0, len(k.values) // 2, -1):
        assert k.rise[i] == pytest.approx(rise(np.log(k.values[i])), rel=0.02, abs=0.02)
    for end in (k.low, k.high):
        assert rise(np.log(end)) == pytest.approx(k.limit, rel=0.05)
    # the limit on the upper side is further away than the matrix says
    matrix = pdefit.intervals(fit.functional, fit.theta)
    assert np.log(k.high) > 1.05 * np.log(matrix.high[1]) and not k.is_lower


def test_a_profile_of_what_recordings_share_fits_again_what_is_their_own():
    parts = [saturating(seed=s, own=True) for s in (3, 4)]
    fit = pdefit.fit(pdefit.Recordings(parts), [pdefit.optimizers.LevenbergMarquardt(decrement=0.0)])
    (k,) = pdefit.profiles(fit.functional, fit.theta, ["k"])
    assert k.control == "k" and k.ends == ("limit", "limit") and not k.is_lower

    def lowest(j, log_k):
        ends = (log_k - 0.3, log_k + 0.6)
        return optimize.minimize_scalar(
            lambda log_v: float(j.value(jnp.asarray([log_v, log_k]))), bounds=ends, options={"xatol": 1e-9}
        ).fun

    for i in (0, len(k.values) - 1):
        rise = 2 * (sum(lowest(j, np.log(k.values[i])) for j in parts) - fit.loss)
        assert k.rise[i] == pytest.approx(rise, rel=0.02)


def test_profiles_go_on_with_the_same_bits(fit, found):
    both, states = found
    again = pdefit.profiles(fit.functional, fit.theta, resume=states[len(states) // 3])
    for one, other in zip(both, again, strict=True):
        assert np.array_equal(one.values, other.values) and np.array_equal(one.rise, other.rise)


def test_the_profile_of_a_linear_number_is_a_parabola():
    functional = decays(1, noise=0.02)[0]
    fit = pdefit.fit(functional, [pdefit.optimizers.LevenbergMarquardt(decrement=0.0)])
    (k,) = pdefit.profiles(fit.functional, fit.theta, ["k"], sigma_stated=True)
    matrix = pdefit.intervals(fit.functional, fit.theta, sigma_stated=True)
    np.testing.assert_allclose(np.log([k.low, k.high]), np.log([matrix.low[0], matrix.high[0]]), rtol=0.02)


def test_a_bound_ends_a_profile_and_flat_ones_are_named():
    bounded = saturating(bounds=(0.9, 1.1))
    fit = pdefit.fit(bounded, [pdefit.optimizers.LevenbergMarquardt()])
    (k,) = pdefit.profiles(fit.functional, fit.theta, ["k"])
    assert k.ends == ("bound", "bound") and (k.low, k.high) == pytest.approx((0.9, 1.1))
    # the estimate is at a bound, too, and v alone is fitted
    assert bounded.controls.bounds.at(fit.theta).tolist() == [False, True]
    assert k.limit == pytest.approx(stats.t.ppf(0.975, 16) ** 2 * 2 * fit.loss / 16)
    # with so much noise that a first-order decay explains the data as well
    loud = saturating(noise=0.3)
    fit = pdefit.fit(loud, [pdefit.optimizers.LevenbergMarquardt()])
    (k,) = pdefit.profiles(fit.functional, fit.theta, ["k"])
    assert k.ends[1] == "flat" and k.high > 100
    with pytest.raises(PdefitError, match="did you mean"):
        pdefit.profiles(fit.functional, fit.theta, ["kk"])


def test_a_joint_profile_is_the_lowest_j_with_both_held(fit):
    states = []
    joint = pdefit.joint_profile(
        fit.functional, fit.theta, ["k", "v"], points=5, callback=lambda progress: states.append(progress.state())
    )
    assert joint.controls == ("k", "v") and joint.rise.shape == (5, 5)
    # nothing is left to be fitted: J itself
    for i, j in ((0, 0), (1, 3), (4, 2)):
        at = jnp.log(jnp.asarray([joint.second[j], joint.first[i]]))
        assert joint.rise[i, j] == pytest.approx(2 * (float(VALUE(fit.functional, at)) - fit.loss), rel=1e-6)
    # the valley of both: along it J rises far less than across
    assert joint.rise[3, 3] < 0.2 * joint.rise[3, 1] and joint.rise[2, 2] == pytest.approx(0.0, abs=1e-6)
    one, both = pdefit.profiles(fit.functional, fit.theta, ["k"])[0].limit, joint.limit
    assert both / one == pytest.approx(5.991 / 3.841, rel=1e-3)
    again = pdefit.joint_profile(fit.functional, fit.theta, ["k", "v"], points=5, resume=states[0])
    assert np.array_equal(again.rise, joint.rise)
    with pytest.raises(PdefitError, match="expects two numbers"):
        pdefit.joint_profile(fit.functional, fit.theta, ["k"])
