"""SIR: its constant, its final size, and an outbreak beside the maximum of the likelihood by another program."""

import jax
import numpy as np
import pdefit_populations
from scipy.integrate import solve_ivp
from scipy.optimize import brentq, minimize
from scipy.stats import poisson

import pdefit

SYSTEM = pdefit_populations.SIR(beta=1.5, gamma=0.5, begin=5.0, people=500.0)


def test_the_constant_and_the_final_size():
    film = pdefit.solve(SYSTEM, SYSTEM.init(None), np.linspace(0.0, 60.0, 7), dt=0.01)
    constant = np.asarray(jax.vmap(SYSTEM.invariants)(film)["V"])
    np.testing.assert_allclose(constant, constant[0], rtol=1e-10)
    # the susceptible that are left: S = S0 exp(-R0 (N - S) / N)
    left = brentq(lambda s: s - 495.0 * np.exp(-3.0 * (500.0 - s) / 500.0), 1.0, 400.0)
    np.testing.assert_allclose(film.susceptible[-1] + film.infected[-1] / 3, left, rtol=1e-4)


def test_a_boarding_school_has_the_most_likely_numbers():
    exp = pdefit.load_experiment("populations/boarding_school", ["data.sigma=poisson", "cores=1"])
    counts = np.asarray(exp.functional.observations.values["infected"])

    def unlikely(logs):
        beta, gamma, begin = np.exp(logs)

        def rates(t, y):
            new = beta * y[0] * y[1] / 763
            return [-new, new - gamma * y[1]]

        days = np.arange(14.0)
        ill = solve_ivp(rates, (0, 13), [763 - begin, begin], "LSODA", days, rtol=1e-10, atol=1e-10).y[1]
        return -np.sum(poisson.logpmf(counts, ill))

    best = minimize(unlikely, np.log([1.9, 0.48, 1.5]), method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-9})
    fit = exp.fit()
    np.testing.assert_allclose(fit.theta, best.x, atol=2e-3)
    r0 = pdefit.derive(fit, {"R0": "beta / gamma"})[0]
    assert r0.low < 3.93 < r0.high and abs(r0.estimate - np.exp(best.x[0] - best.x[1])) < 0.01
