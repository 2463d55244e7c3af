"""Adapters between diffrax, whose solvers step terms, and the solvers here, which step systems."""

from collections.abc import Callable
from typing import Any, ClassVar, Protocol, runtime_checkable

import diffrax
import equinox as eqx
import jax
from jaxtyping import Array, PyTree


class SystemTerm(diffrax.AbstractTerm):
    """A system as a term of diffrax, for solvers that need more of it than its vector field.

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
    """A vector field, which a system and a term of diffrax have in common."""

    def vector_field(self, t: Array, y: PyTree, args: PyTree) -> PyTree:
        """The right-hand side of the equations."""
        ...


class _Bare(eqx.Module):
    """A term of diffrax with its vector field as a system has one."""

    term: Any

    def vector_field(self, t, y, args):
        return self.term.vf(t, y, args)


class AbstractMemoryless(diffrax.AbstractSolver):
    """The interface of diffrax for a solver that remembers nothing between steps."""

    interpolation_cls: ClassVar[Callable[..., diffrax.AbstractLocalInterpolation]] = diffrax.LocalLinearInterpolation

    def init(self, terms, t0, t1, y0, args):
        return None

    def func(self, terms, t0, y0, args):
        return terms.vf(t0, y0, args)


def system_of(term: Any) -> Any:
    """The system of a term, or an object with the vector field of the term."""
    return term.system if isinstance(term, SystemTerm) else _Bare(term)
