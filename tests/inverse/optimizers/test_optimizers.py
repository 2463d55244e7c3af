"""Every optimizer on a zoo of problems with known minima, through ask and tell alone."""

import functools
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy.optimize import least_squares, lsq_linear

import pdefit
from pdefit.inverse.optimizers.base import Box, Evaluation


class Zoo(NamedTuple):
    """Residuals, a start and the minimum."""

    residuals: object
    start: np.ndarray
    minimum: np.ndarray | None


ZOO = {
    "quadratic": Zoo(lambda x: jnp.array([1.0, 10.0, 0.1]) * (x - jnp.arange(3.0)), np.full(3, 5.0), np.arange(3.0)),
    "rosenbrock": Zoo(
        lambda x: jnp.array([10 * (x[1] - x[0] ** 2), 1 - x[0]]), np.array([-1.2, 1.0]), np.array([1.0, 1.0])
    ),
    # Powell's singular function: the Jacobian has rank 2 at the minimum
    "powell": Zoo(
        lambda x: jnp.array(
            [x[0] + 10 * x[1], 5**0.5 * (x[2] - x[3]), (x[1] - 2 * x[2]) ** 2, 10**0.5 * (x[0] - x[3]) ** 2]
        ),
        np.array([3.0, -1.0, 0.0, 1.0]),
        np.zeros(4),
    ),
    # exp(-x t) with residuals that do not vanish
    "decay": Zoo(
        lambda x: jnp.exp(-x[0] * jnp.arange(5.0)) * x[1] - jnp.array([1.0, 0.5, 0.3, 0.1, 0.2]),
        np.array([0.1, 2.0]),
        None,
    ),
}
OPTIMIZERS = {
    "lm": (pdefit.optimizers.LevenbergMarquardt(tolerance=1e-14), 200, 1e-5),
    "lbfgs": (pdefit.optimizers.LBFGS(), 400, 1e-4),
    "adam": (pdefit.optimizers.Adam(0.05), 20000, 2e-2),
}


def evaluate(residuals, theta):
    r, jac = residuals(theta), jax.jacfwd(residuals)(theta)
    return Evaluation(jnp.sum(r**2) / 2, jac.T @ r, jac.T @ jac)


@eqx.filter_jit
def advance(optimizer, residuals, state, count=1):
    """So many evaluations: the states after each, the points, their values, whether accepted, and whether finished."""

    def step(state, _):
        theta = optimizer.ask(state)
        found = evaluate(residuals, theta)
        state, accepted = optimizer.tell(state, found)
        return state, (state, theta, found.value, accepted, optimizer.finished(state))

    return jax.lax.scan(step, state, None, length=count)[1]


def begin(optimizer, start, box=None):
    return optimizer.init(jnp.asarray(start), box or Box(np.full(len(start), -np.inf), np.full(len(start), np.inf)))


def minimise(optimizer, residuals, start, limit, box=None):
    """Ask, evaluate, tell, until converged; returns all points."""
    state, points, count = begin(optimizer, start, box), [], 500 if limit > 1000 else 10
    while len(points) < limit:
        states, *found = jax.tree.map(np.asarray, advance(optimizer, residuals, state, count))
        state = last(states)
        for *point, done in zip(*found, strict=True):
            points.append(point)
            if done or len(points) == limit:
                return points
    return points


def last(states):
    return jax.tree.map(lambda x: jax.device_put(np.asarray(x)[-1]), states)


def best(points):
    return min((p for p in points if np.isfinite(p[1])), key=lambda p: p[1])


@pytest.mark.parametrize("name", ZOO)
@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_the_minimum_is_found(kind, name):
    optimizer, limit, tolerance = OPTIMIZERS[kind]
    zoo = ZOO[name]
    points = minimise(optimizer, zoo.residuals, zoo.start, limit)
    # Powell's minimum is flat: gradients vanish with the third power of the distance
    atol = 30 * tolerance if name == "powell" else tolerance
    minimum = zoo.minimum
    if minimum is None:
        minimum = least_squares(lambda x: np.asarray(zoo.residuals(x)), zoo.start, xtol=1e-12, gtol=1e-12).x
    np.testing.assert_allclose(best(points)[0], minimum, atol=atol)


