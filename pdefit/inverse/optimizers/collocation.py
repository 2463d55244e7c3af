"""Collocation: states at all observation times as unknowns in addition to the controls, without a run of the model."""

from typing import ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from pdefit._util.errors import PdefitError
from pdefit._util.expected import Count, Positive, check_fields
from pdefit._util.trees import named_fields
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.optimizers._first_states import first_states, mesh
from pdefit.inverse.optimizers._hermite_simpson import CollocationResiduals
from pdefit.inverse.optimizers.base import AbstractOptimizer, Box, Evaluation, select
from pdefit.inverse.optimizers.damping import Damping
from pdefit.systems.capabilities import AbstractConstrained

# blocks that are held of each state, and the values of all of them at most: 2 GB in float64
_BLOCKS, _MOST_VALUES = 12, 250_000_000
# a round ends when J falls by less than this part, and an iteration gives up after so many dampings
_LITTLE, _DAMPINGS, _DAMPING = 0.02, 12, Damping(eased=0.2, raised=4.0)
# the largest move of a control at once, in units of its size
_FAR = 2.0
# elements of a state below this part of the largest count as so large
_SMALL = 0.01
# the relative error of data that show nothing of the state directly
_UNKNOWN = 0.01


class _State(NamedTuple):
    theta: Array
    x: Array
    # the size of each element of a state, and the standard deviation of its data
    size: Array
    sigma: Array
    # that of defects in units of it
    ratio: Array
    damping: Array
    finished: Array
    box: Box


class Collocation(AbstractOptimizer):
    """Collocation: Gauss-Newton in the controls and in states at observation times that need not form a trajectory.

    For far guesses of scalars, in records that show most of the state of a small system or a plain field. Not as the
    last stage: estimates carry the error of its wide steps. Not for flows with a constraint, or for frames much farther
    apart than the system's time scale.

    States start at the data, and unobserved elements at their guess. The equations are residuals, the Hermite-Simpson
    defects between each state and the next, together with the residuals of the data. The standard deviation of defects
    shrinks: in the first rounds states stay near the data, and in the last ones they form a trajectory. No trajectory
    is integrated, so none blows up or diverges. The time of an iteration is linear in the number of frames, and cubic
    in the size of a state.

    The loss of this stage is its own sum of squares at the last standard deviation. It never counts as converged.

    **Arguments:**

    - `pieces`: the number of equal intervals between two observations; default 1. More resolve a solution that turns
      between them.
    - `first`, `last`: the first and the last standard deviation of defects, in units of sigma; default 10
      and 0.001.
    - `shrink`: the factor from one round to the next; default 0.1.

    Source: J. Ramsay, G. Hooker, D. Campbell, J. Cao, J. R. Stat. Soc. B 69:741 (2007),
    doi:10.1111/j.1467-9868.2007.00610.x (data and defects together); C. Hargraves, S. Paris, J. Guid. Control Dyn.
    10:338 (1987), doi:10.2514/3.20223 (Hermite-Simpson).
    """

    tangents: ClassVar[bool] = True

    pieces: Count = eqx.field(static=True, default=1)
    first: Positive = 10.0
    last: Positive = 1e-3
    shrink: Positive = 0.1
    # for the record of a stage, once it begins: residuals, and the states at the start
    residuals: CollocationResiduals | None = eqx.field(init=False, default_factory=lambda: None)
    states: Float[Array, "M n"] | None = eqx.field(init=False, default_factory=lambda: None)

    def __check_init__(self):
        # before the numbers are compared
        check_fields(self)
        if not (self.last <= self.first and self.shrink < 1):
            got = f"last = {self.last}, first = {self.first}, shrink = {self.shrink}"
            raise ValueError(f"Collocation expects 0 < last <= first and shrink between 0 and 1, but got {got}")

    def on(self, objective):
        residuals = _begin(objective, self.pieces)
        begun = residuals, first_states(residuals.functional, residuals.times)
        return eqx.tree_at(lambda c: (c.residuals, c.states), self, begun, is_leaf=lambda x: x is None)

    def evaluate(self, functional, state):
        return _iterate(self, state)

    def init(self, theta, box):
        residuals, x = self._residuals, self.states
        assert x is not None
        first, one = jnp.asarray(self.first, jnp.float64), jnp.ones(())
        return _State(theta, x, *_sizes(residuals, theta, x), first, one, jnp.zeros((), bool), box)

    def ask(self, state):
        return state.theta

    def tell(self, state, evaluation):
        return evaluation.found, jnp.asarray(evaluation.finite)

    def converged(self, state):
        # it prepares: its minimum is not that of the functional
        return jnp.zeros((), bool)

    def finished(self, state):
        return state.finished

    @property
    def _residuals(self) -> CollocationResiduals:
        if self.residuals is None:
            raise PdefitError("Collocation is the optimizer of a stage of pdefit.fit, which gives it the record (`on`)")
        return self.residuals


