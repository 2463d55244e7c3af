"""What the symplectic solvers share: a term that shows them positions, velocities and acceleration."""

from collections.abc import Callable
from typing import Any, ClassVar

import diffrax
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from pdefit.integrate.solvers.method import AbstractMethod, AbstractOneStep, method_of
from pdefit.integrate.solvers.term import AbstractMemoryless
from pdefit.systems.capabilities import AbstractMechanical


class MechanicalTerm(diffrax.AbstractTerm):
    """The right-hand side of a system with `AbstractMechanical`, in local time s = t - offset."""

    system: Any
    offset: Array

    def __check_init__(self):
        if not isinstance(self.system, AbstractMechanical):
            raise ValueError(
                f"Symplectic solvers expect a system with positions and velocities (AbstractMechanical), but got "
                f"{type(self.system).__name__}; choose a Runge-Kutta solver"
            )

    def vf(self, t, y, args):
        return self.system.vector_field(self.offset + t, y, args)

    def contr(self, t0, t1, **kwargs):
        return t1 - t0

    def prod(self, vf, control):
        return jax.tree.map(lambda v: control * v, vf)


class AbstractSymplectic(AbstractMemoryless):
    """A fixed-step solver for x'' = a(t, x) that conserves the symplectic form; subclasses write `advance`."""

    term_structure: ClassVar = MechanicalTerm

    def step(self, terms, t0, t1, y0, args, solver_state, made_jump):
        system = terms.system

        def acceleration(s: Array, x: PyTree) -> PyTree:
            return system.acceleration(terms.offset + s, x, args)

        x, v = self.advance(acceleration, t0, t1 - t0, system.positions(y0), system.velocities(y0))
        y1 = system.assemble(x, v)
        return y1, None, dict(y0=y0, y1=y1), None, diffrax.RESULTS.successful

    def advance(self, acceleration: Callable, s: Any, h: Any, x: PyTree, v: PyTree) -> tuple[PyTree, PyTree]:
        """Positions and velocities at s + h from those at s."""
        raise NotImplementedError


class Symplectic(AbstractOneStep):
    """Steps of a symplectic solver."""

    solver: AbstractSymplectic

    @property
    def real_stability(self):
        return 2.0

    @property
    def estimate_order(self):
        return None

    def one_step(self, system, t, h, y, args):
        # in local time 0..h, so that h keeps its precision however large t is
        term = MechanicalTerm(system, t)
        return self.solver.step(term, jnp.zeros_like(h), h, y, args, None, made_jump=False)[0]

    def step_with_error(self, system, t, h, y, args):
        raise NotImplementedError


@method_of.register
def _(solver: AbstractSymplectic) -> AbstractMethod:
    return Symplectic(solver)


def kick_drift_kick(acceleration: Callable, s: Array, h: Array, x: PyTree, v: PyTree) -> tuple[PyTree, PyTree]:
    """v += h/2 a(s, x); x += h v; v += h/2 a(s + h, x): second order, symmetric, symplectic."""
    v = jax.tree.map(lambda v, a: v + h / 2 * a, v, acceleration(s, x))
    x = jax.tree.map(lambda x, v: x + h * v, x, v)
    v = jax.tree.map(lambda v, a: v + h / 2 * a, v, acceleration(s + h, x))
    return x, v
