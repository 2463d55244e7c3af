"""Time steps of a system with a solver: the only place that calls solvers."""

import abc

import diffrax
import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, PyTree

# these register how a kind of solver is stepped
import pdefit.integrate.solvers.explicit
import pdefit.integrate.solvers.implicit
import pdefit.integrate.solvers.symplectic  # noqa: F401
from pdefit.integrate.loop.nudge import Nudge
from pdefit.integrate.loop.time_grid import TimeGrid
from pdefit.integrate.solvers.method import AbstractPrepared, Carry, method_of
from pdefit.systems.capabilities import AbstractReduced
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
    """

    system: AbstractSystem
    solver: diffrax.AbstractSolver
    args: PyTree = None
    nudge: Nudge | None = None

    def init(self, t, y):
        return method_of(self.solver).begin(self.system, t, y, self.args)

    def __call__(self, t, h, carry):
        if self.nudge is not None:
            carry = self.nudge(t, h, carry[0]), *carry[1:]
        return method_of(self.solver).advance(self.system, t, h, carry, self.args)

    def prepared(self, grid):
        method, system = method_of(self.solver), self.system
        reduced = self
        if isinstance(system, AbstractReduced):
            reduced = Stepper(system.reduced(), self.solver, self.args, self.nudge)
        if not isinstance(method, AbstractPrepared) or grid.sizes is None:
            return reduced
        sizes = jnp.asarray(grid.sizes, jnp.float64)
        # all trajectories of a batch have the same list of sizes
        solver = method.prepared(reduced.system, sizes.reshape(-1, sizes.shape[-1])[0])
        return eqx.tree_at(lambda s: s.solver, reduced, solver)
