"""Gauss-Newton from products alone: on a zoo with known minima, on fields, with bounds."""

from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from problems import fisher, fisher_functional

import pdefit
from pdefit.inverse.objective.abstract import AbstractEvaluated
from pdefit.inverse.optimizers.base import Box

BOTH = {"D": pdefit.transforms.Log(), "y0": {"u": pdefit.Control(smoothing=1.0)}}

ASK = eqx.filter_jit(lambda optimizer, state: optimizer.ask(state))


@eqx.filter_jit
def tell(optimizer, state, found):
    state, accepted = optimizer.tell(state, found)
    return state, accepted, optimizer.finished(state)


class Products(AbstractEvaluated):
    """What an optimizer may ask of residuals, and how often it asked."""

    def __init__(self, residuals, parts=None):
        self.asked = 0
        self.gradient = jax.jit(jax.value_and_grad(lambda x: jnp.sum(residuals(x) ** 2) / 2))
        self.push = jax.jit(lambda x, v: jax.jvp(residuals, (x,), (v,))[1])
        self.pull = jax.jit(lambda x, moved: jax.vjp(residuals, x)[1](moved)[0])
        elements = {n: np.asarray(mask) for n, mask in (parts or {"x": np.ones(1, bool)}).items()}
        plain = SimpleNamespace(groups=np.zeros(next(iter(elements.values())).size))
        self.controls = SimpleNamespace(items=[SimpleNamespace(parametrization=plain)], elements=elements)

    def value(self, theta):
        return self.gradient(theta)[0]

    def watched_gradient(self, theta):
        return *self.gradient(theta), jnp.ones(())

    def gauss_newton_product(self, theta, v):
        self.asked += 1
        return self.pull(theta, self.push(theta, v))

    def normal_equations(self, theta):
        raise NotImplementedError("Gauss-Newton for fields never forms a matrix")

    def repeat(self, condition, body, carry):
        while bool(condition(carry)):
            carry = body(carry)
        return carry


def minimise(residuals, start, limit=100, box=None, parts=None, **options):
    """The points that were accepted, whether it converged, and how many products it took."""
    start = jnp.asarray(start)
    mask = {n: jnp.asarray(m) for n, m in (parts or {"x": np.ones(start.size, bool)}).items()}
    optimizer, objective = pdefit.optimizers.GaussNewtonCG(**options), Products(residuals, mask)
    state, points = optimizer.init(start, box or Box(np.full(start.shape, -np.inf), np.full(start.shape, np.inf))), []
    for _ in range(limit):
        found = optimizer.evaluate(objective, state)
        trial = ASK(optimizer, state)
        state, accepted, finished = tell(optimizer, state, found)
        points += [(trial, float(found.value))] if accepted else []
        if finished:
            break
    return points, bool(optimizer.converged(state)), objective.asked


def rosenbrock(x):
    return jnp.array([10 * (x[1] - x[0] ** 2), 1 - x[0]])


def decay(x):
    return jnp.exp(-x[0] * jnp.arange(5.0)) * x[1] - jnp.array([1.0, 0.5, 0.3, 0.1, 0.2])


def test_known_minima_are_found_and_values_never_rise():
    for residuals, start, minimum in [
        (lambda x: jnp.array([1.0, 10.0, 0.1]) * (x - jnp.arange(3.0)), np.full(3, 5.0), np.arange(3.0)),
        (rosenbrock, [-1.2, 1.0], [1.0, 1.0]),
        (decay, [0.1, 2.0], None),
    ]:
        points, converged, _ = minimise(residuals, start)
        assert converged and np.all(np.diff([v for _, v in points]) <= 1e-12)
        if minimum is None:
            slope = jax.grad(lambda x, f=residuals: jnp.sum(f(x) ** 2) / 2)(points[-1][0])
            np.testing.assert_allclose(slope, 0, atol=1e-6)
        else:
            np.testing.assert_allclose(points[-1][0], minimum, atol=1e-6)


