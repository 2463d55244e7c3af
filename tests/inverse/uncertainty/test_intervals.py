"""Are the intervals honest? Coverage over many noise realisations, and what they say of poor data."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import fisher, fisher_functional, planets, planets_functional

import pdefit

JACOBIAN = eqx.filter_jit(pdefit.Functional.jacobian)


def test_intervals_of_a_linear_problem_are_the_textbook_ones():
    """At the minimum of a nearly linear problem: (J^T J)^-1 s^2."""
    found = pdefit.fit(fisher_functional(noise=0.02), [pdefit.optimizers.LevenbergMarquardt()])
    intervals = pdefit.intervals(found.functional, found.theta)
    jac, r = (
        JACOBIAN(found.functional, found.theta),
        eqx.filter_jit(pdefit.Functional.residuals)(found.functional, found.theta),
    )
    variance = r @ r / (r.size - 2)
    np.testing.assert_allclose(intervals.covariance, np.linalg.inv(jac.T @ jac) * variance, rtol=1e-8)
    assert np.all(intervals.low < intervals.estimate) and np.all(intervals.estimate < intervals.high)
    np.testing.assert_allclose(intervals.estimate, [found.problem.system.D, found.problem.system.r], rtol=1e-14)


def test_intervals_cover_the_truth_as_often_as_they_say():
    """100 noise realisations x 2 controls: within three standard errors of 95 %, for draws in pairs. A stated sigma that is
    true makes intervals hardly wider."""
    clean, inside, inside_stated, wider = fisher_functional(guess=(1.0, 1.0)), [], [], []
    for i in range(100):
        noisy = pdefit.add_noise(clean.observations, 0.02, jax.random.key(100 + i))
        found = pdefit.fit(
            eqx.tree_at(lambda f: f.observations, clean, noisy), [pdefit.optimizers.LevenbergMarquardt()]
        )
        intervals = pdefit.intervals(found.functional, found.theta)
        inside.append((intervals.low <= 1.0) & (intervals.high >= 1.0))
        stated = pdefit.intervals(found.functional, found.theta, sigma_stated=True)
        inside_stated.append((stated.low <= 1.0) & (stated.high >= 1.0))
        wider.append(stated.reach / intervals.reach)
    assert 0.885 <= np.mean(inside) <= 0.995 and 0.885 <= np.mean(inside_stated) <= 0.995
    assert np.min(wider) == 1 and 1 < np.mean(wider) < 1.02


@pytest.mark.parametrize(
    "make", [lambda: fisher_functional(guess=(1.0, 1.0)), lambda: planets_functional({"gm": pdefit.transforms.Log()})]
)
def test_residuals_below_a_stated_sigma_do_not_shrink_intervals(make):
    """Data without noise whose sigma is said to be 0.01: 1.96 (J^T J)^-1/2, where residuals give nothing."""
    exact = make()
    functional = exact.reweighted(dict.fromkeys(exact.observations.sigma, 0.01))
    theta = functional.theta0
    residual, stated = (pdefit.intervals(functional, theta, sigma_stated=s) for s in (False, True))
    jac = JACOBIAN(functional, theta)
    expected = np.diag(np.linalg.inv(jac.T @ jac))
    np.testing.assert_allclose(np.diag(stated.covariance), expected, rtol=1e-6)
    np.testing.assert_allclose(stated.reach, 1.959964 * np.sqrt(expected), rtol=1e-6)
    assert np.all(residual.reach < 1e-3 * stated.reach)
    assert "stated sigma" in stated.method and "stated sigma" not in residual.method


def test_clustered_intervals_see_errors_that_a_segment_shares():
    """Every residual of a segment has the same error: 24 values know no more than the segment's one number, and only the
    sandwich notices."""
    system, data = planets()
    rng = np.random.default_rng(0)
    starts = np.arange(0, 24, 2)
    values = {n: np.array(v) for n, v in data.values.items()}
    # one common shift of the whole window
    for s in starts:
        values["position"][s + 1 : s + 3] += 1e-7 * rng.normal(size=(1, 3, 2))
    noisy = pdefit.Observations.build(data.ts, values, {"position": 1e-7, "velocity": 1.0})
    functional = pdefit.Functional(
        pdefit.Problem(system, system.init(None), pdefit.instruments.Select("position")), noisy,
        {"gm": pdefit.transforms.Log()}, formulation=pdefit.formulations.Segments(0.5), dt=0.02,
    )  # fmt: skip
    # node states free of the errors that the observations have
    nodes = functional.formulation.node_states(functional.problem, data, functional.layout)
    functional = eqx.tree_at(lambda f: f.problem.nodes, functional, nodes)
    found = pdefit.fit(functional, [pdefit.optimizers.LevenbergMarquardt(tolerance=1e-12)])
    intervals = pdefit.intervals(found.functional, found.theta)
    assert intervals.method.startswith("sandwich") and intervals.degrees == 11
    jac = JACOBIAN(found.functional, found.theta)
    naive = np.sqrt(np.diag(np.linalg.inv(jac.T @ jac)))
    assert intervals.error[0] > 1.1 * naive[0]
    z = intervals.z_score(np.asarray(found.theta), np.log([1.0, 1e-3, 3e-3]))
    assert np.all(np.abs(z) < 4)


def test_a_control_without_any_influence_is_named():
    truth = fisher()
    # full everywhere: neither diffusion nor growth leaves a trace
    full = type(truth.init(None))(jnp.ones(64))
    data = pdefit.simulate(truth, full, np.linspace(0, 1, 3), dt=0.05)
    data = pdefit.add_noise(data, 0.0, jax.random.key(0))
    state = {"y0": {"u": pdefit.transforms.Identity()}}
    both, known, alone = (
        pdefit.Functional(pdefit.Problem(truth, full), data, controls, dt=0.05)
        for controls in ({"D": pdefit.transforms.Log(), **state}, state, {"D": pdefit.transforms.Log()})
    )
    found = pdefit.intervals(both, both.theta0)
    assert found.unidentifiable == ("D",) and np.isinf(found.error[0])
    assert np.isnan(found.z_score(*[np.asarray(both.theta0)] * 2)[0])
    # the others are known as well as without it
    np.testing.assert_allclose(found.error[1:], pdefit.intervals(known, known.theta0).error, rtol=1e-6)
    with pytest.raises(pdefit.PdefitError, match="say nothing about D"):
        pdefit.intervals(alone, alone.theta0)


def test_a_vague_control_is_named():
    """One frame after a very short time says little about diffusion under strong noise; a long film says enough."""
    short = fisher_functional(times=[0.0, 0.05], noise=0.5, guess=(1.0, 1.0))
    assert "D" in pdefit.intervals(short, short.theta0).unidentifiable
    long = fisher_functional(noise=0.02, guess=(1.0, 1.0))
    assert pdefit.intervals(long, long.theta0).unidentifiable == ()


@pytest.mark.parametrize("transform", [pdefit.transforms.Log(), pdefit.transforms.Log10()])
@pytest.mark.parametrize("noise", [0.2, 20.0])
def test_a_positive_number_without_a_size_has_no_interval(transform, noise):
    """Not an interval of 1e-15 to 1e+22."""
    functional = decay(noise, {"b": pdefit.Control(transform, scale=2.0)})
    known = pdefit.intervals(functional, functional.theta0, sigma_stated=True)
    # the exact slope of exp(-(a + b) t) in ln b, of values that weigh 1 / noise each
    ts = np.linspace(0.0, 2.0, 21)
    half = 1.96 * noise / np.sqrt(np.sum((0.5 * ts * np.exp(-1.5 * ts)) ** 2))
    assert np.isinf(known.error[0]) == (half > np.log(1e3)) == (noise > 1)
    assert ("not determined" in str(known)) == (noise > 1)
    if noise < 1:
        np.testing.assert_allclose(np.log(known.high[0] / 0.5), half, rtol=0.5)


class Sum(pdefit.AbstractSystem):
    """u' = -(a + b) u: only the sum of the parameters leaves a trace."""

    time_unit: ClassVar[str] = "s"
    a: jax.Array = pdefit.parameter(default=1.0)
    b: jax.Array = pdefit.parameter(default=0.5)

    def vector_field(self, t, y, args):
        return -(self.a + self.b) * y

    def init(self, key):
        return jnp.ones(1)


