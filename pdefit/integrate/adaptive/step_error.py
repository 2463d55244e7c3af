"""The error of frozen steps at other parameters than those they were chosen for."""

import diffrax
import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from pdefit.integrate.adaptive.tolerance import Adaptive
from pdefit.integrate.loop.batch import AbstractBatch, Vmap
from pdefit.integrate.loop.stepper import AbstractStepper
from pdefit.integrate.loop.time_grid import TimeGrid
from pdefit.integrate.loop.time_loop import store_all
from pdefit.integrate.solvers.method import embedded_method_of
from pdefit.systems.system import AbstractSystem


class _LargestError(AbstractStepper):
    """Steps of a state beside the largest error so far."""

    system: AbstractSystem
    solver: diffrax.AbstractSolver
    steps: Adaptive
    args: PyTree

    def init(self, t, y):
        return y, None

    def __call__(self, t, h, carry):
        (y, worst), _ = carry
        after, error = embedded_method_of(self.solver).step_with_error(self.system, t, h, y, self.args)
        return (after, jnp.maximum(worst, self.steps.error(error, y, after))), None


@eqx.filter_jit
def step_error(
    system: AbstractSystem,
    starts: PyTree,
    grid: TimeGrid,
    *,
    solver: diffrax.AbstractSolver,
    steps: Adaptive,
    batch: AbstractBatch | None = None,
    args: PyTree = None,
) -> Float[Array, ""]:
    """The largest error of all steps of a batch of trajectories, 1 at the tolerance, found by one forward run.

    **Arguments:**

    - `system`: the equations.
    - `starts`: the initial states, on a leading axis.
    - `grid`: the steps, on a leading axis.
    - `solver`: a solver that estimates its error.
    - `steps`: the tolerance.
    - `batch`: how trajectories are batched; by default all run at once.
    - `args`: exogenous inputs of the system.
    """

    def worst(y0: PyTree, grid: TimeGrid) -> Array:
        inputs = np.zeros(grid.intervals + grid.observes_start)
        stepper = _LargestError(system, solver, steps, args)
        (_, found), _ = store_all(stepper, (y0, jnp.zeros(())), grid, lambda y, _: jnp.zeros(()), inputs)
        return found

    return jnp.max((batch or Vmap())(worst, starts, grid))
