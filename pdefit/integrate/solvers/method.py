"""What the engine asks of a solver, whoever wrote it."""

import abc
import functools
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from pdefit.systems.system import AbstractSystem

# the state, and what a solver remembers between steps
Carry = tuple[PyTree, Any]


class AbstractMethod(eqx.Module):
    """Advances a system by a step, in forward and reverse mode, vmapped too; a step of zero length returns its state."""

    @property
    @abc.abstractmethod
    def real_stability(self) -> float:
        """The x up to which the method is stable for y' = -x y with step 1; infinite for implicit methods."""

    @property
    @abc.abstractmethod
    def estimate_order(self) -> int | None:
        """The estimated error of a step falls as this power of its size; None for a method without an estimate."""

    @abc.abstractmethod
    def begin(self, system: AbstractSystem, t: Array, y: PyTree, args: PyTree) -> Carry:
        """What is carried from step to step, at time t."""

    @abc.abstractmethod
    def advance(self, system: AbstractSystem, t: Array, h: Array, carry: Carry, args: PyTree) -> Carry:
        """The carry at t + h."""

    @abc.abstractmethod
    def step_with_error(
        self, system: AbstractSystem, t: Array, h: Array, y: PyTree, args: PyTree
    ) -> tuple[PyTree, PyTree]:
        """y after a step, and the error estimated in it, for the choice of steps: never differentiated."""


class AbstractOneStep(AbstractMethod):
    """A method that remembers nothing between steps."""

    def begin(self, system, t, y, args):
        return y, None

    def advance(self, system, t, h, carry, args):
        return self.one_step(system, t, h, carry[0], args), None

    @abc.abstractmethod
    def one_step(self, system: AbstractSystem, t: Array, h: Array, y: PyTree, args: PyTree) -> PyTree:
        """y after a step."""


class AbstractStaged(eqx.Module):
    """A solver whose number of stages may be left open until the step is known."""

    @abc.abstractmethod
    def settled(self, x: float | None) -> diffrax.AbstractSolver:
        """This solver with as few stages as are stable for y' = -x y with step 1 (None: with a moderate number). A solver
        whose stages are given returns itself."""


class _Remembering(AbstractMethod):
    """Any other solver of diffrax, which steps itself."""

    solver: diffrax.AbstractSolver

    @property
    def real_stability(self):
        return 2.0

    @property
    def estimate_order(self):
        return None

    def begin(self, system, t, y, args):
        return y, self.solver.init(_term(system), t, t, y, args)

    def advance(self, system, t, h, carry, args):
        y, state = carry
        stepped, _, _, remembered, _ = self.solver.step(_term(system), t, t + h, y, args, state, made_jump=False)
        # what a solver remembers between steps must not see the steps of zero length that pad a plan
        return jax.tree.map(lambda new, old: jnp.where(h != 0, new, old), (stepped, remembered), carry)

    def step_with_error(self, system, t, h, y, args):
        raise NotImplementedError


def _term(system: AbstractSystem) -> diffrax.AbstractTerm:
    vector_field: Any = system.vector_field
    return diffrax.ODETerm(vector_field)


@functools.singledispatch
def method_of(solver: Any) -> AbstractMethod:
    """How the engine steps with this solver; a file that steps a kind of solver itself registers it here."""
    return _Remembering(solver)


@method_of.register
def _(solver: AbstractMethod) -> AbstractMethod:
    return solver