def decay(noise, controls):
    ts = np.linspace(0.0, 2.0, 21)
    clean = pdefit.simulate(Sum(), jnp.ones(1), ts, dt=0.02)
    data = pdefit.add_noise(clean, noise, jax.random.key(0))
    return pdefit.Functional(pdefit.Problem(Sum(), jnp.ones(1)), data, controls, dt=0.02)


def test_what_cannot_be_told_apart_has_infinite_errors():
    functional = decay(0.02, {"a": pdefit.transforms.Identity(), "b": pdefit.transforms.Identity()})
    found = pdefit.fit(functional, [pdefit.optimizers.LevenbergMarquardt()])
    intervals = pdefit.intervals(found.functional, found.theta)
    assert intervals.unidentifiable == ("a", "b") and np.all(np.isinf(intervals.error))
    np.testing.assert_allclose(intervals.estimate.sum(), 1.5, rtol=0.05)


@pytest.mark.parametrize("noise", [0.0, 1e-4])
def test_a_prior_counts_with_the_deviation_it_states(noise):
    """a = 1 +- 0.1 is all that is known of a, and the data tell a + b: both are known to 0.1, noise or not."""
    controls = {
        "a": pdefit.Control(pdefit.transforms.Identity(), prior=pdefit.priors.Normal(1.0, 0.1)),
        "b": pdefit.transforms.Identity(),
    }
    functional = decay(noise, controls)
    found = pdefit.fit(functional, [pdefit.optimizers.LevenbergMarquardt()])
    intervals = pdefit.intervals(found.functional, found.theta)
    # without noise sigma is the range of the data: residuals of size one would be allowed, and the prior gives the rest
    np.testing.assert_allclose(intervals.error[0], 0.1, rtol=0.35 if noise == 0 else 0.01)
    np.testing.assert_allclose(found.problem.system.a + found.problem.system.b, 1.5, rtol=1e-3)


