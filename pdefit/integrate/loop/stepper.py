"""Time steps of a system with a solver: the only place that calls solvers."""

import abc
import dataclasses

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

# these register how a kind of solver is stepped
import pdefit.integrate.solvers.explicit
import pdefit.integrate.solvers.implicit
import pdefit.integrate.solvers.symplectic  # noqa: F401
from pdefit._util.errors import PdefitError
from pdefit.integrate.loop.nudge import Nudge
from pdefit.integrate.loop.time_grid import TimeGrid
from pdefit.integrate.solvers.method import AbstractOneStep, AbstractPrepared, Carry, method_of
from pdefit.systems.capabilities import AbstractReduced
from pdefit.systems.events import Events
from pdefit.systems.system import AbstractSystem


class AbstractStepper(eqx.Module):
    """One step of the time loop.

    It advances a carry, whose first part is the state, from time t by a step of size h.
    """

    @abc.abstractmethod
    def init(self, t: Array, y: PyTree) -> Carry:
        """Carry of the time loop at time t: the state y, and the solver's memory between steps."""

    @abc.abstractmethod
    def __call__(self, t: Array, h: Array, carry: Carry) -> Carry:
        """The carry at t + h."""

    def prepared(self, grid: TimeGrid) -> "AbstractStepper":
        """The stepper with everything precomputed that all steps of a time grid share.

        **Arguments:**

        - `grid`: the steps, of one trajectory or of a batch.
        """
        return self


class Stepper(AbstractStepper):
    """A step of a system with a solver.

    **Arguments:**

    - `system`: the equations.
    - `solver`: the solver, of this package or of diffrax.
    - `args`: exogenous inputs of the system.
    - `nudge`: the relaxation of the state towards data at the start of some steps; None without nudging.
    - `events`: doses, infusions and resets; None without them.
    """

    system: AbstractSystem
    solver: diffrax.AbstractSolver
    args: PyTree = None
    nudge: Nudge | None = None
    events: Events | None = None

    def init(self, t, y):
        if self.events is not None and not isinstance(method_of(self.solver), AbstractOneStep):
            raise PdefitError(
                f"{type(self.solver).__name__} remembers earlier steps, which events make wrong; take solver=rk4, or kvaerno3"
            )
        return method_of(self.solver).begin(self.system, t, y, self.args)

    def __call__(self, t, h, carry):
        if self.nudge is not None:
            carry = self.nudge(t, h, carry[0]), *carry[1:]
        system, y = self.begun(t, h, carry[0])
        return method_of(self.solver).advance(system, t, h, (y, *carry[1:]), self.args)

    def begun(self, t: Array, h: Array, y: PyTree) -> tuple[AbstractSystem, PyTree]:
        """The equations of a step and the state at its start, as its events change them.

        **Arguments:** as in `Events.begin`.
        """
        return (self.system, y) if self.events is None else self.events.begin(self.system, t, h, y)

    def timed(self, grid: TimeGrid) -> "Stepper":
        """The stepper whose events know the steps of a time grid that begin with them.

        **Arguments:** `grid`: the steps, of one trajectory or of a batch.
        """
        if self.events is None:
            return self
        if grid.frozen:
            steps = TimeGrid.times_and_sizes if grid.start.ndim == 1 else jax.vmap(TimeGrid.times_and_sizes)
            times, sizes = steps(grid)
            starts = jnp.where(sizes > 0, times, jnp.inf)
        else:
            # equal steps begin with events at the starts of intervals only; beside these lie a second and a last one
            start, sizes, count = (jnp.asarray(x) for x in (grid.start, grid.step, grid.count))
            each = zip((0, 1, count - 1), (0, 1, 2), strict=True)
            starts = jnp.stack([jnp.where(count > least, start + k * sizes, jnp.inf) for k, least in each])
        return dataclasses.replace(self, events=self.events.at_steps(starts.ravel(), jnp.max(sizes)))

    def prepared(self, grid):
        method, system = method_of(self.solver), self.system
        reduced = self.timed(grid)
        if isinstance(system, AbstractReduced):
            reduced = dataclasses.replace(reduced, system=system.reduced())
        if not isinstance(method, AbstractPrepared) or grid.sizes is None:
            return reduced
        sizes = jnp.asarray(grid.sizes, jnp.float64)
        # all trajectories of a batch have the same list of sizes
        solver = method.prepared(reduced.system, sizes.reshape(-1, sizes.shape[-1])[0])
        return eqx.tree_at(lambda s: s.solver, reduced, solver)