@pytest.mark.parametrize(("kind", "most"), [("lm", 40), ("lbfgs", 60)])
def test_rosenbrock_takes_few_evaluations(kind, most):
    points = minimise(OPTIMIZERS[kind][0], ZOO["rosenbrock"].residuals, ZOO["rosenbrock"].start, 400)
    assert len(points) <= most


def test_levenberg_marquardt_solves_a_linear_problem_at_once():
    points = minimise(
        pdefit.optimizers.LevenbergMarquardt(damping=1e-10, max_step=100.0),
        ZOO["quadratic"].residuals,
        np.full(3, 5.0),
        9,
    )
    np.testing.assert_allclose(points[1][0], np.arange(3.0), atol=1e-6)


def test_accepted_values_never_rise():
    for optimizer in (pdefit.optimizers.LevenbergMarquardt(), pdefit.optimizers.LBFGS()):
        values = [v for _, v, ok in minimise(optimizer, ZOO["rosenbrock"].residuals, np.array([-1.2, 1.0]), 100) if ok]
        assert np.all(np.diff(values) <= 1e-12)


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_a_region_without_values_is_walked_around(kind):
    """J is NaN for x > 2.5, just behind the minimum; every step into it is rejected and the fit goes on."""
    optimizer, limit, tolerance = OPTIMIZERS[kind]

    def residuals(x):
        return jnp.where(x > 2.5, jnp.nan, jnp.exp(x) - jnp.exp(2.0))

    points = minimise(optimizer, residuals, np.array([-3.0]), limit)
    bad = [ok for _, value, ok in points if not np.isfinite(value)]
    assert not any(bad)
    np.testing.assert_allclose(best(points)[0], 2.0, atol=tolerance)


def test_the_step_into_the_void_is_really_taken():
    """Without this, the test above would prove nothing about rejection."""
    points = minimise(
        pdefit.optimizers.LevenbergMarquardt(max_step=50.0),
        lambda x: jnp.where(x > 2.5, jnp.nan, jnp.exp(x) - jnp.exp(2.0)),
        np.array([-3.0]),
        200,
    )
    assert not all(np.isfinite(value) for _, value, _ in points)


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_bounds_are_never_left_and_the_bounded_minimum_is_found(kind):
    optimizer, limit, tolerance = OPTIMIZERS[kind]
    box = Box(np.array([-2.0, -2.0]), np.array([0.5, 2.0]))
    points = minimise(optimizer, ZOO["rosenbrock"].residuals, np.array([-1.2, 1.0]), limit, box)
    for theta, _, _ in points:
        assert np.all(theta >= box.lower) and np.all(theta <= box.upper)
    # on the edge x = 0.5 Rosenbrock's function is smallest at y = x^2
    np.testing.assert_allclose(best(points)[0], [0.5, 0.25], atol=max(tolerance, 1e-3))


def test_any_optax_transformation_is_an_optimizer():
    points = minimise(
        pdefit.optimizers.Optax(optax.rmsprop(0.02)), ZOO["rosenbrock"].residuals, np.array([-1.2, 1.0]), 3000
    )
    # from 12.1; its steps have a fixed size and cannot settle
    assert best(points)[1] < 0.1


def test_states_are_arrays_that_can_be_saved_between_evaluations():
    """A state that went through NumPy continues bit by bit as the original."""
    for optimizer, _, _ in OPTIMIZERS.values():
        state = begin(optimizer, [-1.2, 1.0])
        for _ in range(7):
            saved = jax.tree.map(lambda x: jnp.asarray(np.asarray(x)), state)
            state, again = (last(advance(optimizer, ZOO["rosenbrock"].residuals, s)[0]) for s in (state, saved))
            jax.tree.map(np.testing.assert_array_equal, state, again)


