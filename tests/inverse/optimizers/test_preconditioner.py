"""Numbers beside a whole initial state: exact where points do not feel each other, and a help where they do."""

from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import fisher, fisher_functional

import pdefit
from pdefit.inverse.optimizers.cell_equations import has_points
from pdefit.inverse.optimizers.preconditioner import SWEEPS, two_level
from pdefit.inverse.uncertainty.marginal_intervals import marginal_inverse

POINTS = 40
STATE = {"y0": {"u": pdefit.transforms.Identity(), "v": pdefit.transforms.Identity()}}


@pytest.fixture(autouse=True)
def small_fields(monkeypatch):
    """What is a field here would be numbers to histories and tables."""
    for module in ("theta", "bound_control"):
        monkeypatch.setattr(f"pdefit.inverse.controls.{module}.FEW", 20)


class Pair(NamedTuple):
    u: jax.Array
    v: jax.Array


class Cells(pdefit.AbstractSystem):
    """u' = v - a u^2, v' = -b v at every point by itself."""

    time_unit: ClassVar[str] = "s"
    a: jax.Array = pdefit.parameter(positive=True)
    b: jax.Array = pdefit.parameter(positive=True)

    def vector_field(self, t, y, args):
        return Pair(y.v - self.a * y.u**2, -self.b * y.v)

    def init(self, key):
        x = jnp.linspace(0.0, 1.0, POINTS)
        return Pair(1 + 0.5 * jnp.sin(7 * x), 1 + x)


def cells_functional(controls=None, noise=0.02, guess=(1.3, 0.6), **options):
    truth = Cells(a=1.0, b=0.5)
    y0, ts = truth.init(None), np.linspace(0.0, 2.0, 9)
    data = pdefit.add_noise(pdefit.simulate(truth, y0, ts, dt=0.05), noise, jax.random.key(0))
    problem = pdefit.Problem(Cells(a=guess[0], b=guess[1]), jax.tree.map(lambda x: 0.9 * x, y0))
    controls = controls or {"a": pdefit.transforms.Log(), "b": pdefit.transforms.Log(), **STATE}
    return pdefit.Functional(problem, data, controls, dt=0.05, **options)


@eqx.filter_jit
def solved(functional, theta, r):
    states = functional.controls.states.items
    scale = jnp.ones((states[0].size, len(states)))
    return two_level(functional, theta, jnp.zeros(()), scale, jnp.asarray(SWEEPS)).solve(r)


def dense(functional, theta):
    jac = np.asarray(eqx.filter_jit(pdefit.Functional.jacobian)(functional, theta))
    return jac.T @ jac


def test_it_is_the_inverse_where_points_are_by_themselves():
    functional = cells_functional()
    theta, r = functional.theta0, jax.random.normal(jax.random.key(3), functional.theta0.shape)
    assert has_points(functional) and functional.controls.names()[:2] == ["a", "b"]
    matrix = dense(functional, theta)
    np.testing.assert_allclose(solved(functional, theta, r), np.linalg.solve(matrix, r), rtol=1e-5)
    alone = cells_functional(STATE)
    found = solved(alone, alone.theta0, r[2:])
    np.testing.assert_allclose(found, np.linalg.solve(matrix[2:, 2:], r[2:]), rtol=1e-5)


def test_a_prior_of_a_number_is_in_it():
    prior = pdefit.Control(pdefit.transforms.Log(), prior=pdefit.priors.LogNormal(1.0, 1e-3))
    functional = cells_functional({"a": prior, "b": pdefit.transforms.Log(), **STATE})
    theta, r = functional.theta0, jax.random.normal(jax.random.key(3), functional.theta0.shape)
    expected = np.linalg.solve(dense(functional, theta), r)
    np.testing.assert_allclose(solved(functional, theta, r), expected, rtol=1e-5)
    loose = solved(cells_functional(), theta, r)
    assert abs(float(loose[0])) > 1.5 * abs(float(expected[0]))


def test_one_product_is_a_newton_step_where_points_are_by_themselves():
    few, exact = (
        pdefit.fit(cells_functional(), [pdefit.Stage(optimizer, 30)])
        for optimizer in (
            pdefit.optimizers.GaussNewtonCG(products=1, decrement=0.0),
            pdefit.optimizers.LevenbergMarquardt(decrement=0.0),
        )
    )
    assert few.converged and few.iterations <= 10
    np.testing.assert_allclose(few.theta, exact.theta, atol=1e-5)


@pytest.mark.parametrize(
    ("controls", "expected"),
    [
        ({"a": pdefit.transforms.Log(), **STATE}, True),
        (STATE, True),
        ({"a": pdefit.transforms.Log()}, False),
        ({"a": pdefit.transforms.Log(), "y0": {"u": pdefit.Control(smoothing=2.0)}}, False),
    ],
)
def test_which_unknowns_have_points(controls, expected):
    assert has_points(cells_functional(controls)) is expected


def test_recordings_have_no_points():
    own = {"a": pdefit.transforms.Log(), "y0": {n: pdefit.Control(scope="experiment") for n in ("u", "v")}}
    recordings = pdefit.Recordings([cells_functional(own)] * 2)
    assert not has_points(recordings)
    found = pdefit.fit(recordings, [pdefit.Stage(pdefit.optimizers.GaussNewtonCG(products=1), 1)])
    assert found.iterations == 1 and np.isfinite(found.loss)


