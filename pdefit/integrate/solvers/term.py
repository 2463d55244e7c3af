"""Between diffrax, whose solvers are shown terms, and ours, which step systems."""

from collections.abc import Callable
from typing import Any, ClassVar

import diffrax
import equinox as eqx
import jax


class SystemTerm(diffrax.AbstractTerm):
    """A system as a term, for solvers that want more of it than its vector field: `diffrax.diffeqsolve(SystemTerm(system),
    pdefit.IMEX(), ...)`."""

    system: Any

    def vf(self, t, y, args):
        return self.system.vector_field(t, y, args)

    def contr(self, t0, t1, **kwargs):
        return t1 - t0

    def prod(self, vf, control):
        return jax.tree.map(lambda v: control * v, vf)


class _Bare(eqx.Module):
    """What a term shows of a system."""

    term: Any

    def vector_field(self, t, y, args):
        return self.term.vf(t, y, args)


class AbstractMemoryless(diffrax.AbstractSolver):
    """What diffrax asks of a solver of ours that remembers nothing between steps."""

    interpolation_cls: ClassVar[Callable[..., diffrax.AbstractLocalInterpolation]] = diffrax.LocalLinearInterpolation

    def init(self, terms, t0, t1, y0, args):
        return None

    def func(self, terms, t0, y0, args):
        return terms.vf(t0, y0, args)


def system_of(term: Any) -> Any:
    """The system of a term, or something with its vector field."""
    return term.system if isinstance(term, SystemTerm) else _Bare(term)
