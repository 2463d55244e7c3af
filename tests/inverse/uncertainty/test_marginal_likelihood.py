"""The marginal likelihood against models that are linear with normal priors, which have it in closed form."""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array
from scipy import integrate, stats

import pdefit
from pdefit.inverse.objective.compiled import EQUATIONS

TS = np.linspace(0.0, 2.0, 41)
SIGMA, MEAN, DEVIATION = 0.3, np.array([0.5, 1.0]), np.array([0.7, 0.4])


class Line(pdefit.AbstractSystem):
    """y' = b: a line, on which Runge-Kutta methods make no error."""

    time_unit: ClassVar[str] = "s"
    b: Array = pdefit.parameter()

    def vector_field(self, t, y, args):
        return {"y": self.b}

    def init(self, key):
        return {"y": jnp.asarray(0.8)}


DATA = 0.8 + 1.3 * TS + SIGMA * np.random.default_rng(3).normal(size=TS.size)


def functional(a, b, sigma=SIGMA):
    """The line a + b t, with a the initial state."""
    line = Line(b=1.0)
    record = pdefit.Observations.build(TS, {"y": DATA}, {"y": sigma})
    return pdefit.Functional(pdefit.Problem(line, line.init(None)), record, {"b": b, "y0": {"y": a}}, dt=0.05)


@pytest.fixture(scope="module")
def line():
    """With normal priors on both numbers; the normal equations of other priors are made from its Jacobian."""
    a, b = (pdefit.Control(prior=pdefit.priors.Normal(m, d)) for m, d in zip(MEAN, DEVIATION, strict=True))
    made = functional(a, b)
    data, prior = DESIGN.T @ DESIGN / SIGMA**2, np.diag(DEVIATION[::-1] ** -2)
    return made, np.linalg.solve(data + prior, DESIGN.T @ DATA / SIGMA**2 + prior @ MEAN[::-1])


# theta is (b, a)
DESIGN = np.stack([TS, np.ones_like(TS)], axis=1)
PRIOR = DESIGN @ np.diag(DEVIATION[::-1] ** 2) @ DESIGN.T


def exact(sigma):
    """ln of the density of the data, normal with the covariance of prior and noise."""
    covariance = PRIOR + sigma**2 * np.eye(TS.size)
    return stats.multivariate_normal(DESIGN @ MEAN[::-1], covariance).logpdf(DATA)


def test_evidence_of_a_linear_model_is_exact(line):
    made, theta = line
    of = pdefit.marginal_likelihood(made, jnp.asarray(theta))
    np.testing.assert_allclose(of.log_evidence, exact(SIGMA), rtol=0, atol=1e-7)
    assert of.values == TS.size and of.unknowns == 2 and of.prior == {"b": "normal", "y0.y": "normal"} and not of.reason
    np.testing.assert_allclose(of.log_sigma, TS.size * np.log(SIGMA))
    best = np.sum((DATA - DESIGN @ theta) ** 2) / SIGMA**2
    np.testing.assert_allclose(of.chi2, best, rtol=1e-9)
    # a prior as wide as the error of the data leaves half a number to them
    data, prior = DESIGN.T @ DESIGN / SIGMA**2, np.diag(DEVIATION[::-1] ** -2)
    np.testing.assert_allclose(of.effective_unknowns, np.trace(np.linalg.solve(data + prior, data)), rtol=1e-9)


def test_an_unknown_factor_of_sigma_is_averaged_over(line):
    """Against quadrature over ln s. Laplace's approximation is of order 1/n there."""
    made, theta = line
    of = pdefit.marginal_likelihood(made, jnp.asarray(theta))
    peak = exact(SIGMA)
    area, _ = integrate.quad(lambda s: np.exp(exact(SIGMA * np.exp(s)) - peak), -1.5, 1.5, epsabs=1e-9)
    np.testing.assert_allclose(of.log_evidence_noise, peak + np.log(area), rtol=0, atol=0.05)
    # in any unit of sigma it is the same
    other = eqx.tree_at(lambda f: f.observations, made, made.observations.with_sigma({"y": 1.1 * SIGMA}))
    again = pdefit.marginal_likelihood(other, jnp.asarray(theta))
    assert again.log_evidence_noise == pytest.approx(of.log_evidence_noise, abs=0.05)
    assert abs(again.log_evidence - of.log_evidence) > 0.5


