"""The continuous adjoint with backward integration of the state."""

import dataclasses
import math

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, PyTree

from pdefit._util.errors import PdefitError
from pdefit.adjoints.base import Account
from pdefit.integrate.loop.stable_step import stated_step
from pdefit.integrate.loop.stepper import Stepper
from pdefit.integrate.loop.time_grid import TimeGrid
from pdefit.integrate.loop.time_loop import TimesSizes, grouped, precision, stepped
from pdefit.integrate.solvers.explicit import VectorField
from pdefit.lab.continuous_adjoints._base import AbstractContinuous, Field, split

# lambda_max times the longest time that a state is integrated backward: errors grow by up to exp(5) = 150
_MOST_GROWTH = 5.0


class Backsolve(AbstractContinuous):
    """The continuous adjoint that integrates the state backward together with the adjoint, and stores almost nothing.

    For long records of equations that are also stable backward in time. Not for diffusion, or if the gradient must be
    exact: `Checkpointed` is, in little memory.

        y' = f(t, y),    a' = -(df/dy)^T a,    g' = -(df/dp)^T a,    from the end of an interval to its start

    Modes that decay forward grow backward: errors of the state by exp(lambda_max t), for diffusion with lambda_max = 4
    D/h^2 in each dimension. So the state is reset to stored ones. `reconstruction` measures the error of the state
    before resets.

    **Arguments:**

    - `backups`: the number of stored states in each interval between observations. By default lambda_max times the time
      between them is at most 5, with lambda_max = 2 / `stable_step` at the guess and at the bounds. If a system states
      no stable step, there is one.
    - `substeps`, `solver`: as in `AbstractContinuous`.
    - `counted`: whether the backups were counted for a time grid, so that another grid has them counted again.
    """

    backups: int | None = None
    substeps: int = 1
    solver: diffrax.AbstractERK | None = None
    counted: bool = False

    def __check_init__(self):
        if self.backups is not None and self.backups < 1:
            raise PdefitError(f"Backsolve expects backups of 1 or more in each interval, but got {self.backups}")

    def resolve_for(self, starts, grid, solver):
        if self.backups is not None and not self.counted:
            return self
        stable = stated_step(starts)
        backups = 1 if stable is None else _backups(grid, _MOST_GROWTH * stable / 2)
        return dataclasses.replace(self, backups=backups, counted=True)

    def account(self, grid, unknowns):
        # beside backups, the state at each observation
        backups = self._backups(grid.length)
        stored = grid.intervals * (backups + 1)
        text = f"backsolve ({backups} backups an interval)"
        return Account(text, stored, grid.intervals * grid.length, 1.0 + self.substeps, float(self.substeps))

    def forward(self, stepper, carry, steps):
        def part(carry: PyTree, steps: TimesSizes) -> tuple[PyTree, PyTree]:
            carry, _ = lax.scan(lambda c, s: (stepped(stepper, c, s), None), carry, steps)
            return carry, carry[0]

        return lax.scan(part, carry, self._parts(steps))

    def back(self, field, moving, stored, steps, adjoint):
        def slopes(t: Array, z: PyTree, args: None) -> PyTree:
            y, a, _ = z
            return field.pulled(moving, t, y, a)

        def part(adjoint: PyTree, x: PyTree) -> tuple[PyTree, None]:
            y, steps = x
            return self._backward(field, slopes, (y, *adjoint), steps)[1:], None

        return lax.scan(part, adjoint, (stored, self._parts(steps)), reverse=True)[0]

    def reconstruction(self, stepper: Stepper, y0: PyTree, grid: TimeGrid) -> Float[Array, " I"]:
        """Largest relative error, in each interval, of a state integrated backward before it is reset.

        It is infinite where the state is not finite.

        **Arguments:**

        - `stepper`: the stepper of the state.
        - `y0`: the state at the start.
        - `grid`: the steps of one trajectory, of I intervals.
        """
        moving, fixed, still = split(stepper)
        field = Field(fixed, still, self.method(still.solver))

        def slopes(t: Array, y: PyTree, args: None) -> PyTree:
            return field(moving, t, y)

        def part(worst: Array, x: PyTree) -> tuple[Array, None]:
            start, end, steps = x
            off = _distance(self._backward(field, slopes, end, steps), start)
            return jnp.maximum(worst, jnp.where(jnp.isfinite(off), off, jnp.inf)), None

        def interval(carry: PyTree, steps: TimesSizes) -> tuple[PyTree, Array]:
            after, ends = self.forward(stepper, carry, steps)
            starts = jax.tree.map(lambda y, e: jnp.concatenate([y[None], e[:-1]]), carry[0], ends)
            return after, lax.scan(part, jnp.zeros(()), (starts, ends, self._parts(steps)))[0]

        steps = grid.times_and_sizes()
        return lax.scan(interval, stepper.init(steps[0][0, 0].astype(precision(y0)), y0), steps)[1]

    def _backups(self, length: int) -> int:
        return min(self.backups or 1, length)

    def _parts(self, steps: TimesSizes) -> TimesSizes:
        """Steps of an interval between backups."""
        t, h = steps
        backups = self._backups(t.shape[0])
        loops = backups, math.ceil(t.shape[0] / backups)
        return grouped(t, loops, 0), grouped(h, loops, 0, zeros=True)

    def _backward(self, field: Field, slopes: VectorField, z: PyTree, steps: TimesSizes) -> PyTree:
        """Solution z at the start of some steps, from its value at their end."""
        dtype = precision(z)

        def one(z: PyTree, t_h: TimesSizes) -> tuple[PyTree, None]:
            t, h = t_h

            def substep(z: PyTree, k: Array) -> tuple[PyTree, None]:
                at, back = t + h * (1 - k / self.substeps), -h / self.substeps
                return field.step(slopes, at.astype(dtype), back.astype(dtype), z), None

            return lax.scan(substep, z, jnp.arange(self.substeps))

        return lax.scan(one, z, steps, reverse=True)[0]


def _backups(grid: TimeGrid, longest: float) -> int:
    """Smallest number of backups per interval with at most `longest` between neighbours, but no more than steps.

    **Arguments:**

    - `grid`: the steps of all trajectories, on a leading axis.
    - `longest`: the largest spacing, in the system's time unit.
    """
    steps = grid.step if grid.frozen else grid.step[..., None]
    sizes = np.where(np.arange(grid.length) < grid.count[..., None], steps, 0.0)
    for backups in range(1, grid.length):
        each = math.ceil(grid.length / backups)
        parts = np.add.reduceat(sizes, np.arange(0, grid.length, each), axis=-1)
        if np.max(parts) <= longest * (1 + 1e-9):
            return backups
    return grid.length


def _distance(state: PyTree, expected: PyTree) -> Array:
    """Relative distance |state - expected| / |expected|."""
    gap, size = jnp.zeros(()), jnp.zeros(())
    for x, y in zip(jax.tree.leaves(state), jax.tree.leaves(expected), strict=True):
        gap, size = gap + jnp.sum((x - y).astype(jnp.float64) ** 2), size + jnp.sum(y.astype(jnp.float64) ** 2)
    return jnp.sqrt(gap / jnp.where(size > 0, size, 1.0))