def front():
    """D and r of a front, and where it starts from, out of a noisy film."""
    controls = {"D": pdefit.transforms.Log(), "r": pdefit.transforms.Log(), "y0": {"u": pdefit.transforms.Identity()}}
    times = np.linspace(0.0, 3.0, 7)
    return fisher_functional(controls, noise=0.01, times=times, guess=(0.8, 1.2), dt=0.1)


def test_with_diffusion_it_finds_the_minimum_that_levenberg_marquardt_finds():
    functional = front()
    assert has_points(functional)
    products, exact = (
        pdefit.fit(functional, [pdefit.Stage(optimizer, 60)])
        for optimizer in (
            pdefit.optimizers.GaussNewtonCG(decrement=0.0),
            pdefit.optimizers.LevenbergMarquardt(decrement=0.0),
        )
    )
    assert products.converged and exact.converged
    np.testing.assert_allclose(products.loss, exact.loss, rtol=1e-6)
    np.testing.assert_allclose(products.theta[:2], exact.theta[:2], atol=1e-4)
    assert abs(float(products.problem.system.D) - float(fisher().D)) < 0.2
    soon = pdefit.fit(functional, [pdefit.optimizers.GaussNewtonCG(products=60)])
    assert soon.converged and soon.events[0].startswith("stage 1: ended where J could fall by ")
    # the numbers each, and the state in the mean
    off = (soon.theta - exact.theta) / pdefit.intervals(functional, exact.theta).error
    assert np.all(np.abs(off[:2]) < 0.1) and np.sqrt(np.mean(off**2)) < 0.1


@pytest.mark.parametrize("make", [cells_functional, front])
def test_the_inverse_of_the_numbers_is_a_block_of_the_dense_inverse(make):
    functional = make()
    expected = np.linalg.inv(dense(functional, functional.theta0))[:2, :2]
    found = marginal_inverse(functional, functional.theta0, functional.controls.bounds.free(functional.theta0))[:, :2]
    size = np.sqrt(np.diag(expected))
    np.testing.assert_allclose(found / np.outer(size, size), expected / np.outer(size, size), atol=1e-3)


def test_smoothed_fields_are_beside_numbers_too():
    """Without points the mean curvatures are what helps."""
    controls = {"D": pdefit.transforms.Log(), "y0": {"u": pdefit.Control(smoothing=1.0)}}
    functional = fisher_functional(controls, noise=0.01, times=np.linspace(0.0, 3.0, 7), guess=(0.8, 1.0), dt=0.1)
    expected = np.linalg.inv(dense(functional, functional.theta0))[0, 0]
    np.testing.assert_allclose(
        marginal_inverse(functional, functional.theta0, functional.controls.bounds.free(functional.theta0))[0, 0],
        expected,
        rtol=1e-3,
    )


def test_intervals_of_many_unknowns_are_those_of_the_numbers(monkeypatch):
    functional = cells_functional()
    found = pdefit.fit(functional, [pdefit.optimizers.GaussNewtonCG()])
    whole = pdefit.intervals(functional, found.theta)
    monkeypatch.setattr("pdefit.inverse.uncertainty.intervals._MANY", 10)
    few = pdefit.intervals(functional, found.theta)
    assert "fields unknown too" in few.method and few.degrees == whole.degrees
    np.testing.assert_allclose(few.error[:2], whole.error[:2], rtol=1e-3)
    np.testing.assert_allclose(few.low[:2], whole.low[:2], rtol=1e-3)
    assert np.all(np.isnan(few.error[2:])) and not few.unidentifiable
    alone = cells_functional(STATE)
    with pytest.raises(pdefit.PdefitError, match="are refused above 10"):
        pdefit.intervals(alone, alone.theta0)


class Unlike(Cells):
    """u' = v - a u^2 + g(x) (u - u of a neighbour): what changes everywhere alike hides how fast a point grows alone."""

    def vector_field(self, t, y, args):
        growth = jnp.linspace(0.0, 4.0, POINTS)
        rates = super().vector_field(t, y, args)
        return Pair(rates.u + growth * (y.u - jnp.roll(y.u, 1)), rates.v)


def test_norms_of_rows_save_products_where_points_feel_each_other():
    """The fall of the quadratic model by few products; where points grow unlike each other it is much larger."""
    functional = eqx.tree_at(lambda f: f.problem.system, cells_functional(), Unlike(a=1.3, b=0.6))
    theta, matrix = functional.theta0, dense(functional, functional.theta0)
    slope = np.linalg.cholesky(matrix + 1e-9 * np.diag(np.diag(matrix))) @ np.random.default_rng(0).normal(
        size=theta.size
    )
    falls = []
    for sweeps in (0, SWEEPS):
        parts = eqx.filter_jit(two_level)(functional, theta, jnp.zeros(()), jnp.ones((POINTS, 2)), jnp.asarray(sweeps))
        r, v, fall, before = slope, np.zeros_like(slope), 0.0, np.inf
        for _ in range(8):
            z = np.asarray(parts.solve(jnp.asarray(r)))
            inner = r @ z
            v = z + inner / before * v
            length, before = inner / (v @ matrix @ v), inner
            r, fall = r - length * matrix @ v, fall + length * inner / 2
        falls.append(fall)
    assert falls[1] > 2 * falls[0]
