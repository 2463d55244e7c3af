"""How the gradient of a whole trajectory is computed: what the time loop keeps for its reverse pass."""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, PyTree

from pdefit.integrate.growth import watch
from pdefit.integrate.nest import Nest, nest
from pdefit.integrate.plan import TimePlan
from pdefit.integrate.stepper import AbstractStepper

Emit = Callable[[PyTree, PyTree], PyTree]
Probes = Float[Array, "E 2"] | None


class AbstractAdjoint(eqx.Module):
    """Runs the time loop so that differentiating it costs what the adjoint promises. The value never depends on it."""

    @abc.abstractmethod
    def run(
        self, stepper: AbstractStepper, y0: PyTree, plan: TimePlan, emit: Emit, inputs: PyTree, probes: Probes = None
    ) -> tuple[PyTree, PyTree]:
        """The final state, and `emit(y, inputs[i])` at every observation i, stacked.

        The derivative in `probes` (zeros, one row for each interval and one more) is the norm of the adjoint at the
        interval's start and of what the observation at its end adds to it; of the last row, the norm of what comes in at
        the end of the trajectory (see `pdefit.integrate.growth`).
        """

    @abc.abstractmethod
    def nest(self, plan: TimePlan) -> Nest:
        """The loops that the time loop consists of, and so what it stores and runs again."""


class StoreAll(AbstractAdjoint):
    """Keeps every intermediate value of every step: what all others are tested against. For short trajectories only."""

    def run(self, stepper, y0, plan, emit, inputs, probes=None):
        return _time_loop(stepper, y0, plan, emit, inputs, probes, self.nest(plan), keep=lambda f: f)

    def nest(self, plan):
        return nest(plan.intervals, plan.length, 1)


class Checkpointed(AbstractAdjoint):
    """Discretise-then-optimise with one to four levels of checkpoints. The gradient is that of the discrete trajectory, to
    round-off, whatever the levels.

    For N steps one level holds N states (and the whole trajectory runs twice), two levels about 2 sqrt(N) (three times),
    three levels 3 N^(1/3) (four times). Blocks of the outer levels span several observation intervals, or a part of one.
    """

    levels: int = 2

    def run(self, stepper, y0, plan, emit, inputs, probes=None):
        return _time_loop(stepper, y0, plan, emit, inputs, probes, self.nest(plan), _checkpoint)

    def nest(self, plan):
        return nest(plan.intervals, plan.length, self.levels)


def _checkpoint(function: Callable) -> Callable:
    # prevent_cse only matters outside a scan, and costs time inside
    return jax.checkpoint(function, prevent_cse=False)


def _time_loop(
    stepper: AbstractStepper,
    y0: PyTree,
    plan: TimePlan,
    emit: Emit,
    inputs: PyTree,
    probes: Probes,
    shape: Nest,
    keep: Callable[[Callable], Callable],
) -> tuple[PyTree, PyTree]:
    """The loop itself, nested as `shape` says; `keep` wraps what is run again in the reverse pass."""
    # times are computed in float64 and handed over in the state's precision
    state_dtype = jax.tree.leaves(y0)[0].dtype
    times, sizes = plan.times_and_sizes()
    carry = stepper.init(times[0, 0].astype(state_dtype), y0)
    looked = [emit(y0, jax.tree.map(lambda x: x[0], inputs))] if plan.look_first else []

    def one_step(carry: Any, t_h: tuple[Array, Array]) -> tuple[Any, None]:
        t, h = t_h
        return stepper(t.astype(state_dtype), h.astype(state_dtype), carry), None

    def interval(carry: Any, x: Any) -> tuple[Any, PyTree]:
        t_h, inputs_i, probe = x
        if probe is not None:
            carry = watch(carry, probe[0])
        carry, _ = steps(carry, t_h)
        y = carry[0] if probe is None else watch(carry[0], probe[1])
        return carry, keep(emit)(y, inputs_i)

    steps = _nested(one_step, len(shape.steps), keep, innermost=True)
    intervals = _nested(interval, len(shape.intervals), keep, innermost=not shape.merged)
    t_h = (_grouped(times, shape.steps, 1), _grouped(sizes, shape.steps, 1, zeros=True))
    # an interval that pads the last group stands still at the end
    xs = (
        (_grouped(t_h[0], shape.intervals, 0), _grouped(t_h[1], shape.intervals, 0, zeros=True)),
        jax.tree.map(lambda x: _grouped(jnp.asarray(x)[len(looked) :], shape.intervals, 0), inputs),
        None if probes is None else _grouped(probes[:-1], shape.intervals, 0),
    )
    carry, outputs = intervals(carry, xs)
    depth, count = len(shape.intervals), plan.intervals
    outputs = jax.tree.map(lambda x: x.reshape(-1, *x.shape[depth:])[:count], outputs)
    for seen in looked:
        outputs = jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), seen, outputs)
    return carry[0] if probes is None else watch(carry[0], probes[-1, 1]), outputs


def _nested(body: Callable, loops: int, keep: Callable[[Callable], Callable], innermost: bool) -> Callable:
    """`loops` scans inside each other around a body. Every turn is kept, that of the innermost loop only if asked for."""
    function = body
    for k in range(loops):
        turn = keep(function) if k or innermost else function
        function = _scan(turn)
    return function


def _scan(turn: Callable) -> Callable:
    return lambda carry, xs: lax.scan(turn, carry, xs)


def _grouped(x: Array, loops: tuple[int, ...], axis: int, zeros: bool = False) -> Array:
    """An axis cut into the axes of nested loops; what is missing at its end is zero, or its last entry again."""
    missing = int(np.prod(loops)) - x.shape[axis]
    if missing:
        width = [(0, missing) if a == axis else (0, 0) for a in range(x.ndim)]
        x = jnp.pad(x, width) if zeros else jnp.pad(x, width, mode="edge")
    return x.reshape(*x.shape[:axis], *loops, *x.shape[axis + 1 :])
