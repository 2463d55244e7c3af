"""Interface between the time loop and solvers of any origin, and adapters for diffrax solvers."""

import abc
import functools
from collections.abc import Callable
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from pdefit._util.errors import PdefitError
from pdefit.systems.system import AbstractSystem

# the state, and what a solver remembers between steps
Carry = tuple[PyTree, Any]
Self = TypeVar("Self", bound="AbstractPrepared")


class AbstractMethod(eqx.Module):
    """A method that advances a system by one step.

    A step can be differentiated forward and in reverse, and vmapped. A step of zero length returns its state.
    """

    @property
    @abc.abstractmethod
    def real_stability(self) -> float:
        """Largest x for which the method is stable for y' = -x y with step 1; infinite for implicit methods."""

    @abc.abstractmethod
    def begin(self, system: AbstractSystem, t: Array, y: PyTree, args: PyTree) -> Carry:
        """Carry of the time loop at time t: the state `y`, and the method's memory between steps.

        **Arguments:** as in `AbstractOneStep.one_step`.
        """

    @abc.abstractmethod
    def advance(self, system: AbstractSystem, t: Array, h: Array, carry: Carry, args: PyTree) -> Carry:
        """Carry at time t + h.

        **Arguments:** as in `AbstractOneStep.one_step`, with

        - `carry`: the carry at time t.
        """


class AbstractOneStep(AbstractMethod):
    """A method without memory between steps."""

    def begin(self, system, t, y, args):
        return y, None

    def advance(self, system, t, h, carry, args):
        return self.one_step(system, t, h, carry[0], args), None

    @abc.abstractmethod
    def one_step(self, system: AbstractSystem, t: Array, h: Array, y: PyTree, args: PyTree) -> PyTree:
        """State after a step.

        **Arguments:**

        - `system`: the equations.
        - `t`, `h`: start and size of the step, in the system's time unit.
        - `y`: the state at t.
        - `args`: exogenous inputs of the system.
        """


class AbstractEmbedded(AbstractOneStep):
    """A method with an error estimate, as adaptive steps need."""

    @property
    @abc.abstractmethod
    def estimate_order(self) -> int:
        """Power of the step size with which the estimated error falls."""

    @abc.abstractmethod
    def step_with_error(
        self, system: AbstractSystem, t: Array, h: Array, y: PyTree, args: PyTree
    ) -> tuple[PyTree, PyTree]:
        """State after a step, and its estimated error. It is never differentiated.

        **Arguments:** as in `one_step`.
        """


class AbstractStaged(eqx.Module):
    """A solver whose number of stages may be left open until the step is known."""

    @abc.abstractmethod
    def settled(self, x: float | None) -> diffrax.AbstractSolver:
        """This solver with a fixed number of stages; unchanged if the number is given.

        **Arguments:**

        - `x`: the number of stages is the smallest that is stable for y' = -x y with step 1. None for a moderate
          number.
        """


class AbstractPrepared(AbstractMethod):
    """A method with precomputations from the equations before the time loop, for all of its steps."""

    @abc.abstractmethod
    def prepared(self: Self, system: AbstractSystem, sizes: Float[Array, " D"]) -> Self:
        """The method with its precomputations. Without them, it repeats them in every step.

        **Arguments:**

        - `system`: the equations, in which the result can be differentiated.
        - `sizes`: the distinct sizes of steps, in the system's time unit.
        """


class _Remembering(AbstractMethod):
    """Any other diffrax solver, stepped by its own `step`."""

    solver: diffrax.AbstractSolver

    @property
    def real_stability(self):
        # that of explicit Euler, because a diffrax solver does not state its own
        return 2.0

    def begin(self, system, t, y, args):
        return y, self.solver.init(_term(system), t, t, y, args)

    def advance(self, system, t, h, carry, args):
        y, state = carry
        stepped, _, _, remembered, _ = self.solver.step(_term(system), t, t + h, y, args, state, made_jump=False)
        # what a solver remembers between steps must not see the steps of zero length that pad a time grid
        return jax.tree.map(lambda new, old: jnp.where(h != 0, new, old), (stepped, remembered), carry)


def _term(system: AbstractSystem) -> diffrax.AbstractTerm:
    # diffrax's type of a vector field has other names of arguments
    vector_field: Any = system.vector_field
    return diffrax.ODETerm(vector_field)


@functools.singledispatch
def method_of(solver: Any) -> AbstractMethod:
    """The method that steps with a solver.

    A file with its own steps for a kind of solver registers them here.
    """
    return _Remembering(solver)


@method_of.register
def _(solver: AbstractMethod) -> AbstractMethod:
    return solver


def embedded_method_of(solver: diffrax.AbstractSolver) -> AbstractEmbedded:
    """The method that steps with a solver and estimates the error; refused without an estimate."""
    method = method_of(solver)
    if not isinstance(method, AbstractEmbedded):
        raise PdefitError(
            f"Adaptive steps expect a solver that estimates its error, which {type(solver).__name__} does not; use Tsit5, "
            f"Dopri5, Dopri8, Bosh3, Heun, RKC or Kvaerno5"
        )
    return method


class SystemTerm(diffrax.AbstractTerm):
    """A system as a diffrax term, for solvers that need more than its vector field.

    For example `diffrax.diffeqsolve(SystemTerm(system), pdefit.solvers.IMEX(), ...)`.
    """

    system: Any

    def vf(self, t, y, args):
        return self.system.vector_field(t, y, args)

    def contr(self, t0, t1, **kwargs):
        return t1 - t0

    def prod(self, vf, control):
        return jax.tree.map(lambda v: control * v, vf)


@runtime_checkable
class HasVectorField(Protocol):
    """An object with a vector field: a system, or a diffrax term."""

    def vector_field(self, t: Array, y: PyTree, args: PyTree) -> PyTree:
        """The right-hand side of the equations."""


class _Bare(eqx.Module):
    """A diffrax term with the interface of a system's vector field."""

    term: Any

    def vector_field(self, t, y, args):
        return self.term.vf(t, y, args)


class AbstractMemoryless(diffrax.AbstractSolver):
    """Interface of diffrax for a solver without memory between steps."""

    interpolation_cls: ClassVar[Callable[..., diffrax.AbstractLocalInterpolation]] = diffrax.LocalLinearInterpolation

    def init(self, terms, t0, t1, y0, args):
        return None

    def func(self, terms, t0, y0, args):
        return terms.vf(t0, y0, args)


def system_of(term: Any) -> Any:
    """The system of a term, or an object with the term's vector field."""
    return term.system if isinstance(term, SystemTerm) else _Bare(term)


class AbstractOwnStep(AbstractMemoryless, AbstractOneStep):
    """A solver with diffrax's interface and its own step."""

    term_structure: ClassVar = diffrax.AbstractTerm

    def step(self, terms, t0, t1, y0, args, solver_state, made_jump):
        given = system_of(terms), jnp.asarray(t0), jnp.asarray(t1 - t0), y0, args
        embedded = isinstance(self, AbstractEmbedded)
        y1, error = self.step_with_error(*given) if embedded else (self.one_step(*given), None)
        return y1, error, dict(y0=y0, y1=y1), None, diffrax.RESULTS.successful
