"""Levenberg-Marquardt for many recordings: each with its own damping, and alone where nothing is shared."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import pdefit
from pdefit.inverse.objective.recording_equations import ArrowEquations
from pdefit.inverse.objective.segment_jacobian import added
from pdefit.inverse.optimizers.base import Box, Evaluation

LM = pdefit.optimizers.LevenbergMarquardt()


class Many(eqx.Module):
    """Recordings of residuals `one(shared, own, e)`: value, gradient and matrix of their sum."""

    one: object = eqx.field(static=True)
    recordings: int = eqx.field(static=True)
    shared: int = eqx.field(static=True)
    own: int = eqx.field(static=True)

    @property
    def size(self):
        return self.shared + self.recordings * self.own

    @property
    def places(self):
        own = self.shared + jnp.arange(self.recordings * self.own).reshape(self.recordings, self.own)
        return jnp.arange(self.shared), own, jnp.zeros((0, self.size))

    def evaluate(self, theta, dense=False):
        shared, own, _ = self.places

        def each(columns, e):
            x = theta[columns]
            r, jac = (
                f(x) for g in [lambda x: self.one(x[: self.shared], x[self.shared :], e)] for f in (g, jax.jacfwd(g))
            )
            return jnp.sum(r**2) / 2, jac.T @ r, jac.T @ jac

        columns = jnp.concatenate([jnp.tile(shared, (self.recordings, 1)), own], axis=1)
        equations = ArrowEquations(*jax.vmap(each)(columns, jnp.arange(self.recordings)), *self.places)
        gradient = added(equations.gradient, columns, self.size)
        matrix = jax.vmap(lambda v: equations @ v)(jnp.eye(self.size)) if dense else equations
        return Evaluation(jnp.sum(equations.half_square), gradient, matrix)

    @eqx.filter_jit
    def fit(self, theta, dense=False, limit=100, bound=jnp.inf):
        """The states after each of so many evaluations."""
        nothing = None if dense else jax.tree.map(jnp.zeros_like, self.evaluate(theta).matrix)
        if nothing is not None:
            nothing = ArrowEquations(nothing.half_square, nothing.gradient, nothing.matrix, *self.places)
        box = Box(jnp.full(self.size, -bound), jnp.full(self.size, bound), nothing=nothing)

        def step(state, _):
            state, accepted = LM.tell(state, self.evaluate(LM.ask(state), dense))
            return state, (state.point, LM.ask(state), accepted, LM.finished(state))

        return jax.lax.scan(step, LM.init(theta, box), None, length=limit)[1]


def rosenbrock(shared, own, e):
    return jnp.stack([(5.0 + e) * (own[1] - own[0] ** 2), 1 - own[0]])


def test_recordings_that_share_nothing_go_as_each_would_alone():
    start = jnp.asarray(np.random.default_rng(0).normal(size=(6, 2)) * 1.5)
    points, _, accepted, _ = Many(rosenbrock, 6, 0, 2).fit(jnp.ravel(start), limit=12)
    assert np.all(accepted) and np.all(np.diff(points.value) <= 0)
    for e in range(6):
        alone = Many(lambda shared, own, _, e=e: rosenbrock(shared, own, e), 1, 0, 2).fit(start[e], limit=12)
        np.testing.assert_allclose(points.theta[:, 2 * e : 2 * e + 2], alone[0].theta, rtol=1e-9, atol=1e-12)


def test_one_that_is_not_finite_keeps_its_place_and_the_others_go_on():
    def one(shared, own, e):
        return jnp.where((e == 1) & (own > 0.5), jnp.nan, own - 2.0)

    points, *_ = Many(one, 3, 0, 1).fit(jnp.zeros(3), limit=20)
    np.testing.assert_allclose(points.theta[-1, jnp.asarray([0, 2])], 2.0, atol=1e-6)
    assert 0.4 < points.theta[-1, 1] <= 0.5


def decay(shared, own, e):
    t = jnp.linspace(0.0, 2.0, 9)
    data = (1.0 + 0.1 * e) * jnp.exp(-0.7 * t) + 0.02 * jnp.cos(40 * (t + e))
    return own[0] * jnp.exp(-shared[0] * t) + own[1] * t - data


def test_the_first_step_is_that_of_the_dense_matrix_within_bounds_too():
    many, start = Many(decay, 5, 1, 2), jnp.full(11, 0.3)
    for bound in (np.inf, 0.6):
        trials = [many.fit(start, dense, 2, jnp.asarray(bound))[1][0] for dense in (False, True)]
        np.testing.assert_allclose(*trials, rtol=1e-9)
        assert np.any(np.abs(trials[0]) == 0.6) == np.isfinite(bound)


def test_no_two_factorisations_of_a_step_are_independent():
    # of many members they would be two batched calls at once, which block each other on few threads
    many, start = Many(decay, 3, 1, 2), jnp.full(7, 0.3)
    program = str(jax.make_jaxpr(lambda x: many.fit(x, False, 2, jnp.asarray(0.6))[0])(start))
    assert program.count("= cholesky ") == 2, "one before the rounds of limits, and one in them"


def test_shared_unknowns_reach_the_minimum_of_the_dense_matrix():
    many = Many(decay, 5, 1, 2)
    (arrow, *_), (dense, *_) = (many.fit(jnp.full(11, 0.3), dense, 40) for dense in (False, True))
    np.testing.assert_allclose(arrow.theta[-1], dense.theta[-1], rtol=1e-8)


def beside_a_wall(shared, own, e):
    """The first recording stands in a bent corridor, beyond which nothing is finite. The others are linear."""
    off = own[1] - own[0] ** 2
    corridor = jnp.where(jnp.abs(off) > 0.1, jnp.nan, jnp.stack([off, 1 - own[0]]))
    line = jnp.stack([own[0] - 3.0, own[1] - 3.0 * shared[0]])
    return jnp.append(jnp.where(e == 0, corridor, line), jnp.where(e == 0, 0.03, 0.3) * (own[0] - shared[0]))


def test_a_recording_that_cannot_move_does_not_hold_up_the_others():
    start = jnp.concatenate([jnp.zeros(1), jnp.asarray([-1.2, 1.44]), jnp.zeros(22)])
    many = Many(beside_a_wall, 12, 1, 2)
    (points, *_), (dense, *_) = (many.fit(start, dense, 30) for dense in (False, True))
    # that of the first alone is 2.4; with one damping for all the others stand still with it
    assert points.value[-1] < 2.5 and dense.value[-1] > 30
    np.testing.assert_allclose(points.theta[-1, 3::2], 3.0, atol=0.05)
