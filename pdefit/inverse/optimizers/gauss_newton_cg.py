"""Matrix-free Gauss-Newton for fields, by products with the matrix."""

from typing import ClassVar, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool

from pdefit._util.expected import Count, NonNegative
from pdefit.inverse.linear.conjugate_gradients import Iterate, conjugate_gradients
from pdefit.inverse.optimizers.base import AbstractOptimizer, Box, Evaluation, Point, by_gradient, select
from pdefit.inverse.optimizers.convergence import Convergence, exhausts
from pdefit.inverse.optimizers.damping import Damping
from pdefit.inverse.optimizers.preconditioner import preconditioner

# products go on while the second half of them brought more than this fraction of the decrease
_GAIN = 0.1
# the whole step may promise this many times as much as that of the products that were spent
_MISSED = 2.0
# the part of a fall that does not matter which a step may promise where more products would bring more
_UNSOLVED = 0.1
# a step must bring this fraction of the decrease that its slope promises
_ARMIJO = 1e-4
# a step is good that kept this part of its promise, and poor if it was shortened; the damping that changes nothing
_DAMPING, _GOOD, _SLIGHT = Damping(eased=0.1, raised=4.0), 0.5, 1e-3


class _Step(NamedTuple):
    """Truncated Gauss-Newton step at a point, with its measures of convergence."""

    direction: Array
    # what the preconditioner measured of each element
    measured: Array
    # the norm of the gradient in units of that curvature
    norm: Array
    # whether more products would bring little more
    solved: Array
    # the Newton decrement that does not matter, in units of the variance of residuals
    little: Array


class _State(NamedTuple):
    point: Point
    found: _Step
    # the part of the direction that is tried
    step: Array
    # of the matrix whose direction this is
    damping: Array
    # the norm of the first gradient, in the units of the preconditioner
    first_norm: Array
    convergence: Convergence
    box: Box

    @property
    def promise(self) -> Array:
        """Decrease of J predicted for the whole step."""
        return -jnp.vdot(self.point.gradient, self.found.direction) / 2