def best():
    """The least-squares line."""
    return np.linalg.lstsq(DESIGN, DATA)[0]


@pytest.fixture(scope="module")
def flat():
    """The line with wide bounds and no prior, and its normal equations at the least-squares line."""
    bounds = [pdefit.Control(bounds=(m - 10.0, m + 10.0)) for m in best()]
    made = functional(bounds[1], bounds[0])
    return made, EQUATIONS(made, jnp.asarray(best()))


def changed(made, number, upper):
    return eqx.tree_at(lambda f: f.controls.items[number].upper, made, upper)


def test_bounds_alone_are_a_uniform_prior(flat):
    of = pdefit.marginal_likelihood(flat[0], jnp.asarray(best()), equations=flat[1])
    r = (DATA - DESIGN @ best()) / SIGMA
    inside = -r @ r / 2 - TS.size * np.log(SIGMA * np.sqrt(2 * np.pi)) + np.log(2 * np.pi)
    expected = inside - np.linalg.slogdet(DESIGN.T @ DESIGN / SIGMA**2)[1] / 2 - 2 * np.log(20.0)
    np.testing.assert_allclose(of.log_evidence, expected, rtol=0, atol=1e-7)
    assert of.prior["b"].startswith("uniform in b from") and of.effective_unknowns == pytest.approx(2)


def test_without_prior_and_bounds_there_is_no_evidence_but_a_reason(flat):
    of, held = (
        pdefit.marginal_likelihood(changed(flat[0], *to), jnp.asarray(best()), equations=flat[1])
        for to in ((0, np.inf), (1, float(best()[1])))
    )
    assert of.log_evidence is None and of.reason == "b has neither a prior nor two bounds"
    assert held.log_evidence is None and "y0.y stands at a bound" in held.reason
    assert of.chi2 > 0 and of.effective_unknowns == pytest.approx(2)


def test_a_uniform_prior_in_log_space_is_named():
    a = pdefit.Control(bounds=(0.1, 10.0), transform=pdefit.transforms.Log())
    made = functional(a, pdefit.Control(bounds=(-5.0, 5.0)))
    theta = jnp.asarray(best()).at[1].set(jnp.log(best()[1]))
    of = pdefit.marginal_likelihood(made, theta)
    assert of.prior["y0.y"] == "uniform in log y0.y from 0.1 to 10"
    # one number is known to sigma_a / a in its log, within ln 100
    covariance = np.linalg.inv(DESIGN.T @ DESIGN / SIGMA**2)
    r = (DATA - DESIGN @ best()) / SIGMA
    inside = -r @ r / 2 - TS.size * np.log(SIGMA * np.sqrt(2 * np.pi)) + np.log(2 * np.pi)
    expected = inside + np.linalg.slogdet(covariance)[1] / 2 - np.log(best()[1]) - np.log(10.0) - np.log(np.log(100.0))
    np.testing.assert_allclose(of.log_evidence, expected, rtol=0, atol=1e-7)


def test_many_recordings_have_the_sum_of_independent_ones(line):
    """Two recordings that share nothing: ln evidence adds."""
    _, theta = line
    own = [
        pdefit.Control(prior=pdefit.priors.Normal(m, d), scope="experiment")
        for m, d in zip(MEAN, DEVIATION, strict=True)
    ]
    both = pdefit.Recordings([functional(*own), functional(*own)])
    masks = both.controls.elements
    of = pdefit.marginal_likelihood(both, jnp.asarray(np.where(masks["b"], *theta)))
    np.testing.assert_allclose(of.log_evidence, 2 * exact(SIGMA), rtol=0, atol=1e-7)
    assert of.values == 2 * TS.size
