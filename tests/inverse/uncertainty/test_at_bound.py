"""A number at its bound: uncertainty of all others is that of the problem in which it is held there."""

import jax.numpy as jnp
import numpy as np
import pytest
from small_systems import Lines

import pdefit
from pdefit.inverse.fit.reweight import unknowns_by_variable
from pdefit.inverse.linear.determined_inverse import determined_inverse
from pdefit.inverse.objective.compiled import normal_equations
from pdefit.inverse.uncertainty.held import held_values
from pdefit.inverse.uncertainty.marginal_intervals import marginal_inverse

TS = np.linspace(0.0, 2.0, 9)
STEPS = {"dt": 0.25, "solver": pdefit.solvers.RK4()}


def line(controls, draw=0, **options):
    """A functional of u = a t + c t^2 / 2 and v = b t + c t^2 / 2, of a record with a = 1, b = 2 and c = 0.5."""
    noise = 0.1 * np.random.default_rng(draw).normal(size=(2, TS.size))
    seen = {name: slope * TS + TS**2 / 4 + e for name, slope, e in zip("uv", (1, 2), noise, strict=True)}
    system = Lines(a=jnp.ones(()), b=jnp.asarray(2.0), c=jnp.asarray(0.4))
    data = pdefit.Observations.build(TS, seen, 0.1)
    return pdefit.Functional(pdefit.Problem(system, system.init(None)), data, controls, **STEPS, **options)


def many(controls):
    """Recordings that share c and b, each with its own a."""
    own = controls | {"a": pdefit.Control(scope="experiment")}
    return pdefit.Recordings([line(own, 0), line(own, 1)])


def segments(controls):
    """Four segments, more than their controls."""
    return line(controls, formulation=pdefit.formulations.Segments(0.5))


@pytest.fixture(scope="module", params=[line, segments, many])
def both(request):
    """Three numbers of which c is at its bound of 0.4, and the same with c held there."""
    free = {"a": pdefit.Control(), "b": pdefit.Control(prior=pdefit.priors.Normal(2.0, 0.5))}
    whole, less = (request.param(free | c) for c in ({"c": pdefit.Control(bounds=(-1.0, 0.4))}, {}))
    left = whole.controls.bounds.free(whole.theta0)
    assert list(np.array(whole.controls.names())[~left]) == ["c"]
    return whole, less, left


@pytest.mark.parametrize("stated", [False, True])
def test_intervals_are_those_of_the_problem_that_holds_it(both, stated):
    whole, less, left = both
    one, other = (pdefit.intervals(f, f.theta0, sigma_stated=stated) for f in (whole, less))
    assert (
        one.degrees == other.degrees and one.method == f"{other.method}, 1 of {left.size} unknowns held at their bounds"
    )
    for name in ("error", "reach", "low", "high"):
        np.testing.assert_allclose(getattr(one, name)[left], getattr(other, name), rtol=1e-10)
        assert np.all(np.isnan(getattr(one, name)[~left]))
    for name in ("covariance", "inverse"):
        np.testing.assert_allclose(getattr(one, name)[np.ix_(left, left)], getattr(other, name), rtol=1e-9)
        assert not np.any(getattr(one, name)[~left]) and not np.any(getattr(one, name)[:, ~left])
    assert not one.unidentifiable and "at its bound" in str(one) and "at its bound" not in str(other)
    assert np.isnan(one.z_score(np.asarray(whole.theta0), np.ones(left.size))[~left]).all()


def test_what_data_determine_does_not_count_it(both):
    whole, less, _ = both
    one, other = (pdefit.marginal_likelihood(f, f.theta0) for f in (whole, less))
    assert one.unknowns == other.unknowns and "c stands at a bound" in one.reason
    np.testing.assert_allclose(one.effective_unknowns, other.effective_unknowns, rtol=1e-10)
    pairs = zip(*(unknowns_by_variable(f, f.theta0) for f in (whole, less)), strict=True)
    for counted, expected in pairs:
        np.testing.assert_allclose([*counted.values()], [*expected.values()], rtol=1e-10)


def test_rows_of_the_inverse_by_products_are_those_of_the_matrix():
    whole = line({"a": {}, "b": {}, "c": pdefit.Control(bounds=(-1.0, 0.4))})
    left, matrix = whole.controls.bounds.free(whole.theta0), np.asarray(normal_equations(whole, whole.theta0)[2])
    rows, expected = marginal_inverse(whole, whole.theta0, left), determined_inverse(matrix, left).matrix
    np.testing.assert_allclose(rows, expected, rtol=1e-6, atol=1e-12 * np.max(expected))
    assert not np.any(expected[2]) and np.all(np.diag(expected)[:2] > 0)


def test_it_is_tested_as_a_value_that_the_fit_holds():
    """A number that recordings share and one of a recording's own: the changes are the columns of the exact Jacobian."""
    controls = {
        "a": pdefit.Control(bounds=(1.0, 3.0), scope="experiment"),
        "b": pdefit.Control(),
        "c": pdefit.Control(bounds=(-1.0, 0.4)),
    }
    objective = pdefit.Recordings([line(controls, 0), line(controls, 1)])
    theta = objective.theta0.at[objective.controls.names().index("a[1]")].set(1.5)
    (first, second), _ = held_values(pdefit.Fit(objective, theta, 0.0, 0.0, [], 0, "done", True, {}, []))
    known = {one.name: one for one in first if one.at_bound}
    assert {name: (one.path, round(one.value, 12)) for name, one in known.items()} == {
        "c": ("c", 0.4),
        "a[0]": ("a", 1.0),
    }
    # it moves to where the model is known
    assert known["c"].change < 0 < known["a[0]"].change
    for name, slope in (("c", TS**2 / 2), ("a[0]", TS)):
        np.testing.assert_allclose(np.ravel(known[name].residuals["u"]), known[name].change * slope / 0.1, atol=1e-9)
    assert not np.any({one.name: one for one in second}["a[0]"].residuals["u"])


def test_each_member_holds_its_own():
    """Of the first of two members c is at its bound: its intervals are those of a and b alone."""
    controls = {"a": pdefit.Control(), "b": pdefit.Control(), "c": pdefit.Control(bounds=(-1.0, 0.4))}
    theta = np.array([[1.0, 2.0, 0.4], [1.0, 2.0, 0.3]])
    # of 18 values: t in u, t in v, and t^2 / 2 in both
    slopes = np.stack([np.r_[TS, 0 * TS], np.r_[0 * TS, TS], np.r_[TS, TS] ** 2 / 2], 1) / 0.1
    found = pdefit.MemberFits(
        pdefit.Members.of([line(controls, 0), line(controls, 1)]), theta, np.array([8.0, 9.0]), np.ones(2, bool),
        np.ones(2, int), np.zeros((2, 3)), np.stack([slopes.T @ slopes] * 2), np.zeros(2, int),
    )  # fmt: skip
    np.testing.assert_array_equal(found.free, [[True, True, False], [True, True, True]])
    for e, degrees in ((0, 16), (1, 15)):
        left = found.free[e]
        expected = np.sqrt(2 * found.loss[e] / degrees * np.diag(np.linalg.inv(slopes[:, left].T @ slopes[:, left])))
        np.testing.assert_allclose(found.intervals().error[e, left], expected, rtol=1e-10)
    assert np.isnan(found.intervals().error[0, 2]) and np.isnan(found.intervals().high[0, 2])