@pytest.mark.parametrize("transform", [pdefit.transforms.Identity(), pdefit.transforms.Log()])
def test_intervals_of_a_smooth_field_are_those_of_the_dense_posterior(transform):
    """Diffusion with an unknown initial field: S (J^T J + 1)^-1 S^T at every point, and the truth in units of it."""
    system = fisher(1.0, 0.0)
    x = system.grid.axis(0)
    y0, ts = system.init(None)._replace(u=jnp.asarray(1 + 0.5 * np.sin(x / 5))), np.linspace(0.5, 2.0, 4)
    data = pdefit.simulate(system, y0, ts, dt=0.05).with_sigma({"u": 0.05})
    field = pdefit.Control(transform, smoothing=pdefit.Smoothing(length=3.0, amplitude=0.5))
    functional = pdefit.Functional(pdefit.Problem(system, y0), data, {"y0": {"u": field}}, dt=0.05)
    theta, (control,) = functional.theta0, functional.controls.items
    found = pdefit.intervals(functional, theta, sigma_stated=True)
    root = np.asarray(jax.jacobian(lambda z: control.parametrization.smoother.smooth(z.reshape(control.shape)))(theta))
    jac = np.asarray(JACOBIAN(functional, theta))
    # the prior is a part of the residuals
    covariance = root @ np.linalg.inv(jac.T @ jac) @ root.T
    half = 1.959964 * np.sqrt(np.diag(covariance))
    search = np.asarray(transform.to_search(y0.u))
    np.testing.assert_allclose(found.reach, half, rtol=1e-6)
    np.testing.assert_allclose(found.low, transform.to_physical(search - half), rtol=1e-6)
    np.testing.assert_allclose(found.high, transform.to_physical(search + half), rtol=1e-6)
    # without noise the prior is what is left of the errors
    alone = root @ np.linalg.matrix_power(np.linalg.inv(jac.T @ jac), 2) @ root.T
    by_residuals = pdefit.intervals(functional, theta)
    np.testing.assert_allclose(by_residuals.error, np.sqrt(np.diag(alone)), rtol=1e-6)
    moved = theta + 0.1 * jnp.cos(jnp.arange(theta.size))
    expected = root @ np.asarray(moved - theta) / np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(found.z_score(np.asarray(moved), np.asarray(theta)), expected, rtol=1e-6)


def test_few_segments_still_cover_the_truth():
    """150 realisations of errors that each of 12 segments shares, 3 masses: 95 % within what 450 trials can tell."""
    system, data = planets()
    functional = pdefit.Functional(
        pdefit.Problem(system, system.init(None), pdefit.instruments.Select("position")),
        pdefit.Observations.build(data.ts, data.values, {"position": 1e-6, "velocity": 1.0}),
        {"gm": pdefit.transforms.Log()}, formulation=pdefit.formulations.Segments(0.5), dt=0.05,
    )  # fmt: skip
    rng, inside = np.random.default_rng(0), []
    clean = np.asarray(data.values["position"])
    for _ in range(150):
        shared = np.zeros_like(clean)
        for s in range(0, 24, 2):
            shared[s + 1 : s + 3] = 1e-6 * rng.normal(size=(1, *clean.shape[1:]))
        noisy = eqx.tree_at(lambda f: f.observations.values["position"], functional, jnp.asarray(clean + shared))
        found = pdefit.fit(noisy, [pdefit.optimizers.LevenbergMarquardt()])
        intervals = pdefit.intervals(noisy, found.theta)
        inside.append((intervals.low <= system.gm) & (system.gm <= intervals.high))
    # the three masses of a realisation are not independent: 4 standard errors of 150 trials
    assert 0.88 <= np.mean(inside) <= 1.0


def test_a_true_sigma_hardly_widens_the_intervals_of_few_segments():
    """Independent noise of the stated size, 12 segments: a noisy sandwich is compared with it control by control."""
    system, data = planets()
    functional, rng, wider = (
        planets_functional({"gm": pdefit.transforms.Log()}, length=0.5, dt=0.05),
        np.random.default_rng(0),
        [],
    )
    functional = functional.reweighted({"position": 1e-6})
    clean = np.asarray(data.values["position"])
    for _ in range(60):
        noisy = jnp.asarray(clean + 1e-6 * rng.normal(size=clean.shape))
        noisy = eqx.tree_at(lambda f: f.observations.values["position"], functional, noisy)
        few, stated = (pdefit.intervals(noisy, noisy.theta0, sigma_stated=s).reach for s in (False, True))
        wider.append((few, stated))
    few, stated = np.mean(wider, axis=0)
    assert np.all(stated > few) and np.all(stated < 1.08 * few)