def _begin(functional: AbstractObjective, pieces: int) -> CollocationResiduals:
    """The residuals of an objective; refused if collocation does not support it."""
    if not isinstance(functional, Functional) or functional.problem.nodes is not None:
        raise PdefitError("Collocation expects one recording as one trajectory (formulation=single)")
    if isinstance(functional.problem.system, AbstractConstrained):
        raise PdefitError("Collocation expects states without a constraint; use windows (stage.window) in its place")
    times, *frames = mesh(functional.observations.ts[np.asarray(functional.layout.index)[0]], pieces)
    n = sum(np.size(x) for x in named_fields(functional.problem.y0).values())
    if _BLOCKS * times.size * n * (n + functional.controls.size) > _MOST_VALUES:
        raise PdefitError(
            f"Collocation holds matrices of every state, which is refused for {times.size} states of {n} elements; use "
            f"windows (stage.window) in its place"
        )
    return CollocationResiduals(functional, times, *frames)


@eqx.filter_jit
def _sizes(residuals: CollocationResiduals, theta: Float[Array, " k"], x: Float[Array, "M n"]) -> tuple[Array, Array]:
    """Size of each element of a state, and the standard deviation of its data, (n,).

    Unobserved elements have the same relative error as observed ones.
    """
    root = jnp.sqrt(jnp.mean(x**2, axis=0))
    size = jnp.maximum(root, _SMALL * jnp.max(root))
    size = jnp.where(size > 0, size, 1.0)
    information = residuals.information(theta, x)
    shown = information > 0
    relative = jnp.where(shown, 1 / (size * jnp.sqrt(jnp.where(shown, information, 1.0))), jnp.nan)
    typical = jnp.nan_to_num(jnp.nanmedian(relative), nan=_UNKNOWN)
    return size, size * jnp.where(shown, relative, typical)


@eqx.filter_jit
def _iterate(method: Collocation, state: _State) -> Evaluation:
    """Evaluation at a point, and the state after the damped step from it."""
    residuals, (theta, x, size, sigma, ratio, _, _, box) = method._residuals, state
    scale = residuals.functional.controls.sizes(theta)
    value = residuals.value(theta, x, ratio * sigma)
    equations = residuals.equations(theta, x, ratio * sigma)

    def tried(damping: Array) -> tuple[Array, Array, Array]:
        # a step of one size costs `damping` times J
        d_theta, d_x = equations.step(damping * value / size**2, damping * value / scale**2)
        there = box.clip(theta + jnp.clip(d_theta, -_FAR * scale, _FAR * scale)), x + d_x
        return *there, residuals.value(*there, ratio * sigma)

    def rejected(loop: tuple) -> Array:
        count, _, (_, _, new) = loop
        return ~(new < value) & (count < _DAMPINGS)

    def again(loop: tuple) -> tuple:
        count, damping, _ = loop
        return count + 1, _DAMPING.raised * damping, tried(_DAMPING.raised * damping)

    first = jnp.zeros((), int), state.damping, tried(state.damping)
    count, damping, (new_theta, new_x, new) = lax.while_loop(rejected, again, first)
    better = new < value
    ends = ~better | (value - new <= _LITTLE * value)
    lowest = ratio <= method.last * 1.001
    new_theta, new_x = select(better, (new_theta, new_x), (theta, x))
    after = state._replace(
        theta=new_theta,
        x=new_x,
        ratio=jnp.where(ends, jnp.maximum(method.last, method.shrink * ratio), ratio),
        damping=_DAMPING.after(damping, better & (count == 0), jnp.zeros((), bool)),
        finished=ends & lowest,
    )
    # one scale for all rounds
    loss = residuals.value(theta, x, method.last * sigma)
    return Evaluation(loss, equations.shared, found=after)
