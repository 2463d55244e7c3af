"""Formulas found in the place of learned terms."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pdefit_populations import LotkaVolterra

import pdefit
from pdefit._util.errors import PdefitError
from pdefit.analysis.discovery import search
from pdefit.analysis.discovery.discover import Discovery
from pdefit.analysis.discovery.subsets import penalty, subsets

BOTH = ("prey", "predator")


@pytest.fixture(scope="module")
def learned():
    """A fit of noisy predators and prey, in which a term of another form stands for their encounters."""
    truth = LotkaVolterra(alpha=1.3, beta=0.9, gamma=1.8, delta=0.8, start=(0.44, 4.6))
    ts = np.linspace(0.0, 3.0, 16)
    y0 = truth.init(jax.random.key(0))
    data = pdefit.add_noise(pdefit.simulate(truth, y0, ts, dt=0.1), 0.005, jax.random.key(0))
    rest = LotkaVolterra(alpha=1.3, beta=0.0, gamma=1.8, delta=0.8, start=(0.44, 4.6))
    # near the truth, as a learned term is: of another form, and a little off
    near = pdefit.terms.Formula("a * tanh(1.2 * prey * predator)", BOTH, {"a": -0.8})
    problem = pdefit.Problem(pdefit.with_unknown(rest, {"prey": near}), y0)
    J = pdefit.Functional(problem, data, {"unknown_prey": pdefit.Control()}, dt=0.1)
    fit = pdefit.fit(J, [pdefit.optimizers.LevenbergMarquardt()])
    return fit.functional, fit.theta


def test_the_true_term_is_found_with_its_error(learned):
    found = pdefit.discover(*learned, pdefit.TermLibrary(2))
    assert isinstance(found, Discovery) and not found.misses
    ((one,),) = found.best.terms.values()
    assert str(one.expression) == "prey * predator" and abs(one.coefficient + 0.9) < 4 * one.error < 0.1
    # the others stand in the order of the criterion, and the formula is a term that can be fitted
    assert all(a.criterion <= b.criterion for a, b in itertools.pairwise(found.found[1:]))
    assert len(found.best.forms) <= min((len(f.forms) for f in found.rivals), default=9)
    (formula,) = found.formulas().values()
    x, y = jnp.asarray(0.7), jnp.asarray(2.0)
    assert float(formula(x, y)) == pytest.approx(one.coefficient * 1.4)
    # a library without it is said to miss
    assert pdefit.discover(*learned, pdefit.TermLibrary(1)).misses


def test_sets_with_which_the_equations_blow_up_are_dropped_and_the_next_best_are_ranked(learned, monkeypatch):
    fits, rounds = search.fits_holding, []

    def first_ones_blow_up(rows, held, *rest):
        ends, loss = fits(rows, held, *rest)
        rounds.append(loss)
        return ends, np.full_like(loss, np.inf) if len(rounds) == 1 else loss

    monkeypatch.setattr(search, "fits_holding", first_ones_blow_up)
    found = pdefit.discover(*learned, pdefit.TermLibrary(2))
    assert len(rounds) > 1 and all(np.isfinite(one.chi2) for one in found.found)
    # a set that blew up is found again from a better point, and is then not dropped
    assert found.dropped and not {str(one) for one in found.found} & {*found.dropped}
    assert all(" in unknown_prey" in words for words in found.dropped)


def test_a_fitted_set_whose_tangents_blow_up_ends_nothing(learned, monkeypatch):
    equations, calls = search.equations_of, []

    def not_finite(members):
        value, gradient, matrix = equations(members)
        calls.append(0)
        return value, gradient, matrix if len(calls) == 1 else np.full_like(matrix, np.nan)

    monkeypatch.setattr(search, "equations_of", not_finite)
    found = pdefit.discover(*learned, pdefit.TermLibrary(2))
    assert len(found.found) == search.REFITTED and all(np.isnan(one.error) for one in found.best.terms["unknown_prey"])


def test_a_candidate_that_is_not_finite_along_the_trajectory_is_dropped_and_named(learned):
    # the others are those of the library above, and of a root the value is finite and the slope is not
    found = pdefit.discover(*learned, pdefit.TermLibrary(2, formulas=("log(prey - 9)", "sqrt(0 * prey)")))
    assert found.dropped[:2] == ("log(prey - 9) in unknown_prey", "sqrt(0 * prey) in unknown_prey")
    assert [str(one.expression) for one in found.best.terms["unknown_prey"]] == ["prey * predator"]


def test_a_system_without_unknown_terms_is_refused(learned):
    functional, _ = learned
    known = LotkaVolterra(alpha=1.3, beta=0.9, gamma=1.8, delta=0.8, start=(0.44, 4.6))
    problem = pdefit.Problem(known, functional.problem.y0)
    J = pdefit.Functional(problem, functional.observations, {"alpha": pdefit.transforms.Log()}, dt=0.1)
    with pytest.raises(PdefitError, match="unknown terms"):
        pdefit.discover(J, J.theta0)


def test_libraries_hold_each_candidate_once():
    wide = pdefit.TermLibrary(2, ("sin", "hill"), ("x / (0.5 + x)", "x * y"))
    found = [str(e) for e in wide.of("f", ("x", "y"), units={"y": "mm"})]
    hill = ["x^2 / (K^2 + x^2)", "y^2 / (K^2 + y^2)"]
    mixed = ["y * (x^2 / (K^2 + x^2))", "x * (y^2 / (K^2 + y^2))"]
    assert found == ["1", "x", "y", "x^2", "x * y", "y^2", "sin(x)", *hill, *mixed, "x / (0.5 + x)"]
    assert len(pdefit.TermLibrary(5, ("sin",)).of("f", ("x", "y"))) == 23
    with pytest.raises(PdefitError, match="the inputs are x"):
        pdefit.TermLibrary(1, (), {"f": ["x * z"]}).of("f", ("x",))
    with pytest.raises(PdefitError, match="larger than"):
        pdefit.TermLibrary(6).of("f", tuple("abcdef"))
    with pytest.raises(PdefitError, match="rename the input"):
        pdefit.TermLibrary(1).of("f", ("x", "K"))
    with pytest.raises(PdefitError, match="holds no input"):
        pdefit.TermLibrary(1, formulas=("1 / K",)).of("f", ("x",))
    with pytest.raises(PdefitError, match="eval"):
        pdefit.TermLibrary(1, ("eval",))


def test_subsets_are_the_best_of_their_size():
    rng = np.random.default_rng(0)
    columns, wanted = rng.normal(size=(40, 7)), np.array([0.0, 2.0, 0.0, 0.0, -1.0, 0.5, 0.0])
    b = columns @ wanted + 0.01 * rng.normal(size=40)
    best = {}
    for chosen, fall in subsets(columns.T @ columns, columns.T @ b, 4):
        best.setdefault(len(chosen), (chosen, fall))
    for size in (1, 2, 3, 4):
        falls = {
            s: b @ b - np.linalg.lstsq(columns[:, s], b, rcond=None)[1][0]
            for s in itertools.combinations(range(7), size)
        }
        chosen = max(falls, key=lambda s: falls[s])
        assert best[size][0] == chosen and best[size][1] == pytest.approx(falls[chosen], rel=1e-6)
    # what a term must bring grows with the number of sets there were
    assert penalty(1, 2, 100) < penalty(1, 200, 100) and penalty(0, 50, 100) == pytest.approx(0.0)
