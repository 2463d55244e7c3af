"""An adaptive pass: the steps that a tolerance allows, as a plan."""

from typing import Any, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, PyTree

from pdefit._util.errors import PdefitError
from pdefit.integrate.adaptive.tolerance import Adaptive
from pdefit.integrate.loop.stable_step import longest_step
from pdefit.integrate.loop.time_grid import TimeGrid, frozen_grid
from pdefit.integrate.solvers.method import method_of
from pdefit.systems.system import AbstractSystem

# a pass accepts errors up to ACCEPTED of the tolerance and aims at AIM: frozen steps serve other parameters too, whose
# errors may be larger
AIM, ACCEPTED = 0.25, 0.5
# by what one step may differ from the one before
_SHRINK, _GROW = 0.2, 5.0
MOST_STEPS = 1_000_000
# steps tried by one call of the compiled loop
_TRIES = 1024


def adaptive_grid(
    system: AbstractSystem,
    y0: PyTree,
    ts: np.ndarray,
    *,
    solver: diffrax.AbstractSolver,
    steps: Adaptive,
    t0: float,
    args: PyTree = None,
) -> TimeGrid:
    """The steps of an adaptive pass from y0 at t0 that observes at ts (the first may be t0 itself), frozen."""
    steps.check(system, y0, solver)
    ts = np.asarray(ts, np.float64)
    observes_start = bool(ts[0] == t0)
    edges = ts if observes_start else np.concatenate([[t0], ts])
    walk = _begin(system, solver, steps, y0, jnp.asarray(edges), args)
    longest = longest_step(system, y0, solver)
    longest = jnp.asarray(longest if steps.dtmax is None else min(longest, steps.dtmax))
    sizes, intervals = [np.zeros(0)], [np.zeros(0, int)]
    taken = 0
    while int(walk.interval) < edges.size - 1:
        walk = _walk(system, solver, steps, walk, jnp.asarray(edges), longest, args)
        count = int(walk.taken)
        taken += count
        sizes.append(np.asarray(walk.sizes)[:count])
        intervals.append(np.asarray(walk.intervals)[:count])
        unit, where = system.time_unit, f"at t = {float(walk.t):g} {system.time_unit}"
        if bool(walk.collapsed):
            raise PdefitError(
                f"The adaptive step of {type(system).__name__} collapses to {float(walk.h):.1g} {unit} {where}: the model "
                f"blows up there, or the tolerance is below round-off; correct the parameters, or set rtol and atol larger"
            )
        if taken > MOST_STEPS:
            raise PdefitError(
                f"{type(system).__name__} takes more than {MOST_STEPS:.0e} adaptive steps, the last of "
                f"{float(walk.h):.1g} {unit} {where}; set rtol and atol larger"
            )
    size, interval = np.concatenate(sizes), np.concatenate(intervals)
    cut = np.searchsorted(interval, np.arange(1, edges.size - 1))
    return frozen_grid(edges, np.split(size, cut), observes_start)


class _Walk(NamedTuple):
    """An adaptive pass under way: the state y at t, the next step h, and the steps taken by this call, each with the
    interval it lies in."""

    t: Array
    y: PyTree
    h: Array
    interval: Array
    collapsed: Array
    tried: Array
    taken: Array
    sizes: Array
    intervals: Array


@eqx.filter_jit
def _begin(
    system: AbstractSystem,
    solver: diffrax.AbstractSolver,
    steps: Adaptive,
    y0: PyTree,
    edges: Float[Array, " E"],
    args: PyTree,
) -> _Walk:
    zero = jnp.zeros((), int)
    h = jnp.minimum(_first_step(system, _order(solver), steps, edges[0], y0, args), edges[-1] - edges[0])
    h = jnp.where(jnp.isfinite(h) & (h > 0), h, 1e-6 * (edges[-1] - edges[0]))
    empty = jnp.zeros(_TRIES), jnp.zeros(_TRIES, int)
    return _Walk(edges[0], y0, h, zero, jnp.zeros((), bool), zero, zero, *empty)


@eqx.filter_jit
def _walk(
    system: AbstractSystem,
    solver: diffrax.AbstractSolver,
    steps: Adaptive,
    walk: _Walk,
    edges: Float[Array, " E"],
    longest: Float[Array, ""],
    args: PyTree,
) -> _Walk:
    """As many steps as one call may try, or to the end."""
    method, order = method_of(solver), _order(solver)
    dtype = jax.tree.leaves(walk.y)[0].dtype
    smallest = 16 * jnp.finfo(jnp.float64).eps * jnp.maximum(jnp.abs(edges[0]), jnp.abs(edges[-1]))

    def running(w: _Walk) -> Array:
        return (w.interval < edges.size - 1) & (w.tried < _TRIES) & ~w.collapsed

    def body(w: _Walk) -> _Walk:
        left = edges[w.interval + 1] - w.t
        wanted = jnp.minimum(w.h, longest)
        # the last two steps before an observation share what is left: none is tiny
        last = wanted >= left * (1 - 1e-9)
        h = jnp.where(last, left, jnp.where(2 * wanted > left, left / 2, wanted))
        y, error = method.step_with_error(system, w.t.astype(dtype), h.astype(dtype), w.y, args)
        norm = steps.error(error, w.y, y)
        # not finite: rejected, and the step reduced
        good = norm <= ACCEPTED
        factor = jnp.clip((AIM / jnp.maximum(norm, 1e-12)) ** (1 / order), _SHRINK, _GROW)
        proposed = h * jnp.where(jnp.isfinite(norm), factor, _SHRINK)
        # a step that an observation cut short says nothing against the one that was wanted
        proposed = jnp.where(good & (h < wanted), jnp.maximum(proposed, wanted), proposed)
        ends = good & last
        return _Walk(
            t=jnp.where(ends, edges[w.interval + 1], jnp.where(good, w.t + h, w.t)),
            y=jax.tree.map(lambda new, old: jnp.where(good, new, old), y, w.y),
            h=proposed,
            interval=w.interval + ends,
            collapsed=~good & (proposed < smallest),
            tried=w.tried + 1,
            taken=w.taken + good,
            # a step that is rejected is overwritten by the next
            sizes=w.sizes.at[w.taken].set(h),
            intervals=w.intervals.at[w.taken].set(w.interval),
        )

    return lax.while_loop(running, body, walk._replace(tried=jnp.zeros((), int), taken=jnp.zeros((), int)))


def _order(solver: Any) -> int:
    """The estimated error of a step falls as this power of its size."""
    return method_of(solver).estimate_order or 1


def _first_step(system: AbstractSystem, order: int, steps: Adaptive, t: Array, y: PyTree, args: PyTree) -> Array:
    """A first step from the sizes of y, y' and y'' (Hairer, Norsett, Wanner II.4)."""
    dtype = jax.tree.leaves(y)[0].dtype
    slope = system.vector_field(t.astype(dtype), y, args)
    size, speed = steps.error(y, y, y), steps.error(slope, y, y)
    h = jnp.where((size < 1e-5) | (speed < 1e-5), 1e-6, 0.01 * size / jnp.where(speed > 0, speed, 1.0))
    moved = jax.tree.map(lambda u, k: u + h.astype(u.dtype) * k, y, slope)
    later = system.vector_field((t + h).astype(dtype), moved, args)
    bend = steps.error(jax.tree.map(jnp.subtract, later, slope), y, y) / h
    most = jnp.maximum(speed, bend)
    return jnp.minimum(100 * h, jnp.where(most > 1e-15, (0.01 / jnp.maximum(most, 1e-15)) ** (1 / order), 1e-3))
