import numpy as np
from problems import planets

import pdefit


def masses(system, data):
    """The masses of planets, from positions."""
    problem = pdefit.Problem(system, system.init(None), pdefit.instruments.Select("position"))
    return pdefit.Functional(problem, data, {"gm": pdefit.transforms.Log()}, dt=0.02)


def test_residual_levels_are_found_for_each_body_and_converge():
    """Bodies with errors of different size, unknown to the fit, get the sigma they deserve."""
    system, data = planets()
    rng = np.random.default_rng(1)
    levels = np.array([1e-5, 1e-3, 1e-4])
    values = {n: np.array(v) for n, v in data.values.items()}
    values["position"] += levels[:, None] * rng.normal(size=values["position"].shape)
    noisy = pdefit.Observations.build(data.ts, values, {"position": 1e-6, "velocity": 1.0})
    functional = masses(system, noisy)
    stage = pdefit.Stage(
        pdefit.optimizers.LevenbergMarquardt(), reweight=pdefit.Reweight(axes=(0,), rounds=20, tolerance=1e-3)
    )
    found = pdefit.fit(functional, [stage])
    sigma = np.asarray(found.functional.observations.sigma["position"])
    assert sigma.shape == (1, 3, 1)
    # 50 values a body: known to 10 %
    np.testing.assert_allclose(sigma.ravel(), levels, rtol=0.35)
    changes = [e for e in found.events if "re-estimated" in e]
    assert 2 <= len(changes) <= 20 and float(changes[-1].split()[-1].rstrip("%")) <= 0.1
    chi2 = 2 * found.loss / found.functional.observed_values
    np.testing.assert_allclose(chi2, 1.0, atol=0.02)


def test_without_axes_there_is_one_level():
    system, data = planets()
    functional = masses(system, data)
    new, _, _ = pdefit.Reweight().apply(functional, functional.theta0 + 0.1)
    assert new.observations.sigma["position"].shape == (1, 1, 1)
    np.testing.assert_array_equal(new.observations.sigma["velocity"], functional.observations.sigma["velocity"])


def test_errors_that_were_right_stay_as_they_are():
    """Residuals contain the noise: adding them to it would inflate a sigma that was right by 1.4."""
    system, data = planets()
    values = {n: np.array(v) for n, v in data.values.items()}
    values["position"] += 1e-4 * np.random.default_rng(2).normal(size=values["position"].shape)
    noisy = pdefit.Observations.build(data.ts, values, {"position": 1e-4, "velocity": 1.0})
    functional = masses(system, noisy)
    found = pdefit.fit(functional, [pdefit.Stage(pdefit.optimizers.LevenbergMarquardt(), reweight=pdefit.Reweight())])
    np.testing.assert_allclose(found.functional.observations.sigma["position"], 1e-4, rtol=0.1)
