"""Hidden fields of the first frame, reconstructed from the observed fields that drive them."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jaxtyping import Array, Int, PyTree

from pdefit.data.observations import Observations
from pdefit.integrate.loop.stable_step import choose_steps
from pdefit.integrate.loop.stepper import Stepper
from pdefit.integrate.loop.time_grid import NO_BENDS, TimeGrid, constant_grid
from pdefit.integrate.loop.time_loop import store_all
from pdefit.integrate.solvers.rk4 import RK4
from pdefit.inverse.problem.nudging import nudge_of
from pdefit.inverse.problem.problem import Problem

# cells of the table at most, and its rows over which the noise of observed fields is averaged
_CELLS, _NEIGHBOURS = 1024, 32
# frames ahead that a cell is known by, and the first frame of the table, as parts of the record
_AHEAD, _FROM = (1 / 8, 1 / 4, 3 / 8), 0.3
# times that the record is gone through
_ROUNDS = 3


def driven_state(problem: Problem, observations: Observations) -> PyTree:
    """State at the first frame, with hidden fields reconstructed from the observed fields that drive them.

    Hidden fields that do not spread, such as gates, forget their initial state while the observed fields drive them. So
    they are integrated from a uniform state. Their values in the middle of the record form a table over delay
    coordinates of the observed fields: values, their change to the next frame, and later values. The first frame is
    looked up in it. The pass is repeated twice from the result, because slow fields forget slowly.

    For fields that are driven by observed fields and forget their initial state within the record. Not for fields that
    drive the observed ones without being driven.

    **Arguments:**

    - `problem`: the problem, with parameters at their guesses.
    - `observations`: the record.
    """
    nudge, tree = nudge_of(problem, observations, 1.0), jax.tree.structure(problem.y0)
    shown = [values is not None for values in nudge.values]
    # a twin knows its hidden fields: no more than their mean is taken
    leaves = zip(shown, jax.tree.leaves(problem.y0), strict=True)
    fields = [x if is_shown else jnp.full_like(x, jnp.mean(x)) for is_shown, x in leaves]
    ts, size = observations.ts, fields[0].size
    if len(ts) < 2:
        return jax.tree.unflatten(tree, fields)
    cells = jnp.asarray(np.unique(np.linspace(0, size - 1, min(size, _CELLS)).astype(int)))
    coordinates = _delay_coordinates([np.asarray(v).reshape(len(ts), -1) for v in nudge.values if v is not None])
    late = slice(int(_FROM * len(coordinates)), len(coordinates))
    known = coordinates[late][:, cells].reshape(-1, coordinates.shape[-1])
    scale = np.std(known, axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    near = scipy.spatial.KDTree(known / scale).query(coordinates[0] / scale, min(_NEIGHBOURS, len(known)))[1]
    # one neighbour has no axis of its own
    near = near.reshape(size, -1)
    for _ in range(_ROUNDS):
        y0 = nudge(jnp.asarray(nudge.ts[0]), jnp.ones(()), jax.tree.unflatten(tree, fields))
        solver, dt = choose_steps([(problem.system, y0)], None, RK4(), args=problem.args)
        stepper = Stepper(problem.system, solver, problem.args, nudge, problem.events)
        ends = NO_BENDS if problem.events is None else problem.events.ends(ts)
        states = _followed(stepper, y0, constant_grid(float(ts[0]), ts, dt, ends), cells)
        fields = jax.tree.leaves(y0)
        for i, (is_shown, x, values) in enumerate(zip(shown, fields, states, strict=True)):
            if not is_shown:
                table = np.asarray(values)[late].reshape(-1)
                fields[i] = jnp.asarray(table[near].mean(axis=-1).reshape(x.shape), x.dtype)
    return jax.tree.unflatten(tree, fields)


def _delay_coordinates(seen: list[np.ndarray]) -> np.ndarray:
    """Delay coordinates of every cell, forward in time: observed values, their change to the next frame, and later values.

    **Arguments:** `seen`: the observed fields, (frames, size) each.
    """
    frames = len(seen[0])
    ahead = sorted({1, *(int(part * frames) for part in _AHEAD)} - {0})
    n = frames - ahead[-1]
    each = [x for v in seen for x in (v[:n], v[1 : n + 1] - v[:n], *(v[k : k + n] for k in ahead if k > 1))]
    return np.stack(each, axis=-1)


@eqx.filter_jit
def _followed(stepper: Stepper, y0: PyTree, grid: TimeGrid, cells: Int[Array, " m"]) -> list[jax.Array]:
    """Every field in selected cells at every frame, (n, cells)."""
    flags = np.zeros(grid.count.size + grid.observes_start)
    return store_all(
        stepper.prepared(grid), y0, grid, lambda y, _: [jnp.ravel(x)[cells] for x in jax.tree.leaves(y)], flags
    )[1]
