"""Derived quantities: formulas of fitted numbers, with the intervals that follow from those of the numbers."""

import dataclasses
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import lines
from scipy.stats import lognorm, norm, t

import pdefit
from pdefit.analysis.goodness.assessment import Assessment
from pdefit.analysis.goodness.discretisation import Discretisation
from pdefit.analysis.goodness.evidence import Verdict
from pdefit.analysis.goodness.verdict import FITTED
from pdefit.inverse.fit.result import Fit

LOG, TS = pdefit.transforms.Log(), np.linspace(0.0, 3.0, 13)
MIXED = {"a": LOG, "b": pdefit.transforms.Identity(), "c": pdefit.transforms.Logit(0.0, 5.0)}


def ended(functional, theta=None):
    """A fit that ended at a point, by default at the guess."""
    theta = functional.theta0 if theta is None else jnp.asarray(theta)
    return Fit(functional, theta, 1.0, 1.0, [], 1, "done", True, {}, [])


def judged(found, shift=0.0, word=FITTED, **options):
    """An assessment with intervals, and a shift by finer steps."""
    known = pdefit.intervals(found.functional, found.theta, **options)
    shifts = {"step": np.where(np.isfinite(known.reach), shift, np.nan)}
    return Assessment({}, intervals=known, discretisation=Discretisation([], shifts, {}), verdict=Verdict(word, ()))


@pytest.fixture(scope="module")
def mixed():
    return ended(lines(TS, sigma=(0.5, 2.0), controls=MIXED)[0])


@pytest.mark.parametrize("stated", [False, True])
def test_a_number_alone_has_its_own_interval(mixed, stated):
    """On its own scale, with its own unit, z-score and shift."""
    theta, assessed = np.asarray(mixed.theta), judged(mixed, 0.4, sigma_stated=stated)
    truth = theta + [0.1, np.nan, -0.2]
    known, found = assessed.intervals, pdefit.derive(mixed, {f"{n}_again": n for n in "abc"}, assessed, truth)
    assert [d.scale for d in found] == ["log", "identity", "logit"] and [d.unit for d in found] == ["1"] * 3
    for name in ("estimate", "low", "high"):
        np.testing.assert_allclose([getattr(d, name) for d in found], getattr(known, name), rtol=1e-13)
    np.testing.assert_allclose([d.z_score for d in found], known.z_score(theta, truth), rtol=1e-13)
    assert [d.shift for d in found] == pytest.approx([0.4] * 3, rel=1e-12) and all(d.trusted for d in found)
    assert [d.guess for d in found] == [d.estimate for d in found] and np.isnan(found[1].truth)


def test_formulas_of_positive_numbers_have_the_intervals_of_lognormal_numbers():
    """With a stated sigma and many values: quantiles of a ratio, and of a power with a known number, of normal logarithms."""
    functional = lines(np.linspace(0.0, 3.0, 4001), controls={"a": LOG, "b": LOG})[0]
    theta, known = np.asarray(functional.theta0), judged(ended(functional), sigma_stated=True)
    spans = dataclasses.replace(known.intervals, degrees=10**9, reach=norm.ppf(0.975) * known.intervals.error)
    formulas = {"ratio": "a / b", "power": "c * a^2 * sqrt(b) * exp(-0.5)"}
    found = pdefit.derive(ended(functional), formulas, dataclasses.replace(known, intervals=spans))
    for d, row, factor in zip(found, ([1, -1], [2, 0.5]), (1.0, 3.1 * np.exp(-0.5)), strict=True):
        expected = lognorm(np.sqrt(row @ spans.covariance @ row), scale=factor * np.exp(row @ theta))
        np.testing.assert_allclose((d.low, d.estimate, d.high), expected.ppf([0.025, 0.5, 0.975]), rtol=1e-9)
        assert d.scale == "log"


def test_a_difference_has_the_interval_of_the_linear_problem_that_fits_it():
    """b - a of numbers of either sign is a number of a problem in other coordinates; so is its shift."""
    functional, designs = lines(TS, sigma=(0.5, 2.0))
    found = pdefit.fit(functional, [pdefit.optimizers.LevenbergMarquardt()])
    known = judged(found, 0.4)
    (d,) = pdefit.derive(found, {"gap": "b - a"}, known)
    weighted = np.concatenate([x / s for x, s in zip(designs, (0.5, 2.0), strict=True)]) @ [
        [1, 0, 0],
        [1, 1, 0],
        [0, 0, 1],
    ]
    error = np.sqrt(np.linalg.inv(weighted.T @ weighted)[1, 1] * 2 * found.loss / (2 * TS.size - 3))
    half = error * known.intervals.reach[0] / known.intervals.error[0]
    assert d.scale == "identity" and (d.low, d.high) == pytest.approx((d.estimate - half, d.estimate + half), rel=1e-7)
    assert d.shift == pytest.approx(0.4 * (known.intervals.reach[1] - known.intervals.reach[0]) / half, rel=1e-7)


@pytest.mark.parametrize(
    ("shift", "word", "trusted"), [(0.9, FITTED, True), (1.1, FITTED, False), (0.0, "not converged", False)]
)
def test_trust_is_that_of_the_fit_and_of_the_shift(mixed, shift, word, trusted):
    (d,) = pdefit.derive(mixed, {"same": "a"}, judged(mixed, shift, word))
    assert d.trusted is trusted


