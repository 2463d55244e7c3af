"""Unknown terms: what they start as, what they can be, and what they change in a system."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pdefit_classics.korteweg_de_vries import KortewegDeVries
from pdefit_particles import Gravity
from pdefit_populations import LotkaVolterra
from pdefit_reaction import FisherKPP
from problems import GRID, VALUE

import pdefit
from pdefit._util.errors import PdefitError
from pdefit.systems.time_series import interpolated

X = np.linspace(0.0, 2.0, 7)
CALL = eqx.filter_jit(lambda term, *values: term(*values))


def test_a_network_is_nearly_nothing_at_first_and_goes_point_by_point():
    term = pdefit.terms.Network(("x", "y"), sizes=(2.0, 5.0), size=3.0)
    found = np.asarray(CALL(term, X[:, None], np.ones((1, 3))))
    assert found.shape == (7, 3) and 0 < np.max(np.abs(found)) < 0.5
    assert float(found[2, 1]) == pytest.approx(float(CALL(term, X[2], np.asarray(1.0))))
    # its inputs are divided by their sizes
    same = pdefit.terms.Network(("x", "y"), size=3.0)
    np.testing.assert_allclose(CALL(term, X, X), CALL(same, X / 2, X / 5))


@pytest.mark.parametrize("basis", ["chebyshev", "fourier", "spline"])
def test_a_series_is_its_sum_of_basis_functions(basis):
    count, c = 5, np.array([0.3, -0.5, 0.2, 0.7, -0.1])
    term = pdefit.terms.Series(("x",), 0.0, 2.0, basis, count, c)
    part = np.asarray(X) / 2
    if basis == "chebyshev":
        wanted = np.polynomial.chebyshev.chebval(2 * part - 1, c)
    elif basis == "fourier":
        waves = [np.sin(2 * np.pi * part), np.sin(4 * np.pi * part), np.cos(2 * np.pi * part), np.cos(4 * np.pi * part)]
        wanted = c[0] + np.stack(waves, -1) @ c[1:]
    else:
        wanted = np.array([c[0], np.nan, np.nan, c[2], np.nan, np.nan, c[4]])
    found = np.asarray(CALL(term, X))
    np.testing.assert_allclose(found[~np.isnan(wanted)], wanted[~np.isnan(wanted)], atol=1e-12)
    # linear in its coefficients, from nothing
    assert not np.any(CALL(pdefit.terms.Series(("x",), 0.0, 2.0, basis, count), X))


@pytest.mark.parametrize("count", [2, 3, 6])
def test_a_spline_is_that_of_a_smooth_time_series(count):
    c, x = np.random.default_rng(count).normal(size=count), np.linspace(-0.2, 2.2, 41)
    knots = np.linspace(0.0, 2.0, count)
    wanted = jax.jit(jax.vmap(lambda t: interpolated(knots, jnp.asarray(c), t, "smooth")))(x)
    np.testing.assert_allclose(CALL(pdefit.terms.Series(("x",), 0.0, 2.0, "spline", count, c), x), wanted, atol=1e-13)


def test_a_positive_series_is_the_exponential_of_the_sum():
    c = np.array([-4.0, 3.0, -5.0, 2.0])
    plain, positive = (pdefit.terms.Series(("x",), 0.0, 2.0, "spline", 4, c, positive=p) for p in (False, True))
    np.testing.assert_allclose(np.log(CALL(positive, X)), CALL(plain, X), rtol=1e-12)


def test_a_formula_has_a_value_at_every_point_in_the_precision_of_its_inputs():
    single = jnp.asarray(X, jnp.float32)
    assert pdefit.terms.Formula("x * (1 - x)", ("x",))(single).dtype == jnp.float32
    np.testing.assert_array_equal(pdefit.terms.Formula("2", ("x",))(single), np.full(7, 2.0, np.float32))


def test_a_known_term_given_as_unknown_makes_the_same_equations():
    whole = LotkaVolterra(alpha=1.3, beta=0.9, gamma=1.8, delta=0.8, start=(0.4, 4.6))
    rest = LotkaVolterra(alpha=1.3, beta=0.0, gamma=1.8, delta=0.0, start=(0.4, 4.6))
    formula = pdefit.terms.Formula("c * prey * predator", ("prey", "predator"), {"c": -0.9})
    other = pdefit.terms.Formula("0.8 * a * b", ("a", "b"))
    made = pdefit.with_unknown(rest, {"prey": formula})
    with pytest.raises(PdefitError, match="input of the unknown term"):
        pdefit.with_unknown(rest, {"predator": other})
    made = pdefit.with_unknown(
        rest, {"prey": formula, "predator": pdefit.terms.Formula("0.8 * prey * predator", ("prey", "predator"))}
    )
    y = whole.init(jax.random.key(0))
    for one, two in zip(
        whole.vector_field(jnp.asarray(0.0), y, None), made.vector_field(jnp.asarray(0.0), y, None), strict=True
    ):
        assert float(one) == pytest.approx(float(two), rel=1e-14)
    assert isinstance(made, LotkaVolterra) and type(made).__name__ == "LotkaVolterra"
    assert pdefit.unknown_terms(made)["unknown_prey"] is formula and pdefit.unknown_terms(rest) == {}
    # its constants are controls
    problem = pdefit.Problem(made, y)
    ts = np.linspace(0.0, 1.0, 6)
    data = pdefit.simulate(whole, y, ts, dt=0.05)
    J = pdefit.Functional(problem, data, {"unknown_prey": {"constants": pdefit.transforms.Identity()}}, dt=0.05)
    assert J.controls.names() == ["unknown_prey.constants.c"] and float(VALUE(J, jnp.array([-0.9], float))) < 1e-20


def test_splits_take_the_term_explicitly():
    known = FisherKPP(grid=GRID, D=1.0, r=1.0, front=-5.0)
    rest = FisherKPP(grid=GRID, D=1.0, r=0.0, front=-5.0)
    made = pdefit.with_unknown(rest, {"u": pdefit.terms.Formula("u * (1 - u)", ("u",))})
    y = known.init(None)
    for method in ("vector_field", "explicit"):
        one, two = (getattr(s, method)(jnp.asarray(0.0), y, None).u for s in (known, made))
        np.testing.assert_allclose(one, two, atol=1e-14)
    assert made.coords().keys() == known.coords().keys()


def test_a_spectral_system_takes_the_term_once_with_every_solver():
    rest = KortewegDeVries(pdefit.FourierGrid((16,), (2.0,), (-1.0,)), 1.0, 0.0025)
    y = rest.init(None)
    made = pdefit.with_unknown(rest, {"u": pdefit.terms.Formula("2 * cos(u)", ("u",))})
    t = jnp.asarray(0.0)
    for method in ("vector_field", "explicit"):
        one, two = (getattr(s, method)(t, y, None).u for s in (rest, made))
        np.testing.assert_allclose(two, one + 2 * jnp.cos(y.u), rtol=1e-13, atol=1e-12)
    one, two = (s.explicit_modes(t, y, None).u for s in (rest, made))
    np.testing.assert_allclose(rest.grid.from_modes(two - one), 2 * jnp.cos(y.u), atol=1e-12)
    # the mean of u grows by 2 in one unit of time
    level = pdefit.with_unknown(rest, {"u": pdefit.terms.Formula("2", ("u",))})
    for solver in (pdefit.solvers.ETDRK4(), pdefit.solvers.RK4()):
        end = pdefit.solve(level, y, np.array([0.0, 0.01]), solver=solver, dt=1e-4).u[-1]
        np.testing.assert_allclose(jnp.mean(end) - jnp.mean(y.u), 0.02, rtol=1e-9)


def test_what_cannot_be_is_refused():
    lotka = LotkaVolterra(alpha=1.0, beta=1.0, gamma=1.0, delta=1.0)
    with pytest.raises(PdefitError, match="did you mean prey"):
        pdefit.with_unknown(lotka, {"pray": pdefit.terms.Network(("prey",))})
    bodies = Gravity.example(2).system
    with pytest.raises(PdefitError, match="second order"):
        pdefit.with_unknown(bodies, {"x": pdefit.terms.Network(("x",))})
    with pytest.raises(PdefitError, match="one input and a range"):
        pdefit.terms.Series(("x", "y"), 0.0, 1.0)
    with pytest.raises(PdefitError, match="odd number"):
        pdefit.terms.Series(("x",), 0.0, 1.0, "fourier", 4)
    with pytest.raises(PdefitError, match="positive size"):
        pdefit.terms.Network(("x",), sizes=(0.0,))
    with pytest.raises(PdefitError, match="input or constant"):
        pdefit.terms.Formula("c * z", ("x",), {"c": 1.0})
