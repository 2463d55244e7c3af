"""The time loop of every adjoint: steps, observations between them, and values stored for the reverse pass.

The loop is our own and not `diffrax.diffeqsolve`, for four reasons:

- Observations are reduced inside it, so that the record of a field is never in memory.
- Its checkpoints are levels of a known number of states. So memory is planned before a run, and a trajectory can be cut
  into pieces that are stored elsewhere.
- One program supports all derivatives: forward, reverse, and forward over reverse. Its reverse pass reports the growth
  of the adjoint.
- A float32 state keeps its type despite float64 times.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, PyTree

from pdefit.integrate.loop.checkpoint_levels import CheckpointLevels, nest
from pdefit.integrate.loop.stepper import AbstractStepper
from pdefit.integrate.loop.time_grid import TimeGrid

# beyond this growth the gradient is dominated by what was amplified, whatever the cause
EXPLOSIVE = 1e6


@jax.custom_vjp
def with_adjoint_norm(tree: PyTree, probe: Float[Array, ""]) -> PyTree:
    """The tree itself, but its reverse pass reports the norm of the cotangent.

    **Arguments:**

    - `tree`: the primal values.
    - `probe`: a zero. Its derivative is the norm of the cotangent that passes here, by definition and not by calculus.
    """
    return tree


def _forward(tree: PyTree, probe: Array) -> tuple[PyTree, None]:
    return tree, None


def _backward(_: None, cotangent: PyTree) -> tuple[PyTree, Array]:
    return cotangent, norm(cotangent)


with_adjoint_norm.defvjp(_forward, _backward)


def norm(tree: PyTree) -> Float[Array, ""]:
    """Norm of a tree of cotangents, in float64."""
    inexact = [c for c in jax.tree.leaves(tree) if jnp.issubdtype(c.dtype, jnp.inexact)]
    squares = [jnp.sum(jnp.square(c), dtype=jnp.float64) for c in inexact]
    return jnp.sqrt(sum(squares, start=jnp.zeros((), jnp.float64)))


def growth(norms: Float[Array, "*S E 2"]) -> Float[Array, ""]:
    """Largest growth of the adjoint over one or several trajectories.

    It is the ratio of the adjoint's norm at an observation to the sum of the norms that entered it before: from later
    observations, and at the end of the trajectory. It is at most one if perturbations decay, and exp(lambda T) if they
    grow. It is infinite if a norm is not finite.

    **Arguments:**

    - `norms`: for each interval, and the end, the norms of the adjoint and of its observation's contribution.
    """
    adjoint, added = norms[..., 0], norms[..., 1]
    put_in = jnp.cumsum(added[..., ::-1], axis=-1)[..., ::-1]
    tiny = np.finfo(np.float64).tiny
    ratio = jnp.max(jnp.where(put_in > 0, adjoint / jnp.maximum(put_in, tiny), 0.0), initial=0.0)
    return jnp.where(jnp.all(jnp.isfinite(norms)), ratio, jnp.inf)


Emit = Callable[[PyTree, PyTree], PyTree]
Probes = Float[Array, "E 2"] | None
# start and size of steps
TimesSizes = tuple[Array, Array]
# from the carry before the steps of an interval to that after them
Through = Callable[[PyTree, TimesSizes], PyTree]
Keep = Callable[[Callable], Callable]


def time_loop(
    stepper: AbstractStepper,
    y0: PyTree,
    grid: TimeGrid,
    emit: Emit,
    inputs: PyTree,
    probes: Probes,
    shape: CheckpointLevels,
    keep: Keep,
    through: Through | None = None,
) -> tuple[PyTree, PyTree]:
    """Final state, and the results of `emit` at every observation, stacked.

    **Arguments:**

    - `stepper`, `y0`, `grid`, `emit`, `inputs`, `probes`: as in `AbstractAdjoint.run`.
    - `shape`: the nesting of the loops.
    - `keep`: wraps functions that the reverse pass runs again.
    - `through`: runs the steps of one interval; by default one step after the other.
    """
    times, sizes = grid.times_and_sizes()
    carry = stepper.init(times[0, 0].astype(precision(y0)), y0)
    steps = through or _stepwise(stepper, len(shape.steps), keep, grid.frozen)

    def interval(carry: PyTree, x: PyTree) -> tuple[PyTree, PyTree]:
        t_h, inputs_i, probe = x
        if probe is not None:
            carry = with_adjoint_norm(carry, probe[0])
        carry = steps(carry, t_h)
        y = carry[0] if probe is None else with_adjoint_norm(carry[0], probe[1])
        return carry, keep(emit)(y, inputs_i)

    intervals = _nested(interval, len(shape.intervals), keep, innermost=not shape.merged)
    t_h = (grouped(times, shape.steps, 1), grouped(sizes, shape.steps, 1, zeros=True))
    # intervals that pad the last group have steps of zero length
    xs = (
        (grouped(t_h[0], shape.intervals, 0), grouped(t_h[1], shape.intervals, 0, zeros=True)),
        jax.tree.map(lambda x: grouped(jnp.asarray(x)[int(grid.observes_start) :], shape.intervals, 0), inputs),
        None if probes is None else grouped(probes[:-1], shape.intervals, 0),
    )
    carry, outputs = intervals(carry, xs)
    depth, count = len(shape.intervals), grid.intervals
    outputs = jax.tree.map(lambda x: x.reshape(-1, *x.shape[depth:])[:count], outputs)
    if grid.observes_start:
        first = emit(y0, jax.tree.map(lambda x: x[0], inputs))
        outputs = jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), first, outputs)
    return carry[0] if probes is None else with_adjoint_norm(carry[0], probes[-1, 1]), outputs


def store_all(
    stepper: AbstractStepper, y0: PyTree, grid: TimeGrid, emit: Emit, inputs: PyTree, probes: Probes = None
) -> tuple[PyTree, PyTree]:
    """The time loop that stores every intermediate value for its reverse pass, or runs without one.

    **Arguments:** as in `AbstractAdjoint.run`.
    """
    shape = nest(grid.intervals, grid.length, 1)
    return time_loop(stepper, y0, grid, emit, inputs, probes, shape, keep=lambda f: f)


def _stepwise(stepper: AbstractStepper, loops: int, keep: Keep, padded: bool) -> Through:
    """Function that takes steps one after the other, in nested loops."""

    def one_step(carry: PyTree, t_h: TimesSizes) -> tuple[PyTree, None]:
        return stepped(stepper, carry, t_h, padded), None

    steps = _nested(one_step, loops, keep, innermost=True)
    return lambda carry, t_h: steps(carry, t_h)[0]


def stepped(stepper: AbstractStepper, carry: PyTree, t_h: TimesSizes, padded: bool = False) -> PyTree:
    """A carry after one step. Times are computed in float64 and passed on in the state's precision.

    **Arguments:**

    - `stepper`: the stepper of the carry.
    - `carry`: the state, and the solver's memory between steps.
    - `t_h`: start and size of the step.
    - `padded`: whether many steps have zero length (padding). A single trajectory skips them.
    """
    t, h = (x.astype(precision(carry)) for x in t_h)
    return unless_padding(lambda carry: stepper(t, h, carry), carry, h, padded)


def unless_padding(step: Callable[[PyTree], PyTree], carry: PyTree, h: Array, padded: bool) -> PyTree:
    """A carry after a step; if many steps are padding, a step of zero length is skipped.

    Several trajectories at once take every step, since their padding differs.
    """
    return lax.cond(h != 0, step, lambda carry: carry, carry) if padded else step(carry)


def precision(y: PyTree) -> np.dtype:
    """The dtype of a state."""
    return jax.tree.leaves(y)[0].dtype


def _nested(body: Callable, loops: int, keep: Keep, innermost: bool) -> Callable:
    """Nested scans around a body. Iterations are wrapped in `keep`, the innermost ones only if `innermost`."""
    function = body
    for k in range(loops):
        turn = keep(function) if k or innermost else function
        function = _scan(turn)
    return function


def _scan(turn: Callable) -> Callable:
    return lambda carry, xs: lax.scan(turn, carry, xs)


def grouped(x: Array, loops: tuple[int, ...], axis: int, zeros: bool = False) -> Array:
    """An array with one axis split into the axes of nested loops.

    **Arguments:**

    - `x`: the array.
    - `loops`: the lengths of the loops, outermost first.
    - `axis`: the axis to split.
    - `zeros`: whether missing entries at its end are zeros; by default they are copies of its last entry.
    """
    missing = int(np.prod(loops)) - x.shape[axis]
    if missing:
        width = [(0, missing) if a == axis else (0, 0) for a in range(x.ndim)]
        x = jnp.pad(x, width) if zeros else jnp.pad(x, width, mode="edge")
    return x.reshape(*x.shape[:axis], *loops, *x.shape[axis + 1 :])


def checkpoint(function: Callable) -> Callable:
    """A function that the reverse pass evaluates again, so that no intermediate value is stored."""
    # prevent_cse only matters outside a scan, and costs time inside
    return jax.checkpoint(function, prevent_cse=False)


def fold(
    stepper: AbstractStepper,
    y0: PyTree,
    grid: TimeGrid,
    add: Callable[[PyTree, PyTree, PyTree], PyTree],
    inputs: PyTree,
    total: PyTree,
    through: Through | None = None,
) -> tuple[PyTree, PyTree]:
    """Final state, and a total over all observations, with the memory of one state.

    **Arguments:**

    - `stepper`: the stepper of the state.
    - `y0`: the state at the start.
    - `grid`: the steps.
    - `add`: the new total from the total so far, the state at observation i, and `inputs[i]`.
    - `inputs`: the inputs of `add` at each observation, on a leading axis.
    - `total`: the total before any observation.
    - `through`: runs the steps of one interval; by default one step after the other.
    """
    end, total, _ = forward(stepper, y0, grid, lambda *at: (add(*at), None), inputs, total, through)
    return end, total


def forward(
    stepper: AbstractStepper,
    y0: PyTree,
    grid: TimeGrid,
    observe: Callable[[PyTree, PyTree, PyTree], tuple[PyTree, PyTree]],
    inputs: PyTree,
    total: PyTree = None,
    through: Through | None = None,
) -> tuple[PyTree, PyTree, PyTree]:
    """Final state, a total over all observations, and an output of each, stacked, without checkpoints.

    **Arguments:** as in `fold`, but `observe` maps to the new total and the output.
    """
    first = None
    if grid.observes_start:
        total, first = observe(total, y0, jax.tree.map(lambda x: x[0], inputs))
    steps = through or (_counted(stepper) if grid.counted else _stepwise(stepper, 1, lambda f: f, grid.frozen))

    def interval(carry: PyTree, x: PyTree) -> tuple[PyTree, PyTree]:
        (inside, total), (of_steps, inputs_i) = carry, x
        inside = steps(inside, of_steps)
        total, output = observe(total, inside[0], inputs_i)
        return (inside, total), output

    later = jax.tree.map(lambda x: x[int(grid.observes_start) :], inputs)
    begin = stepper.init(jnp.asarray(grid.start)[0].astype(precision(y0)), y0), total
    of_steps = _starts_and_counts(grid) if grid.counted else grid.times_and_sizes()
    ((end, _), total), outputs = lax.scan(interval, begin, (of_steps, later))
    if grid.observes_start:
        outputs = jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), first, outputs)
    return end, total, outputs


def _starts_and_counts(grid: TimeGrid) -> tuple[Array, Array, Array]:
    """Start and size of the steps of every interval, each step's own if they differ, and their number."""
    start, step, count = (jnp.asarray(x) for x in (grid.start, grid.step, grid.count))
    return (*(grid.times_and_sizes() if grid.frozen else (start, step)), count)


def _counted(stepper: AbstractStepper) -> Callable[[PyTree, tuple[Array, Array, Array]], PyTree]:
    """Function that takes the steps of an interval by their number, for `_starts_and_counts`."""

    def steps(carry: PyTree, of_steps: tuple[Array, Array, Array]) -> PyTree:
        start, size, count = of_steps

        def one_step(j: Array, carry: PyTree) -> PyTree:
            return stepped(stepper, carry, (start[j], size[j]) if size.ndim else (start + j * size, size))

        return lax.fori_loop(0, count, one_step, carry)

    return steps