def test_without_intervals_there_are_estimates(mixed):
    (d,) = pdefit.derive(mixed, {"double": "2 * a"}, Assessment({}))
    assert d.estimate == 1.0 and np.isnan([d.low, d.high, d.shift]).all() and d.trusted is None and not d.at_bound


def test_a_formula_without_a_value_has_no_interval(mixed):
    (d,) = pdefit.derive(mixed, {"none": "log(a - b)"}, judged(mixed))
    assert np.isnan([d.estimate, d.low, d.high]).all() and d.trusted is None


def test_what_depends_on_a_number_at_its_bound_has_no_interval():
    controls = {"a": LOG, "b": LOG, "c": pdefit.Control(bounds=(3.1, 5.0))}
    found = ended(lines(TS, controls=controls)[0])
    held, free = pdefit.derive(found, {"held": "a * c", "free": "a * b"}, judged(found))
    assert held.at_bound and np.isnan([held.low, held.high]).all() and held.trusted is None
    less = ended(lines(TS, controls={"a": LOG, "b": LOG})[0])
    (expected,) = pdefit.derive(less, {"free": "a * b"}, judged(less))
    assert (free.low, free.high) == pytest.approx((expected.low, expected.high), rel=1e-10) and not free.at_bound


class Product(pdefit.AbstractSystem):
    """u' = a b."""

    time_unit: ClassVar[str] = "s"
    a: jax.Array = pdefit.parameter(unit="m")
    b: jax.Array = pdefit.parameter(unit="1/s")

    def vector_field(self, t, y, args):
        return {"u": self.a * self.b}

    def init(self, key):
        return {"u": jnp.zeros(())}


def test_data_may_determine_a_product_but_not_its_factors():
    system = Product(a=jnp.asarray(2.0), b=jnp.asarray(3.0))
    data = pdefit.Observations.build(TS, {"u": 6 * TS + 0.1 * np.sin(9 * TS)}, 0.1)
    problem = pdefit.Problem(system, system.init(None))
    both, alone = (ended(pdefit.Functional(problem, data, dict.fromkeys(n, LOG), dt=0.25)) for n in ("ab", "a"))
    product, factor, ratio = pdefit.derive(both, {"p": "a * b", "f": "a", "r": "a / b"}, judged(both))
    (expected,) = pdefit.derive(alone, {"p": "a * b"}, judged(alone))
    # with one degree of freedom less
    one, two = (t.ppf(0.975, TS.size - k) / np.sqrt(TS.size - k) for k in (1, 2))
    widths = [np.log(d.high / d.estimate) for d in (expected, product)]
    assert widths[1] == pytest.approx(widths[0] * two / one, rel=1e-9)
    assert (factor.low, factor.high) == (ratio.low, ratio.high) == (0.0, np.inf) and factor.trusted
    assert (factor.unit, ratio.unit, product.unit) == ("m", "", "")


def test_own_numbers_of_recordings_have_a_quantity_each():
    own = {"a": pdefit.Control(LOG, scope="experiment"), "b": LOG}
    both = pdefit.Recordings([lines(TS, seed, own)[0] for seed in (0, 1)])
    found = ended(both, np.log([2.5, 0.5, 0.8]))
    formulas = {"scaled": "a / b", "shared": "b / 2", "contrast": "a[1] / a[0]", "known": "c"}
    quantities = {d.name: d.estimate for d in pdefit.derive(found, formulas, Assessment({}))}
    expected = {"scaled[0]": 0.2, "scaled[1]": 0.32, "shared": 1.25, "contrast": 1.6, "known": 3.1}
    assert quantities == pytest.approx(expected, rel=1e-14)


def test_each_member_has_the_quantities_of_its_own_fit():
    """With its own data and its own value of a known parameter, and one of two with a number at a bound."""
    several = [lines(TS, e, {"a": LOG, "b": pdefit.Control(LOG, bounds=(2.5, 5.0))})[0] for e in range(2)]
    several[1] = eqx.tree_at(
        lambda f: (f.problem.system.b, f.problem.system.c), several[1], (jnp.asarray(2.6), jnp.asarray(3.3))
    )
    alone = [(one := ended(f), judged(one)) for f in several]
    loss, gradient, matrix = (
        np.stack(x) for x in zip(*(known.intervals.equations[1] for _, known in alone), strict=True)
    )
    members, ones = pdefit.Members.of(several), np.ones(2, int)
    fits = pdefit.MemberFits(members, np.asarray(members.theta0), loss, ones == 1, ones, gradient, matrix, ones)
    formulas = {"ratio": "a / b", "with_known": "a + c", "same": "a"}
    found = pdefit.derive_each(fits, formulas, [known for _, known in alone])
    for row, (one, known) in zip(found, alone, strict=True):
        for d, e in zip(row, pdefit.derive(one, formulas, known), strict=True):
            assert (d.estimate, d.low, d.high) == pytest.approx((e.estimate, e.low, e.high), rel=1e-9, nan_ok=True)
            assert (d.name, d.at_bound, d.trusted) == (e.name, e.at_bound, e.trusted)
    assert [row[0].at_bound for row in found] == [True, False]
