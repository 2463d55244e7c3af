"""Hidden fields of the first frame, from what drives them."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PyTree
from scipy import spatial

from pdefit.data.observations import Observations
from pdefit.integrate.loop.stable_step import choose_steps
from pdefit.integrate.loop.stepper import Stepper
from pdefit.integrate.loop.time_grid import TimeGrid, constant_grid
from pdefit.integrate.loop.time_loop import store_all
from pdefit.integrate.solvers.rk4 import RK4
from pdefit.inverse.problem.nudging import nudge_of
from pdefit.inverse.problem.problem import Problem

# cells that are followed at most, and neighbours over which the noise of observed fields is averaged
_CELLS, _NEIGHBOURS = 1024, 64


def driven_state(problem: Problem, observations: Observations) -> PyTree:
    """The state at the first frame, with hidden fields as the observed ones drive them later in the record.

    Hidden fields that do not spread, such as gates, forget how they began while the observed fields drive them. So they
    are followed from those of the problem, and in the second half of the record they are a table over the observed
    fields and their change to the next frame. The first frame is looked up in it.

    For fields that the observed ones drive and that forget within half of the record. Not for fields that drive the
    observed ones without being driven.

    **Arguments:**

    - `problem`: the problem, with numbers at their guess.
    - `observations`: the record.
    """
    nudge, tree = nudge_of(problem, observations, 1.0), jax.tree.structure(problem.y0)
    shown = [values is not None for values in nudge.values]
    start = jax.tree.leaves(nudge(jnp.asarray(nudge.ts[0]), jnp.ones(()), problem.y0))
    y0 = jax.tree.unflatten(tree, start)
    solver, dt = choose_steps([(problem.system, y0)], None, RK4(), args=problem.args)
    stepper = Stepper(problem.system, solver, problem.args, nudge)
    ts, size = observations.ts, start[0].size
    cells = jnp.asarray(np.unique(np.linspace(0, size - 1, min(size, _CELLS)).astype(int)))
    states = _followed(stepper, y0, constant_grid(float(ts[0]), ts, dt), cells)
    # the observed fields at every frame, and their change to the next one
    seen = [np.asarray(v).reshape(len(ts), -1) for v in nudge.values if v is not None]
    looks = np.stack([x for v in seen for x in (v[:-1], np.diff(v, axis=0))], axis=-1)
    late = slice((len(ts) - 1) // 2, len(ts) - 1)
    known = looks[late][:, cells].reshape(-1, looks.shape[-1])
    scale = np.std(known, axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    near = spatial.KDTree(known / scale).query(looks[0] / scale, min(_NEIGHBOURS, len(known)))[1]
    # one neighbour has no axis of its own
    near, found = near.reshape(size, -1), []
    for is_shown, x, values in zip(shown, start, states, strict=True):
        table = np.asarray(values)[late].reshape(-1)
        found.append(x if is_shown else jnp.asarray(table[near].mean(axis=-1).reshape(x.shape), x.dtype))
    return jax.tree.unflatten(tree, found)


@eqx.filter_jit
def _followed(stepper: Stepper, y0: PyTree, grid: TimeGrid, cells: Int[Array, " m"]) -> list[jax.Array]:
    """Every field in some cells at every frame, (n, cells)."""
    flags = np.zeros(grid.count.size + grid.observes_start)
    return store_all(
        stepper.prepared(grid), y0, grid, lambda y, _: [jnp.ravel(x)[cells] for x in jax.tree.leaves(y)], flags
    )[1]