def test_a_minimum_on_a_bound_and_a_region_without_values():
    box = Box(np.array([-np.inf, -np.inf]), np.array([0.5, np.inf]))
    points, converged, _ = minimise(rosenbrock, [-1.2, 1.0], box=box)
    assert converged
    np.testing.assert_allclose(points[-1][0], [0.5, 0.25], atol=1e-6)

    def walled(x):
        return jnp.where(x > 2.5, jnp.nan, jnp.exp(x) - jnp.exp(2.0))

    points, converged, _ = minimise(walled, [-1.0], limit=200)
    assert converged
    np.testing.assert_allclose(points[-1][0], [2.0], atol=1e-5)


def test_a_damped_fit_goes_steadily_where_an_undamped_one_must_be_shortened():
    first = []
    for damping in (0.0, 10.0):
        points, converged, _ = minimise(rosenbrock, [-1.2, 1.0], damping=damping)
        assert converged
        np.testing.assert_allclose(points[-1][0], [1.0, 1.0], atol=1e-6)
        first.append(float(np.linalg.norm(points[1][0] - points[0][0])))
    # the step is a small part of the whole one, and no fit is converged before the damping has gone
    assert first[1] < 0.2 * first[0]
    assert minimise(lambda x: x - 1.0, [0.0], limit=3, damping=10.0)[1] is False


def test_round_off_hides_no_more_than_a_thousandth_of_a_misfit_of_noise():
    box = Box(np.zeros(1), np.ones(1), round_off=100.0, values=200.0)
    assert float(box.noise(jnp.asarray(100.0))) == 0.1
    # far below sigma residuals are no noise, and round-off may be all that is left
    assert float(box.noise(jnp.asarray(1e-6))) > 1e-3


def test_controls_of_different_size_are_scaled_to_each_other():
    """A linear problem of two groups whose curvatures differ by 1e8: one product for each group, then no more than a
    well-scaled one takes."""
    rng = np.random.default_rng(0)
    size = np.where(np.arange(20) < 10, 1.0, 1e-4)
    matrix = jnp.asarray((np.eye(20) + 0.1 * rng.normal(size=(20, 20))) * size[None])
    parts = {"a": np.arange(20) < 10, "b": np.arange(20) >= 10}

    def count(residuals, **options):
        points, converged, asked = minimise(residuals, np.ones(20), tolerance=1e-8, products=200, **options)
        assert converged
        return asked

    scaled = count(lambda x: matrix @ x - 1.0, parts=parts)
    assert scaled <= 1.6 * count(lambda x: (matrix / size[None]) @ x - 1.0) < count(lambda x: matrix @ x - 1.0)


def test_a_step_goes_on_while_it_brings_much_though_the_residual_has_long_fallen():
    """Five steep directions hold nearly all of the gradient, a hundred flat ones nearly all of the decrease."""
    size = np.concatenate([np.full(5, 100.0), np.geomspace(0.5, 2.0, 100)])
    away = np.concatenate([np.full(5, 0.01), np.ones(100)])
    points, _, asked = minimise(lambda x: size * (x - away), np.zeros(105), limit=2, products=100, tolerance=0.0)
    values = [v for _, v in points]
    assert values[1] < 0.1 * values[0] and asked < 30


def test_a_field_is_found_with_far_fewer_evaluations_than_by_gradients():
    truth = fisher()
    functional = fisher_functional(BOTH, noise=1e-3, times=np.linspace(0.0, 1.0, 9), guess=(0.8, 1.0))
    y0 = type(truth.init(None))(truth.init(None).u * 0.7)
    functional = eqx.tree_at(lambda f: f.problem.y0, functional, y0)
    newton = pdefit.fit(functional, [pdefit.optimizers.GaussNewtonCG()])
    gradients = pdefit.fit(functional, [pdefit.Stage(pdefit.optimizers.LBFGS(), 500)])
    assert newton.converged and newton.iterations <= 40 and gradients.iterations > 5 * newton.iterations
    np.testing.assert_allclose(newton.loss, gradients.loss, rtol=1e-4)
    np.testing.assert_allclose(newton.problem.y0.u, gradients.problem.y0.u, atol=2e-3)