def test_lbfgs_finds_bounded_minima_from_anywhere():
    """Convex quadratics with a bound in the way; held elements must not spoil the directions of the others."""
    optimizer, rng = pdefit.optimizers.LBFGS(), np.random.default_rng(0)
    root = rng.normal(size=(3, 3))
    matrix = root @ root.T + np.diag([1.0, 10.0, 100.0])
    box = Box(np.full(3, -np.inf), np.array([0.3, np.inf, np.inf]))
    target = np.array([1.0, -1.0, 0.5])
    factor = np.linalg.cholesky(matrix).T

    def residuals(x):
        return factor @ (x - target)

    # with the first element held at its bound the others solve their own equations
    rest = -np.linalg.solve(matrix[1:, 1:], matrix[1:, 0] * (0.3 - target[0])) + target[1:]
    for _ in range(15):
        start = np.minimum(3 * rng.normal(size=3), box.upper)
        points = minimise(optimizer, residuals, start, 100, box)
        np.testing.assert_allclose(best(points)[0], [0.3, *rest], atol=1e-5)
        assert len(points) <= 40


def test_a_wall_of_nan_is_not_convergence():
    """The minimum lies behind a wall where J is not finite: the fit stops before it, and does not claim to be done."""
    optimizer = pdefit.optimizers.LevenbergMarquardt()
    _, state = creeping(optimizer, lambda x: jnp.where(x > 1.0, jnp.nan, x - 2.0), [0.0], 300)
    assert optimizer.finished(state) and not optimizer.converged(state)
    assert 0.99 < float(state.point.theta[0]) <= 1.0


def linear(matrix, data, x):
    return matrix @ x - data


@pytest.mark.parametrize("seed", range(6))
def test_levenberg_marquardt_meets_bounds_in_few_steps(seed):
    """Correlated least squares whose minimum lies on several bounds: elements at a limit are held, the others go where the
    constrained minimum is, not where the free one was cut off."""
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(12, 5)) + 2 * rng.normal(size=(12, 1))
    data = matrix @ rng.uniform(-3, 3, 5) + rng.normal(size=12)
    box = Box(np.full(5, -1.0), np.full(5, 1.0))
    expected = lsq_linear(matrix, data, (box.lower, box.upper), tol=1e-14)
    assert np.sum(np.abs(expected.x) > 1 - 1e-9) >= 1
    optimizer = pdefit.optimizers.LevenbergMarquardt(damping=1e-9, max_step=100.0)
    residuals = eqx.Partial(linear, jnp.asarray(matrix), jnp.asarray(data))
    points = minimise(optimizer, residuals, np.zeros(5), 30, box)
    np.testing.assert_allclose(best(points)[0], expected.x, atol=1e-6)
    assert len(points) <= 8


def test_an_element_that_would_step_too_far_does_not_spoil_the_others():
    """x + y and a little of y are seen: y is far away and is held at max_step, where x follows it at once."""
    matrix = np.array([[1.0, 1.0], [0.0, 1e-2]])
    optimizer = pdefit.optimizers.LevenbergMarquardt(damping=1e-12, max_step=2.0)
    points = minimise(optimizer, lambda x: matrix @ x - matrix @ np.array([0.0, 50.0]), np.array([50.0, 0.0]), 60)
    # along the valley x + y = 50, two at a time
    np.testing.assert_allclose(points[1][0], [48.0, 2.0], rtol=1e-6)
    assert all(np.max(np.abs(b[0] - a[0])) <= 2 + 1e-12 for a, b in zip(points, points[1:], strict=False))
    np.testing.assert_allclose(best(points)[0], [0.0, 50.0], atol=1e-6)
    assert len(points) <= 30


