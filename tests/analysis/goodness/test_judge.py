"""The verdict on a fit, from the command line's experiments and from functionals that were built by hand."""

import jax.numpy as jnp
import numpy as np
import pytest
from problems import fisher_functional, lines

import pdefit
from pdefit.analysis.goodness.numbers import about_numbers
from pdefit.analysis.goodness.verdict import EMPTY, FITTED, MISSES, STOPPED, distrust
from pdefit.inverse.fit.fit import fit
from pdefit.inverse.uncertainty.intervals import Intervals

FRONT = ("reaction/fisher_front", ["system.grid.shape=[160]", "times.count=25"])
WRONG = ("controls.D.guess=2.0", "+controls.D.estimate=false")


@pytest.mark.parametrize(
    ("overrides", "iterations", "word", "reason"),
    [
        ((), None, FITTED, "chi2 per value"),
        (("twin=self", "noise=0.0"), None, FITTED, "far below sigma"),
        (WRONG, None, MISSES, "residuals"),
        ((), 2, STOPPED, "iterations"),
        (("+stages.main.reweight={rounds: 5}",), None, FITTED, "not known"),
        (("+stages.main.reweight={rounds: 5}", *WRONG), None, MISSES, "correlated"),
        (("holdout=0.2",), None, FITTED, "chi2 per value"),
    ],
)
def test_the_verdict_on_a_front(overrides, iterations, word, reason):
    exp = pdefit.load_experiment(FRONT[0], [*FRONT[1], *overrides])
    found = exp.with_known(fit(exp.functional, exp.stages, max_iterations=iterations))
    assessed = pdefit.judge(found, with_intervals=False)
    section, verdict = assessed.sections[""], assessed.verdict
    assert verdict.word == word and reason in verdict.reason
    honest = word == FITTED and "noise=0.0" not in overrides
    assert honest == (distrust(verdict.word, exp.source.noiseless) == "")
    # re-estimated, and without noise only a weight
    assert exp.sigma_stated == (not any("reweight" in o or o == "noise=0.0" for o in overrides))
    assert (section.whiteness is None) == ("noise=0.0" in overrides)
    if "holdout=0.2" in overrides:
        # 0.2 of 13 fitted frames
        assert section.heldout.frames == 3 and section.values == 10 * 160
        assert section.heldout.chi2_per_value == pytest.approx(1.0, abs=4 * np.sqrt(2 / (3 * 160)))
    else:
        assert section.heldout is None and section.values == 13 * 160


def test_priors_are_no_data():
    overrides = ("controls.D.guess=1.0", "+controls.D.prior={normal: [5.0, 0.1]}")
    exp = pdefit.load_experiment(FRONT[0], [*FRONT[1], *overrides])
    found = fit(exp.functional, exp.stages, max_iterations=1)
    section = pdefit.judge(found, with_intervals=False).sections[""]
    assert section.chi2 < 2 * found.loss - 100


@pytest.mark.parametrize(
    ("control", "ends", "falls"),
    [
        # a number of either sign may pass through zero, unless its interval holds nothing else
        (pdefit.transforms.Identity(), None, False),
        (pdefit.transforms.Identity(), (-1.0, 1.0), False),
        (pdefit.transforms.Identity(), (-1e-5, 1e-5), True),
        (pdefit.transforms.Log(), None, True),
        (pdefit.transforms.Softplus(), None, True),
        (pdefit.Control(pdefit.transforms.Identity(), bounds=(0.0, 5.0)), None, True),
        (pdefit.Control(pdefit.transforms.Identity(), bounds=(-5.0, 5.0)), None, False),
    ],
)
def test_only_positive_numbers_fall_to_zero(control, ends, falls):
    functional = fisher_functional({"D": control})
    (bound,) = functional.controls.items
    theta = bound.to_theta(jnp.asarray(1e-6))
    found = pdefit.Fit(functional, theta, 2.0, 30.0, [], 7, "done", True, {}, [])
    known = None
    if ends is not None:
        one, none = np.ones(1), np.zeros((1, 1))
        low, high = (np.asarray([x]) for x in ends)
        known = Intervals(
            "", none, one, one, one, low, high, 9, none, one, (), ("D",), ("",), functional.controls, one > 0
        )
    lines = about_numbers(found, known)
    assert len(lines) == falls and all(line.startswith("D falls to zero") for line in lines)


def test_three_verdicts_and_the_numbers_they_rest_on():
    def found(guess, most=None):
        functional = fisher_functional({"r": pdefit.transforms.Log()}, noise=0.02, count=25, guess=guess)
        return pdefit.fit(functional, [pdefit.optimizers.LevenbergMarquardt()], max_iterations=most)

    right = pdefit.judge(found((1.0, 1.5)))
    quality = right.recordings[""]
    assert right.verdict.word == FITTED and quality.values == 25 * 64 and quality.whiteness is not None
    assert right.chi2_per_value == quality.chi2_per_value == pytest.approx(1, abs=5 * np.sqrt(2 / quality.values))
    wrong = found((2.0, 1.5))
    assert pdefit.judge(wrong).verdict.word == MISSES and "sigma" in str(pdefit.judge(wrong))
    assert "correlated" in pdefit.judge(wrong, sigma_known=False).verdict.reason
    assert pdefit.judge(found((1.0, 1.5), 2)).verdict.word == STOPPED


def test_residuals_far_below_sigma_are_not_tested_for_whiteness():
    functional = fisher_functional({"r": pdefit.transforms.Log()}, count=25, guess=(1.0, 1.5))
    found = pdefit.judge(pdefit.fit(functional, [pdefit.optimizers.LevenbergMarquardt()]), noiseless=True)
    assert found.recordings[""].whiteness is None and "far below sigma" in str(found)


def test_a_sigma_as_large_as_the_spread_of_the_data_explains_nothing():
    """Two lines through independent noise, and through lines, with a sigma that residuals decide."""
    ts, random = np.linspace(0.25, 10.0, 40), np.random.default_rng(0)
    line, _ = lines(ts)
    noise = pdefit.Observations.build(ts, {n: random.standard_normal(ts.size) for n in "uv"})
    plain = dict.fromkeys("abc", pdefit.transforms.Identity())
    steps = [pdefit.Stage(pdefit.optimizers.LevenbergMarquardt(), reweight=pdefit.Reweight(rounds=2))]

    def judged(data, **options):
        found = pdefit.fit(pdefit.Functional(line.problem, data, plain, dt=0.25), steps)
        assert found.estimated == ("u", "v")
        return pdefit.judge(found, **options)

    empty, right = judged(noise), judged(line.observations)
    assert empty.verdict.word == EMPTY and empty.recordings[""].explained < 0.1
    assert "not known beforehand" in empty.verdict.reason and "state a sigma" in empty.verdict.next
    assert (
        right.verdict.word == FITTED
        and right.recordings[""].explained > 0.999
        and "not known beforehand" in right.verdict.reason
    )
