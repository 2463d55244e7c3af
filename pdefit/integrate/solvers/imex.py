"""An implicit-explicit method for systems with a stiff linear part."""

import jax
import jax.numpy as jnp
from jaxtyping import Array

from pdefit._util.errors import PdefitError
from pdefit.integrate.solvers.method import AbstractOwnStep
from pdefit.systems.linear_operators import AbstractSplit

_GAMMA = 1 - 2**-0.5
_DELTA = 1 - 1 / (2 * _GAMMA)


class IMEX(AbstractOwnStep):
    """The implicit-explicit method ARS(2,2,2) of second order, for y' = N(t, y) + L y (`AbstractSplit`).

    For stiff diffusion, which makes explicit steps too short, with mild reactions. Not for adaptive steps, or if N
    itself is stiff.

    L may be arbitrarily stiff, because it is solved for: its fastest modes decay at once. N must be stable by itself.

        Y_1 = y + h g N_0 + h g L Y_1                                                       g = 1 - 1/sqrt(2)
        Y_2 = y + h (d N_0 + (1 - d) N_1) + h ((1 - g) L Y_1 + g L Y_2),  y(t + h) = Y_2    d = 1 - 1/(2 g)

    A step takes two solves and two evaluations of N. There is no error estimate, so steps are constant.

    Source: U. M. Ascher, S. J. Ruuth, R. J. Spiteri, Appl. Numer. Math. 25:151 (1997),
    doi:10.1016/S0168-9274(97)00056-1.
    """

    @property
    def real_stability(self):
        return float("inf")

    def one_step(self, system, t, h, y, args):
        split = _split(system)
        rest = split.explicit(t, y, args)
        # in increments D_i = Y_i - y, which are exactly zero where h is; L Y_1 follows from the first equation
        pull = jax.tree.map(lambda n, k: _GAMMA * h.astype(n.dtype) * (n + k), rest, split.linear(y))
        one = split.linear_solve(pull, _GAMMA * h)
        later = split.explicit(t + _GAMMA * h, jax.tree.map(jnp.add, y, one), args)

        def second(n0: Array, n1: Array, d: Array, p: Array) -> Array:
            return (1 - _DELTA) * h.astype(d.dtype) * (n1 - n0) + (1 / _GAMMA - 1) * d + p

        two = split.linear_solve(jax.tree.map(second, rest, later, one, pull), _GAMMA * h)
        return jax.tree.map(jnp.add, y, two)

    def order(self, terms):
        return 2


def _split(system: object) -> AbstractSplit:
    if not isinstance(system, AbstractSplit):
        raise PdefitError(
            f"IMEX expects equations split into a linear and another part (AbstractSplit), which {type(system).__name__} "
            f"is not; use solver=rkc for diffusion, or solver=rk4"
        )
    return system
