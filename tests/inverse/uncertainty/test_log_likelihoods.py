"""The log-likelihood of residuals, by the densities of scipy."""

import jax.numpy as jnp
import numpy as np
import pytest
from problems import lines
from scipy import stats
from small_systems import Pair

import pdefit
from pdefit.inverse.objective.compiled import weighted
from pdefit.inverse.uncertainty.marginal_likelihood import likelihood_sums, log_likelihoods

TS = [0.0, 1.0, 1.5, 2.0]
THETA = np.array([1.1, 2.2, 2.9])


def _squares(functionals):
    """The sums of squared weighted residuals at THETA, by record and variable."""
    left = [weighted(J, jnp.asarray(THETA)) for J in functionals]
    return np.array([[np.sum(of[n] ** 2) for n in "uv"] for of in left])


@pytest.fixture(scope="module")
def two():
    """Squares and sums of two records of one model, and by variable their values and predictions, (2, 4)."""
    made = [lines(TS, seed, sigma=(0.5, 2.0)) for seed in range(2)]
    sums = _squares([J for J, _ in made]), np.stack([likelihood_sums(J) for J, _ in made])
    values = {n: np.stack([np.asarray(J.observations.values[n]) for J, _ in made]) for n in "uv"}
    return sums, values, {n: x @ THETA for n, x in zip("uv", made[0][1], strict=True)}


@pytest.mark.parametrize("shared", [True, False])
def test_an_estimated_sigma_has_its_likeliest_value_and_a_stated_one_is_kept(two, shared):
    sums, values, predicted = two
    left = values["v"] - predicted["v"]
    axis = (0, 1) if shared else (1,)
    likeliest = np.sqrt(np.mean(left**2, axis=axis, keepdims=True))
    exact = stats.norm.logpdf(values["u"], predicted["u"], 0.5) + stats.norm.logpdf(left, 0.0, likeliest)
    found = log_likelihoods(*sums, {1: shared})
    np.testing.assert_allclose(found, exact.sum(axis=1), rtol=1e-9)


def test_logarithms_have_the_log_normal_density_of_the_values():
    J, (x, _) = lines(TS)
    logs = {n: np.log(np.abs(np.asarray(v)) + 2.0) for n, v in J.observations.values.items()}
    data = pdefit.Observations.build(TS, logs, 0.3)
    problem = pdefit.Problem(J.problem.system, Pair(jnp.ones(()), jnp.ones(())), pdefit.instruments.Logarithm("u"))
    J = pdefit.Functional(problem, data, dict.fromkeys("abc", pdefit.transforms.Identity()), dt=0.25)
    found = _squares([J])[:, :1], np.asarray(likelihood_sums(J))[None, :1]
    exact = np.sum(stats.lognorm.logpdf(np.exp(logs["u"]), 0.3, scale=1 + x @ THETA))
    np.testing.assert_allclose(log_likelihoods(*found, {}), exact, rtol=1e-9)