def test_a_step_too_small_to_matter_ends_a_fit_without_noise():
    """Residuals that vanish leave no decrease to be small beside: the tolerance alone would go on to round-off."""
    zoo = ZOO["rosenbrock"]
    counts = []
    for step_tolerance in (1e-3, 1e-13):
        optimizer = pdefit.optimizers.LevenbergMarquardt(tolerance=0.0, step_tolerance=step_tolerance)
        count, state = creeping(optimizer, zoo.residuals, zoo.start)
        assert bool(optimizer.converged(state))
        np.testing.assert_allclose(state.point.theta, zoo.minimum, atol=10 * step_tolerance)
        counts.append(count)
    assert counts[0] < counts[1]


def creeping(optimizer, residuals, start, limit=200, box=None):
    """How many evaluations an optimizer takes until it is finished, and its state there."""
    states, *_, done = advance(optimizer, residuals, begin(optimizer, start, box), limit)
    done = np.asarray(done)
    count = int(np.argmax(done)) if np.any(done) else limit - 1
    return count + 1, jax.tree.map(lambda x: jax.device_put(np.asarray(x)[count]), states)


def test_levenberg_marquardt_sees_that_it_creeps():
    """A helix that is climbed by a hair at a time: every full step promises all of J, and none brings a thousandth of it."""

    def helix(x):
        return jnp.stack([1e3 * (x[1] - jnp.cos(300 * x[0])), 1e3 * (x[2] - jnp.sin(300 * x[0])), x[0] - 5.0])

    optimizer = pdefit.optimizers.LevenbergMarquardt()
    count, state = creeping(optimizer, helix, [0.0, 1.0, 0.0])
    assert count < 200 and not optimizer.converged(state)
    assert "creeps" in optimizer.remark(state)


def test_a_valley_that_is_merely_curved_is_no_creeping():
    """Rosenbrock's, and one that is a hundred times as narrow, which takes hundreds of steps and gains by each."""
    optimizer = pdefit.optimizers.LevenbergMarquardt()
    for scale in (10.0, 1e3):
        _, state = creeping(optimizer, lambda x, s=scale: jnp.array([s * (x[1] - x[0] ** 2), 1 - x[0]]), [-1.2, 1.0])
        assert optimizer.remark(state) is None and bool(optimizer.converged(state)) == (scale == 10.0)


def noisy_decay(x):
    """An exponential decay with noise of size 1 in 50 values, fitted by two numbers."""
    t, rng = np.linspace(0.0, 2.0, 50), np.random.default_rng(0)
    return x[1] * jnp.exp(-x[0] * t) - (30 * np.exp(-t) + rng.normal(size=50))


def test_a_fit_to_noise_ends_within_a_tenth_of_its_standard_errors():
    box, start = Box(np.full(2, -np.inf), np.full(2, np.inf), values=50.0), np.array([2.0, 20.0])
    optimizers = [pdefit.optimizers.LevenbergMarquardt(decrement=d) for d in (0.01, 0.0)]
    (count, state), (more, minimum) = (creeping(o, noisy_decay, start, box=box) for o in optimizers)
    assert count < more and optimizers[0].converged(state) and optimizers[1].remark(minimum) is None
    error = np.sqrt(np.diag(np.linalg.inv(minimum.equations.matrix[0])))
    assert np.all(np.abs(state.point.theta - minimum.point.theta) < 0.1 * error)
    assert optimizers[0].remark(state).startswith("ended where J could fall by ")
    # a fit that ends by another criterion does not claim it
    coarse = pdefit.optimizers.LevenbergMarquardt(step_tolerance=1.0)
    _, far = creeping(coarse, noisy_decay, start, box=box)
    assert coarse.converged(far) and coarse.remark(far) is None
    # residuals far below sigma are no noise, so the minimum itself is searched
    exact, state = creeping(optimizers[0], lambda x: noisy_decay(x) / 2, start, box=box)
    assert exact == more and optimizers[0].remark(state) is None


