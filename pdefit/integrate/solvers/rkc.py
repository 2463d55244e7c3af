"""The Runge-Kutta-Chebyshev method of second order: explicit, with many stages for long stable steps."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, PyTree

from pdefit._util.errors import PdefitError
from pdefit.integrate.solvers.method import (
    AbstractEmbedded,
    AbstractOwnStep,
    AbstractStaged,
    HasVectorField,
)

_DAMPING = 2 / 13
# the stages where it is not known how stable a step must be
_MODERATE = 6
# stages amplify round-off by their square
_MOST = 1000


class RKC(AbstractOwnStep, AbstractEmbedded, AbstractStaged):
    """The Runge-Kutta-Chebyshev method: explicit, stabilised, of second order, for diffusion on fine grids.

    For systems that state their stable step and whose fast modes decay. Not for waves, or for advection without
    diffusion: it is hardly stable along the imaginary axis.

    Its s stages are stable for y' = -x y with step 1 up to x = 0.653 (s^2 - 1). A classical method of the same cost
    reaches only a multiple of s.

        Y_0 = y,  Y_1 = Y_0 + m_1 h F_0,
        Y_j = (1 - mu_j - nu_j) Y_0 + mu_j Y_(j-1) + nu_j Y_(j-2) + m_j h F_(j-1) + g_j h F_0,  j = 2..s

    with F_j = f(t + c_j h, Y_j) and coefficients from Chebyshev polynomials, damped by 2/13 so that every mode decays.

    The error of a step is estimated as 0.8 (y_n - y_(n+1)) + 0.4 h (F_n + F_(n+1)). Adaptive steps are kept stable,
    too.

    **Arguments:**

    - `stages`: 2 to 1000. By default the smallest number that is stable with the given step, for a system that states
      its stable step. A fit counts them at its guess, and again if it moves beyond. With adaptive steps, or without a
      step size, there are six.

    Source: B. P. Sommeijer, L. F. Shampine, J. G. Verwer, J. Comput. Appl. Math. 88:315 (1997),
    doi:10.1016/S0377-0427(97)00219-7.
    """

    stages: int | None = None

    def __check_init__(self):
        if self.stages is not None and not (isinstance(self.stages, int) and 2 <= self.stages <= _MOST):
            raise PdefitError(f"RKC expects 2 to {_MOST} stages, but got {self.stages}; set stages, or null to choose")

    def settled(self, x):
        if self.stages is not None:
            return self
        if x is None:
            return RKC(_MODERATE)
        # the asymptotic formula gives a few stages too few, so the search goes up from there
        stages = max(2, int(np.sqrt(min(x, 1e9) / 0.66)))
        while stages <= _MOST and real_interval(stages) < x:
            stages += 1
        if stages > _MOST:
            raise PdefitError(
                f"RKC would take more than {_MOST} stages, of which the step asks {x / 2:.3g} times the stable one; set dt "
                f"smaller"
            )
        return RKC(stages)

    @property
    def real_stability(self):
        return real_interval(self._count)

    @property
    def estimate_order(self):
        return 3

    @property
    def _count(self) -> int:
        return _MODERATE if self.stages is None else self.stages

    def one_step(self, system, t, h, y, args):
        first = system.vector_field(t, y, args)
        return jax.tree.map(jnp.add, y, self._increment(system, t, h, y, first, args))

    def step_with_error(self, system, t, h, y, args):
        first = system.vector_field(t, y, args)
        increment = self._increment(system, t, h, y, first, args)
        after = jax.tree.map(jnp.add, y, increment)
        last = system.vector_field(t + h, after, args)

        def estimate(d: Array, a: Array, b: Array) -> Array:
            return 0.4 * h.astype(d.dtype) * (a + b) - 0.8 * d

        return after, jax.tree.map(estimate, increment, first, last)

    def _increment(self, system: HasVectorField, t: Array, h: Array, y: PyTree, first: PyTree, args: PyTree) -> PyTree:
        """Increment of y in a step, exactly zero if h is zero."""
        c = coefficients(self._count)

        def stage(carry: tuple[PyTree, PyTree], inputs: tuple[Array, ...]) -> tuple[tuple[PyTree, PyTree], None]:
            older, old = carry
            mu, nu, m, g, shift = inputs
            at = jax.tree.map(jnp.add, y, old)
            slope = system.vector_field(t + shift * h, at, args)

            def new(d2: Array, d1: Array, k: Array, k0: Array) -> Array:
                a, b, p, q = (x.astype(d1.dtype) for x in (mu, nu, m * h, g * h))
                return a * d1 + b * d2 + p * k + q * k0

            return (old, jax.tree.map(new, older, old, slope, first)), None

        begin = jax.tree.map(jnp.zeros_like, y), jax.tree.map(lambda k: (c.first * h).astype(k.dtype) * k, first)
        rows = tuple(jnp.asarray(x) for x in (c.mu, c.nu, c.m, c.g, c.shift))
        # checkpointed, as the stages of a tableau are
        return lax.scan(jax.checkpoint(stage, prevent_cse=False), begin, rows)[0][1]

    def order(self, terms):
        return 2


class Coefficients(NamedTuple):
    """Coefficients of a step with s stages, in the notation of `RKC`.

    **Arguments:**

    - `first`: m_1.
    - `mu`, `nu`, `m`, `g`: mu_j, nu_j, m_j, g_j for the stages j = 2..s, (s - 1,).
    - `shift`: c_(j-1), the position at which F_(j-1) is evaluated, (s - 1,).
    """

    first: float
    mu: np.ndarray
    nu: np.ndarray
    m: np.ndarray
    g: np.ndarray
    shift: np.ndarray


def _polynomials(stages: int) -> tuple[float, np.ndarray]:
    """The point w_0, and there T_j, T_j', T_j'' of the Chebyshev polynomials j = 0..s, (3, s + 1)."""
    w0 = 1 + _DAMPING / stages**2
    t = np.zeros((3, stages + 1))
    t[:, 0], t[:, 1] = (1, 0, 0), (w0, 1, 0)
    for j in range(2, stages + 1):
        t[0, j] = 2 * w0 * t[0, j - 1] - t[0, j - 2]
        t[1, j] = 2 * t[0, j - 1] + 2 * w0 * t[1, j - 1] - t[1, j - 2]
        t[2, j] = 4 * t[1, j - 1] + 2 * w0 * t[2, j - 1] - t[2, j - 2]
    return w0, t


def real_interval(stages: int) -> float:
    """Largest x for which s stages are stable for y' = -x y with step 1: (w_0 + 1) T_s''(w_0) / T_s'(w_0)."""
    w0, t = _polynomials(stages)
    return float((w0 + 1) * t[2, -1] / t[1, -1])


def coefficients(stages: int) -> Coefficients:
    """Coefficients of a step with s stages."""
    w0, (t, slope, bend) = _polynomials(stages)
    w1 = slope[-1] / bend[-1]
    j = np.arange(2, stages + 1)
    b = np.empty(stages + 1)
    b[2:] = bend[2:] / slope[2:] ** 2
    b[:2] = b[2]
    a = 1 - b * t
    m = 2 * b[j] * w1 / b[j - 1]
    c = np.empty(stages + 1)
    c[2:] = w1 * bend[2:] / slope[2:]
    c[0], c[1] = 0, c[2] / slope[2]
    return Coefficients(b[1] * w1, 2 * b[j] * w0 / b[j - 1], -b[j] / b[j - 2], m, -a[j - 1] * m, c[j - 1])
