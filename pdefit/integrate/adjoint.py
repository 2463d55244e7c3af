"""How the gradient of a whole trajectory is computed: what the time loop keeps for its reverse pass."""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, PyTree

from pdefit.integrate.plan import TimePlan
from pdefit.integrate.stepper import Stepper

Emit = Callable[[PyTree, PyTree], PyTree]


class AbstractAdjoint(eqx.Module):
    """Runs the time loop so that differentiating it costs what the adjoint promises. The value never depends on it."""

    @abc.abstractmethod
    def run(self, stepper: Stepper, y0: PyTree, plan: TimePlan, emit: Emit, inputs: PyTree) -> tuple[PyTree, PyTree]:
        """The final state, and `emit(y, inputs[i])` at every observation i, stacked."""

    @abc.abstractmethod
    def stored_states(self, plan: TimePlan) -> int:
        """How many states the reverse pass holds at its peak."""

    @abc.abstractmethod
    def recompute_factor(self, plan: TimePlan) -> float:
        """Steps executed by a gradient over steps of the trajectory."""


class StoreAll(AbstractAdjoint):
    """Keeps every intermediate value of every step: exact, fast, and only for short trajectories."""

    def run(self, stepper, y0, plan, emit, inputs):
        return _time_loop(stepper, y0, plan, emit, inputs, keep=lambda f: f)

    def stored_states(self, plan):
        return int(plan.count.shape[-1] * plan.length)

    def recompute_factor(self, plan):
        return 1.0


class Checkpointed(AbstractAdjoint):
    """Discretise-then-optimise on two levels: one checkpoint for each interval, one for each step of the interval in work.

    The gradient is that of the discrete trajectory to round-off. Each step runs three times: forward, again from the
    interval's checkpoint, and once more inside its own reverse pass.
    """

    def run(self, stepper, y0, plan, emit, inputs):
        # prevent_cse only matters outside a scan, and costs time inside
        return _time_loop(stepper, y0, plan, emit, inputs, keep=lambda f: jax.checkpoint(f, prevent_cse=False))

    def stored_states(self, plan):
        return int(plan.count.shape[-1] + plan.length)

    def recompute_factor(self, plan):
        return 3.0


def _time_loop(
    stepper: Stepper, y0: PyTree, plan: TimePlan, emit: Emit, inputs: PyTree, keep: Callable[[Callable], Callable]
) -> tuple[PyTree, PyTree]:
    """The loop itself: intervals outside, steps inside, both wrapped by `keep`."""
    start, step = jnp.asarray(plan.start, jnp.float64), jnp.asarray(plan.step, jnp.float64)
    count = jnp.asarray(plan.count)
    # times are computed in float64 and handed over in the state's precision
    state_dtype = jax.tree.leaves(y0)[0].dtype

    def one_step(carry: Any, t_h: tuple[Array, Array]) -> tuple[Any, None]:
        t, h = t_h
        return stepper(t.astype(state_dtype), h.astype(state_dtype), carry), None

    def interval(carry: Any, inputs_i: Any) -> tuple[Any, PyTree]:
        (left, h, n), x = inputs_i
        j = jnp.arange(plan.length)
        # a step of zero length returns its state: it pads intervals that need fewer steps than the longest
        sizes = jnp.where(j < n, h, 0.0)
        times = left + jnp.minimum(j, n) * h
        carry, _ = lax.scan(keep(one_step), carry, (times, sizes))
        return carry, emit(carry[0], x)

    carry = stepper.init(start[0].astype(state_dtype), y0)
    if not plan.look_first:
        carry, outputs = lax.scan(keep(interval), carry, ((start, step, count), inputs))
        return carry[0], outputs
    first = emit(y0, jax.tree.map(lambda x: x[0], inputs))
    rest = jax.tree.map(lambda x: x[1:], inputs)
    carry, outputs = lax.scan(keep(interval), carry, ((start, step, count), rest))
    stacked = jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), first, outputs)
    return carry[0], stacked