def test_a_bent_valley_does_not_end_a_fit_though_little_is_promised():
    """Along a spiral every step promises less than matters, and J falls by twice as much each time."""

    def spiral(x):
        size = 10 * jnp.exp(-1e-2 * x[0])
        return size * jnp.stack([jnp.cos(x[0]), jnp.sin(x[0])])

    box = Box(np.full(1, -np.inf), np.full(1, np.inf), values=100.0)
    optimizer = pdefit.optimizers.LevenbergMarquardt()
    _, state = creeping(optimizer, spiral, [0.0], 19, box)
    assert float(state.promise) < 0.01 and not optimizer.finished(state)


def test_lbfgs_ends_where_its_course_leaves_less_than_noise_decides():
    """Forty unknowns whose standard errors lie a factor of 50 apart."""
    box, rng = Box(np.full(40, -np.inf), np.full(40, np.inf), values=200.0), np.random.default_rng(0)
    matrix = np.linalg.qr(rng.normal(size=(200, 40)))[0] * np.geomspace(1.0, 50.0, 40)
    noise = rng.normal(size=200)

    def linear(x, size=1.0):
        return size * (jnp.asarray(matrix) @ (x - 1.0) + noise)

    optimizers = [pdefit.optimizers.LBFGS(decrement=d) for d in (0.01, 0.0)]
    (count, state), (more, minimum) = (creeping(o, linear, np.zeros(40), 600, box) for o in optimizers)
    assert count < 0.7 * more and optimizers[0].converged(state) and optimizers[1].remark(minimum) is None
    # no combination of unknowns is further away than a tenth of its standard error
    assert np.linalg.norm(matrix @ (state.point.theta - minimum.point.theta)) < 0.1
    assert optimizers[0].remark(state).startswith("ended where J could fall by ")
    # residuals far below sigma are no noise, so the minimum itself is searched
    _, state = creeping(optimizers[0], functools.partial(linear, size=0.5), np.zeros(40), 600, box)
    assert optimizers[0].converged(state) and optimizers[0].remark(state) is None


def test_round_off_of_J_is_no_minimum_for_lbfgs():
    """On the floor of a steep valley a step promises less than round-off of J, with 60 standard errors still to go."""

    def valley(x):
        return jnp.concatenate([jnp.stack([300 * (x[1] - x[0] ** 2), 30 * (1 - x[0])]), jnp.ones(500)])

    box = Box(np.full(2, -np.inf), np.full(2, np.inf), round_off=1e-2, values=500.0)
    _, state = creeping(pdefit.optimizers.LBFGS(), valley, [-1.2, 1.0], 60, box)
    np.testing.assert_allclose(state.point.theta, 1.0, atol=1e-6)
    # with a memory of one step the first step within round-off ends the fit, which claims no minimum
    short = pdefit.optimizers.LBFGS(memory=1)
    _, state = creeping(short, valley, [-1.2, 1.0], 60, box)
    assert short.finished(state) and not short.converged(state) and state.point.theta[0] < 0
    assert "hides a fall of 2" in short.remark(state) and "take dtype=float64" in short.remark(state)


def test_a_promise_within_round_off_that_matters_is_no_minimum():
    """Along a spiral every step promises 0.6 standard errors, which round-off of J hides, and J falls on and on."""

    def spiral(x):
        size = 60 * jnp.exp(-1e-2 * x[0])
        return size * jnp.stack([jnp.cos(x[0]), jnp.sin(x[0])])

    box = Box(np.full(1, -np.inf), np.full(1, np.inf), round_off=1e-3, values=3600.0)
    optimizer = pdefit.optimizers.LevenbergMarquardt()
    _, state = creeping(optimizer, spiral, [0.0], 15, box)
    assert optimizer.finished(state) and not optimizer.converged(state)
    assert optimizer.remark(state).startswith("stopped at the precision of float32")
