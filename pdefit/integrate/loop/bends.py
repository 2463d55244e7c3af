"""Times at which steps must end, because an input bends more than a step resolves, or rates jump."""

from collections.abc import Sequence
from typing import NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from pdefit._util.depends import depends
from pdefit._util.errors import PdefitError
from pdefit._util.trees import is_traced
from pdefit.integrate.loop.time_grid import MOST_STEPS, NO_BENDS, step_ends
from pdefit.integrate.loop.time_loop import precision
from pdefit.integrate.solvers.method import method_of
from pdefit.systems.courses import Course
from pdefit.systems.system import AbstractSystem

# errors of the integral of an input over a step, in units of its mean size over the record and the largest step. A
# larger one is taken where a smaller one would more than double the steps, and add more than _FEW
_ERRORS, _FEW = (1e-3, 1e-2, 1e-1), 64
# part of a step at its ends in which a knot is taken to lie at the end
_AT_END = 1e-6
# distance of steps from a jump in round-off of the times, and the rise of a rate that is a jump: in round-off of the
# largest rate, and in units of the rises beside it
_BESIDE, _RISE, _STEEP = 8, 1e4, 1e3
# the random part of the state at which jumps are looked for, so that none is hidden by a zero
_STIRRED = 1e-3


class Passed(NamedTuple):
    """The input that steps resolve worst.

    **Arguments:**

    - `error`: the largest quadrature error over one step, relative to the input's mean size times the largest step.
    - `name`, `may_move`: as in the input's course.
    """

    error: float = 0.0
    name: str = ""
    may_move: bool = False

    @property
    def remarks(self) -> tuple[str, ...]:
        """A sentence about an error larger than steps should make; empty without one."""
        if self.error <= 2 * _ERRORS[0]:
            return ()
        if self.may_move:
            why, how = "its knots may move with an unknown", "take adaptive steps"
        else:
            why, how = "ends at all of its knots would more than double the steps", "smooth it (method: smooth)"
        return (
            f"{self.name} changes within steps, by up to {self.error:.2g} times its mean size over a step, because {why}; set "
            f"dt well below the distance between its knots, or {how}",
        )


def bends(edges: Float[np.ndarray, " E"], dt: float, inputs: Sequence[Course]) -> Float[np.ndarray, " B"]:
    """Knots of inputs at which steps must end, from values alone.

    A step misses an input if Simpson's rule (start, middle and end of the step, as at stages) misses its integral. The
    step then ends at the inner knot with the strongest bend, and the test is repeated. A densely and smoothly sampled
    series has no such knot.

    **Arguments:**

    - `edges`: times at which steps end in any case, such as observation times.
    - `dt`: the largest step between them, in the system's time unit.
    - `inputs`: the courses of all inputs.
    """
    if not inputs or not dt > 0 or np.ptp(edges) > MOST_STEPS * dt:
        return np.zeros(0)
    found, plain = edges, step_ends(edges, dt).size
    for error in _ERRORS:
        found, new = edges, edges
        while new.size:
            each = [_missed(step_ends(found, dt), x) for x in inputs]
            new = np.concatenate([knot[missed > error] for missed, knot in each])
            found = np.union1d(found, new)
        if step_ends(found, dt).size <= plain + max(plain, _FEW):
            break
    for course in inputs if np.isinf(dt) else ():
        if course.may_move:
            # an adaptive pass follows a corner by itself, but not where its frozen steps would make it one of the objective
            ends, middles = np.isin(course.knots, found), (course.knots[1:] + course.knots[:-1]) / 2
            found = np.union1d(np.setdiff1d(found, course.knots), middles[ends[1:] | ends[:-1]])
    return np.setdiff1d(found, edges)


def reads_time(system: AbstractSystem, y0: PyTree, args: PyTree) -> bool:
    """True if rates depend on the time, by one trace; False under `jax.jit`, and for rates that fail.

    **Arguments:** as in `beside_jumps`.
    """

    def rates(t: Array) -> list[Array]:
        return jax.tree.leaves(system.vector_field(t, y0, args))

    # a plugin fails with any exception, which a step reports better
    try:
        return not is_traced((system, y0, args)) and any(depends(rates, jnp.zeros((), precision(y0))))
    except Exception:
        return False


