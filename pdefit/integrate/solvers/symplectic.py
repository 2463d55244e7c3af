"""Symplectic methods: velocity Verlet, Yoshida's method, and their base."""

import abc
from collections.abc import Callable
from typing import ClassVar

import diffrax
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, PyTree

from pdefit.integrate.solvers.method import (
    AbstractMemoryless,
    AbstractMethod,
    AbstractOneStep,
    SystemTerm,
    method_of,
)
from pdefit.systems.capabilities import AbstractMechanical

Acceleration = Callable[[Array, PyTree], PyTree]


class MechanicalTerm(SystemTerm):
    """Right-hand side of an `AbstractMechanical` system, in local time.

    **Arguments:**

    - `system`: the equations, with positions and velocities.
    - `offset`: the time t at which the local time s = t - offset is zero.
    """

    offset: Array

    def __check_init__(self):
        if not isinstance(self.system, AbstractMechanical):
            raise ValueError(
                f"Symplectic solvers expect a system with positions and velocities (AbstractMechanical), but got "
                f"{type(self.system).__name__}; choose a Runge-Kutta solver"
            )

    def vf(self, t, y, args):
        return self.system.vector_field(self.offset + t, y, args)


class AbstractSymplectic(AbstractMemoryless):
    """A fixed-step solver for x'' = a(t, x) that conserves the symplectic form.

    A subclass writes `advance`.
    """

    term_structure: ClassVar = MechanicalTerm

    def step(self, terms, t0, t1, y0, args, solver_state, made_jump):
        system = terms.system

        def acceleration(s: Array, x: PyTree) -> PyTree:
            return system.acceleration(terms.offset + s, x, args)

        x, v = self.advance(
            acceleration, jnp.asarray(t0), jnp.asarray(t1 - t0), system.positions(y0), system.velocities(y0)
        )
        y1 = system.assemble(x, v)
        return y1, None, dict(y0=y0, y1=y1), None, diffrax.RESULTS.successful

    @abc.abstractmethod
    def advance(self, acceleration: Acceleration, s: Array, h: Array, x: PyTree, v: PyTree) -> tuple[PyTree, PyTree]:
        """Positions and velocities after a step.

        **Arguments:**

        - `acceleration`: a(s, x).
        - `s`, `h`: start and size of the step, in local time.
        - `x`, `v`: positions and velocities at s.
        """


class Symplectic(AbstractOneStep):
    """Steps of a symplectic solver."""

    solver: AbstractSymplectic

    @property
    def real_stability(self):
        return 2.0

    def one_step(self, system, t, h, y, args):
        # in local time 0..h, so that h keeps its precision however large t is
        term = MechanicalTerm(system, t)
        return self.solver.step(term, jnp.zeros_like(h), h, y, args, None, made_jump=False)[0]


@method_of.register
def _(solver: AbstractSymplectic) -> AbstractMethod:
    return Symplectic(solver)


def kick_drift_kick(acceleration: Acceleration, s: Array, h: Array, x: PyTree, v: PyTree) -> tuple[PyTree, PyTree]:
    """The step v += h/2 a(s, x), x += h v, v += h/2 a(s + h, x): second order, symmetric and symplectic.

    **Arguments:**

    - `acceleration`: a(s, x).
    - `s`, `h`: start and size of the step, in local time.
    - `x`, `v`: positions and velocities at s.
    """
    v = jax.tree.map(lambda v, a: v + h / 2 * a, v, acceleration(s, x))
    x = jax.tree.map(lambda x, v: x + h * v, x, v)
    v = jax.tree.map(lambda v, a: v + h / 2 * a, v, acceleration(s + h, x))
    return x, v


class VelocityVerlet(AbstractSymplectic):
    """The velocity Verlet method: kick, drift, kick.

    For long motion of bodies whose energy must not drift. Not for forces that depend on velocities, such as friction,
    or if accuracy counts more than speed (`Yoshida4`).

    It is symplectic, of second order and time-reversible, with a bounded energy error. It needs a system with positions
    and velocities (`AbstractMechanical`), and its steps are constant.

    Source: W. C. Swope et al., J. Chem. Phys. 76:637 (1982), doi:10.1063/1.442716.
    """

    def order(self, terms):
        return 2

    def advance(self, acceleration, s, h, x, v):
        return kick_drift_kick(acceleration, s, h, x, v)


_OUTER = 1 / (2 - 2 ** (1 / 3))
_INNER = 1 - 2 * _OUTER


class Yoshida4(AbstractSymplectic):
    """Yoshida's symplectic method of order four.

    For accurate orbits over long times, under smooth forces. Not for forces that depend on velocities, or have kinks, at
    which its order is lost (`VelocityVerlet`).

    It consists of three velocity Verlet steps of sizes w h, (1 - 2w) h, w h with w = 1/(2 - 2^(1/3)), of which the
    middle one runs backward. It needs a system with positions and velocities (`AbstractMechanical`), and its steps are
    constant.

    Source: H. Yoshida, Phys. Lett. A 150:262 (1990), doi:10.1016/0375-9601(90)90092-3.
    """

    def order(self, terms):
        return 4

    def advance(self, acceleration, s, h, x, v):
        fractions = jnp.asarray([_OUTER, _INNER, _OUTER], h.dtype)

        def substep(carry, fraction):
            s, x, v = carry
            x, v = kick_drift_kick(acceleration, s, fraction * h, x, v)
            return (s + fraction * h, x, v), None

        (_, x, v), _ = lax.scan(substep, (s, x, v), fractions)
        return x, v