class GaussNewtonCG(AbstractOptimizer):
    """The matrix-free Gauss-Newton method with truncated conjugate gradients, for unknown fields; damped on request.

    For fields with priors, with additional scalars, or with expensive evaluations. Not for scalars alone
    (`LevenbergMarquardt`), or with a continuous adjoint, which has no tangents (`LBFGS`).

    It solves A d = -g with the Gauss-Newton matrix A = J_r^T J_r, then searches along d. A is never formed. Every
    product A v costs about two gradients. Far from the minimum the linear solve ends early: once the relative linear
    residual is at most min(1/2, sqrt(|g| / |g_0|)) and the second half of the products contributed less than a tenth of
    the decrease of the quadratic model.

    A control with `smoothing` is searched in its Sobolev variable, which preconditions its field. Controls, and groups
    of elements that a `Smoother` names, are scaled to each other by their mean curvature, from one product for each at
    the start. Scalars and a whole initial state have a preconditioner of two levels (see
    `pdefit.inverse.optimizers.preconditioner`), which takes six more products at every point. Elements on a bound are
    held if descent leads beyond it.

    **Arguments:**

    - `products`: the largest number of products in one step, at least 1; default 20.
    - `tolerance`: converged when the predicted decrease of the step is below this fraction of J, or when no step improves
      J and the residuals have fallen to round-off; default 1e-10.
    - `decrement`: converged when four times the predicted decrease is below this, in units of the variance of
      residuals; default 0.01. Residuals must not be far below sigma, and more products must add little. The Newton
      decrement is twice the decrease of the exact step; a further factor of two allows for its truncation. With an
      initial state the criterion applies to the scalars, and on average to each value of the state. 0 continues to the
      minimum itself.
    - `damping`: the initial damping of unknown fields, relative to their curvature, if undamped steps fail; default 0,
      no damping. At 0.01 an element that the data do not determine moves by about a tenth of its field's size. The
      damping falls by a factor ten with every step that gives half of its predicted decrease, and rises by four if a
      step was shortened. Scalars fitted with an initial state are not damped. A fit converges once it is at most a
      thousandth.

    Source: J. Nocedal, S. Wright, Numerical Optimization, 7.1 and 10.3 (2006), doi:10.1007/978-0-387-40065-5; S.
    Eisenstat, H. Walker, SIAM J. Sci. Comput. 17:16 (1996), doi:10.1137/0917003; S. Nash, A. Sofer, Oper. Res. Lett.
    9:219 (1990), doi:10.1016/0167-6377(90)90065-D (why the decrease of the model is the better measure).
    """

    tangents: ClassVar[bool] = False

    products: Count = 20
    tolerance: NonNegative = 1e-10
    decrement: NonNegative = 0.01
    damping: NonNegative = 0.0

    @property
    def most_products(self):
        return self.products

    def evaluate(self, functional, state):
        trial = self.ask(state)
        evaluation = by_gradient(functional, trial)
        good = evaluation.finite & _improves(state, evaluation)
        free = ~state.box.blocked(trial, -evaluation.gradient)
        damping = _next_damping(state, evaluation)
        parts = preconditioner(functional, trial, damping, state.found.measured, state.convergence.started, good)

        def product(v: Array) -> Array:
            return jnp.where(free, functional.gauss_newton_product(trial, v) + parts.damping_product(v), 0.0)

        def scaled(r: Array) -> Array:
            return jnp.where(free, parts.solve(r), 0.0)

        slope = jnp.where(free, -evaluation.gradient, 0.0)
        norm = jnp.sqrt(jnp.vdot(slope, scaled(slope)))
        first = jnp.where(state.convergence.started, state.first_norm, norm)
        most = jnp.minimum(0.5, jnp.sqrt(norm / jnp.where(first > 0, first, 1.0))) * norm

        def enough(at: Iterate) -> Array:
            # a poor point needs no direction; else the residual is small, and more products bring little more
            gains = at.falls[at.products] - at.falls[at.products // 2] > _GAIN * at.falls[at.products]
            return ~good | ((at.products > 0) & (jnp.sqrt(at.squared) <= most) & ~gains) | ~(at.squared > 0)

        end = conjugate_gradients(product, scaled, slope, enough, self.products, functional.repeat)
        variance = state.box.variance(evaluation.value)
        little = parts.little(end.solution, jnp.asarray(self.decrement, trial.dtype), variance)
        return evaluation._replace(found=_Step(end.solution, parts.measured, norm, enough(end), little))

    def init(self, theta, box):
        zero, false = jnp.zeros((), theta.dtype), jnp.zeros((), bool)
        return _State(
            point=Point.before(theta),
            found=_Step(jnp.zeros_like(theta), jnp.zeros_like(theta), zero, false, zero),
            step=zero,
            damping=jnp.asarray(self.damping, theta.dtype),
            first_norm=zero,
            convergence=Convergence.begin(theta),
            box=box,
        )

    def ask(self, state):
        return state.box.clip(state.point.theta + state.step * state.found.direction)

    def tell(self, state, evaluation):
        accepted = evaluation.finite & _improves(state, evaluation)
        trial = Point.at(self.ask(state), evaluation), evaluation.found
        point, found = select(accepted, trial, (state.point, state.found))
        promise = -jnp.vdot(point.gradient, found.direction) / 2
        little = found.little * state.box.variance(point.value) / (2 * _MISSED)
        # beside numbers that stand still a state may be left with less than is promised
        enough = found.solved | ((found.little > self.decrement) & (promise <= _UNSOLVED * little))
        step = jnp.where(accepted, 1.0, _shorter(state, evaluation))
        helpless = step < 1e-12
        # the gradient is better than J: the step that goes beyond its round-off is taken
        matters = state.box.matters(promise, point.value, found.little / _MISSED)
        most = jnp.maximum(promise, 2 * state.step * state.promise)
        hidden = state.convergence.started & (most <= state.box.noise(point.value))
        done = (promise <= self.tolerance * point.value) | (hidden & ~matters)
        done |= enough & exhausts(state.promise, promise, state.point.value - point.value, little)
        damping = _next_damping(state, evaluation)
        ready = accepted & (damping <= _SLIGHT)
        converged = (ready & done) | (helpless & state.convergence.exhausted(point.value))
        stuck = helpless | (ready & hidden & ~done)
        new = _State(
            point=point,
            found=found,
            step=step,
            damping=jnp.where(accepted, damping, state.damping),
            first_norm=jnp.where(state.convergence.started, state.first_norm, found.norm),
            convergence=state.convergence.after(evaluation.value, evaluation.finite, converged, stuck),
            box=state.box,
        )
        return new, accepted

    def remark(self, state):
        little = float(state.found.little)
        numbers = self.decrement if little > self.decrement else None
        return state.convergence.remark(state.box, state.point.value, state.promise, self.tolerance, little, numbers)


def _improves(state: _State, evaluation: Evaluation) -> Bool[Array, ""]:
    """True for the first point, or if a point is good enough for its step."""
    before, promised = state.point, 2 * state.step * state.promise
    enough = evaluation.value <= before.value - _ARMIJO * promised
    return ~state.convergence.started | enough | state.box.lost(before.value, promised, before.value - evaluation.value)


def _next_damping(state: _State, evaluation: Evaluation) -> Array:
    """The damping after an accepted step: less if J fell as predicted, more if the step was shortened."""
    before, promised = state.point, 2 * state.step * state.promise * (1 - state.step / 2)
    good = before.value - evaluation.value >= _GOOD * promised - state.box.noise(before.value)
    started = state.convergence.started
    return _DAMPING.after(state.damping, started & good, started & (state.step < 1))


def _shorter(state: _State, evaluation: Evaluation) -> Array:
    """Minimum of the parabola through the start, its slope and the trial, between a tenth and a half of the step."""
    before, step, slope = state.point, state.step, -2 * state.promise
    bend = evaluation.value - before.value - step * slope
    best = -slope * step**2 / (2 * jnp.where(bend > 0, bend, 1.0))
    return jnp.where(jnp.isfinite(bend) & (bend > 0), jnp.clip(best, 0.1 * step, 0.5 * step), 0.1 * step)
