"""One time step of a system with a solver: the only place that calls a solver."""

import abc

import diffrax
import equinox as eqx
from jaxtyping import Array, PyTree

# files that say how a kind of solver is stepped
import pdefit.integrate.solvers.explicit
import pdefit.integrate.solvers.implicit
import pdefit.integrate.solvers.symplectic  # noqa: F401
from pdefit.integrate.solvers.method import Carry, method_of
from pdefit.systems.system import AbstractSystem


class AbstractStepper(eqx.Module):
    """Advances a carry, whose first part is the state, by a step of size h from time t."""

    @abc.abstractmethod
    def init(self, t: Array, y: PyTree) -> Carry:
        """The carry of the time loop at time t: the state and what the solver remembers between steps."""

    @abc.abstractmethod
    def __call__(self, t: Array, h: Array, carry: Carry) -> Carry:
        """The carry at t + h."""


class Stepper(AbstractStepper):
    """A step of a system with a solver, as the solver's method takes it."""

    system: AbstractSystem
    solver: diffrax.AbstractSolver
    args: PyTree = None

    def init(self, t, y):
        return method_of(self.solver).begin(self.system, t, y, self.args)

    def __call__(self, t, h, carry):
        return method_of(self.solver).advance(self.system, t, h, carry, self.args)
