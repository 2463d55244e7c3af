"""Yoshida's symplectic method of order four."""

import jax.numpy as jnp
from jax import lax

from pdefit.integrate.solvers.symplectic import AbstractSymplectic, kick_drift_kick

_OUTER = 1 / (2 - 2 ** (1 / 3))
_INNER = 1 - 2 * _OUTER


class Yoshida4(AbstractSymplectic):
    """Yoshida's symplectic method of order four.

    For accurate orbits over long times, under smooth forces. Not for forces that depend on velocities, or have kinks,
    where its order is lost (`VelocityVerlet`).

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