def beside_jumps(
    system: AbstractSystem, y0: PyTree, args: PyTree, ends: Float[np.ndarray, " E"]
) -> Float[np.ndarray, " J"]:
    """Times just before and just after each end of a step at which a rate jumps, as at the last knot of an input.

    Steps that end there see one side of the jump: left limits before it, right limits after it. The step across the
    jump is as short as round-off.

    **Arguments:**

    - `system`, `y0`, `args`: the equations, a state and the exogenous inputs, with their present values.
    - `ends`: times at which steps end, (E,).
    """
    if not reads_time(system, y0, args):
        return NO_BENDS
    dtype, random = precision(y0), np.random.default_rng(0)
    round_off = float(jnp.finfo(dtype).eps)
    try:
        sizes = jax.tree.map(lambda x: _STIRRED * (float(np.max(np.abs(x), initial=0.0)) or 1.0), y0)
        stirred = jax.tree.map(
            lambda x, s: np.asarray(x) + (s * random.normal(size=x.shape)).astype(x.dtype), y0, sizes
        )
        near = ends[:, None] + _BESIDE * round_off * np.max(np.abs(ends)) * np.array([-3.0, -1.0, 1.0, 3.0])
        found = _rates(system, stirred, args, near.astype(dtype))
    # a plugin fails with any exception, which a step reports better
    except Exception:
        return NO_BENDS
    jumps = np.zeros(ends.size, bool)
    for rate in (np.asarray(x).reshape(ends.size, 4, -1) for x in found):
        before, rise, after = np.max(np.abs(np.diff(rate, axis=1)), axis=2).T
        jumps |= rise > np.maximum(_RISE * round_off * np.max(np.abs(rate)), _STEEP * (before + after))
    return near[jumps, 1:3].ravel()


@eqx.filter_jit
def _rates(system: AbstractSystem, y: PyTree, args: PyTree, ts: Array | np.ndarray) -> list[Array]:
    """Rates of all fields of a state at times (E, 4)."""
    return jax.lax.map(jax.vmap(lambda t: jax.tree.leaves(system.vector_field(t, y, args))), jnp.asarray(ts))


def passed_over(ends: Float[np.ndarray, " N"], inputs: Sequence[Course]) -> Passed:
    """The input that steps resolve worst.

    **Arguments:**

    - `ends`: the ends of all steps.
    - `inputs`: the courses of all inputs.
    """
    errors = (float(np.max(_missed(ends, x)[0], initial=0.0)) for x in inputs)
    return max((Passed(e, x.name, x.may_move) for e, x in zip(errors, inputs, strict=True)), default=Passed())


def refuse_stages_beyond(solver: diffrax.AbstractSolver) -> None:
    """Refuse, if an input bends, a solver for constant steps whose stages lie beyond the step.

    **Arguments:** `solver`: the solver.
    """
    if np.max(getattr(method_of(solver), "c", 0.0)) > 1 + _AT_END:
        raise PdefitError(
            f"{type(solver).__name__} reads inputs after the end of its steps, which end here because an input bends; take "
            f"solver=kvaerno3, or adaptive steps"
        )


def _missed(ends: np.ndarray, course: Course) -> tuple[np.ndarray, np.ndarray]:
    """For each step with knots of an input inside: its quadrature error, and the knot of the input's strongest bend."""
    t, step = course.knots, np.searchsorted(ends, course.knots, side="right") - 1
    low, high = ends[np.clip(step, 0, ends.size - 2)], ends[np.clip(step + 1, 1, ends.size - 1)]
    near = _AT_END * (high - low)
    inside = (step >= 0) & (step < ends.size - 1) & (t > low + near) & (t < high - near)
    if not np.any(inside) or not course.size:
        return np.zeros(0), np.zeros(0)
    first = np.flatnonzero(np.diff(step[inside], prepend=-1))
    a, b = low[inside][first], high[inside][first]
    simpson = (course.at(a) + 4 * course.at((a + b) / 2) + course.at(b)) / 6
    wrong = course.integral(b) - course.integral(a) - (b - a)[:, None] * simpson
    # a bend counts by the square of its distance from the ends of the step, as in the error of a straight line
    slopes = np.diff(course.at(t), axis=0) / np.diff(t)[:, None]
    bend = np.linalg.norm(np.diff(slopes, axis=0, prepend=0.0, append=0.0), axis=1)
    weight = (bend * np.minimum(t - low, high - t) ** 2)[inside]
    last = np.lexsort((weight, step[inside]))[np.append(first[1:], weight.size) - 1]
    return np.linalg.norm(wrong, axis=1) / (course.size * np.max(np.diff(ends))), t[inside][last]
