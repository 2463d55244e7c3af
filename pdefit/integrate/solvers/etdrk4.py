"""An exponential integrator for systems with a stiff linear part that is diagonal in a basis."""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from pdefit._util.errors import PdefitError
from pdefit.integrate.solvers.method import AbstractOwnStep, AbstractPrepared
from pdefit.systems.linear_operators import AbstractDiagonal

# the trapezoidal rule converges geometrically: half as many points are exact to round-off already
_POINTS = 32
# relative difference of a step from the one that was prepared, where both are rounded to single precision
_ROUNDED = 1e-6


class Coefficients(NamedTuple):
    """Coefficients of a step for every mode, in the notation of `ETDRK4`; E = exp(h L / 2)."""

    E: Array
    Q: Array
    f1: Array
    f2: Array
    f3: Array


class ETDRK4(AbstractOwnStep, AbstractPrepared):
    """Exponential time differencing of fourth order, for y' = N(t, y) + L y with L diagonal (`AbstractDiagonal`).

    For waves and patterns on periodic Fourier grids. Not for adaptive steps, or if N itself is stiff.

    L is integrated exactly, so that neither decay nor waves restrict the step. N must be stable by itself. Its four
    evaluations per step are

        a = E v + Q N(v),  b = E v + Q N(a),  c = E a + Q (2 N(b) - N(v)),             E = exp(h L / 2)
        v(t + h) = E^2 v + f1 N(v) + 2 f2 (N(a) + N(b)) + f3 N(c)

    Q and f_i are functions of h L whose textbook formulas lose all digits near zero. So they are means over a circle
    around h L in the complex plane, in double precision. They are computed once before the time loop and are
    differentiable in L. If observation times lead to more than 256 distinct step sizes, every step computes its own.
    There is no error estimate, so steps are constant.

    **Arguments:** the user gives none; the time loop sets them.

    - `sizes`: the distinct sizes of steps, (D,), for which coefficients were computed.
    - `coefficients`: the coefficients, for every leaf of the modes, (D, ...).

    Sources: S. M. Cox, P. C. Matthews, J. Comput. Phys. 176:430 (2002), doi:10.1006/jcph.2002.6995; A.-K. Kassam, L. N.
    Trefethen, SIAM J. Sci. Comput. 26:1214 (2005), doi:10.1137/S1064827502410633.
    """

    sizes: Float[Array, " D"] | None = None
    coefficients: PyTree = None

    @property
    def real_stability(self):
        return float("inf")

    def prepared(self, system, sizes):
        known = jax.tree.map(lambda e: jax.vmap(lambda h: _coefficients(h, e))(sizes), _diagonal(system).eigenvalues())
        return dataclasses.replace(self, sizes=sizes, coefficients=known)

    def one_step(self, system, t, h, y, args):
        system = _diagonal(system)
        v, known = system.to_modes(y), self._coefficients(system, h)

        def combined(function, *modes: PyTree) -> PyTree:
            """A linear combination of modes with one coefficient for each."""
            leaves, tree = jax.tree.flatten(v)
            parts = zip(known, *map(jax.tree.leaves, modes), strict=True)
            return tree.unflatten([function(_cast(c, m), *x) for m, (c, *x) in zip(leaves, parts, strict=True)])

        def slope(shift: float, modes: PyTree) -> PyTree:
            return system.explicit_modes(t + shift * h, system.from_modes(modes), args)

        def half(c: Coefficients, v: Array, n: Array) -> Array:
            return c.E * v + c.Q * n

        n = system.explicit_modes(t, y, args)
        a = combined(half, v, n)
        n_a = slope(0.5, a)
        b = combined(half, v, n_a)
        n_b = slope(0.5, b)
        c = combined(lambda c, a, n_b, n: c.E * a + c.Q * (2 * n_b - n), a, n_b, n)
        n_c = slope(1.0, c)

        def end(c: Coefficients, v: Array, n: Array, n_a: Array, n_b: Array, n_c: Array) -> Array:
            return c.E * (c.E * v) + c.f1 * n + 2 * c.f2 * (n_a + n_b) + c.f3 * n_c

        after = system.from_modes(combined(end, v, n, n_a, n_b, n_c))
        # a transform and its inverse differ from nothing by round-off, which steps of zero length must not add up
        return jax.tree.map(lambda new, old: jnp.where(h != 0, new, old), after, y)

    def _coefficients(self, system: AbstractDiagonal, h: Array) -> list[Coefficients]:
        """Coefficients of a step of size h, for every leaf of the state."""
        if self.sizes is None:
            return [_coefficients(h, e) for e in jax.tree.leaves(system.eigenvalues())]
        found = jax.tree.leaves(self.coefficients, is_leaf=lambda x: isinstance(x, Coefficients))
        nearest = jnp.argmin(jnp.abs(self.sizes - h)) if self.sizes.size > 1 else 0
        # coefficients of another step would be wrong without a sign; a step may have been rounded to single precision
        known = (h == 0) | (jnp.abs(self.sizes[nearest] - h) <= _ROUNDED * h)
        return [jax.tree.map(lambda x: jnp.where(known, x[nearest], jnp.nan), c) for c in found]

    def order(self, terms):
        return 4


def _coefficients(h: Array, eigenvalues: Array) -> Coefficients:
    """Coefficients of a step of size h, in double precision; real if the eigenvalues are."""
    h, eigenvalues = h.astype(jnp.float64), jnp.asarray(eigenvalues)
    is_real = not jnp.iscomplexobj(eigenvalues)
    x = h * eigenvalues.astype(jnp.float64 if is_real else jnp.complex128)
    size = jnp.abs(jax.lax.stop_gradient(x))
    # a circle of radius 1 passes through zero, where digits are lost, when x is on the unit circle
    radius = jnp.where(jnp.abs(size - 1) < 0.5, 2.0, 1.0)
    circle = np.exp(2j * np.pi * (np.arange(_POINTS) + 0.5) / _POINTS).reshape(-1, *(1,) * x.ndim)
    z = x[None] + radius[None] * circle
    half, whole = jnp.exp(z / 2), jnp.exp(z)

    def mean(values: Array) -> Array:
        found = h * jnp.mean(values, axis=0)
        return found.real if is_real else found

    return Coefficients(
        E=jnp.exp(x / 2),
        Q=mean((half - 1) / z),
        f1=mean((-4 - z + whole * (4 - 3 * z + z**2)) / z**3),
        f2=mean((2 + z + whole * (z - 2)) / z**3),
        f3=mean((-4 - 3 * z - z**2 + whole * (4 - z)) / z**3),
    )


def _cast(coefficients: Coefficients, modes: Array) -> Coefficients:
    """Coefficients in the precision of the modes."""
    real, both = modes.real.dtype, modes.dtype
    return jax.tree.map(lambda x: x.astype(both if jnp.iscomplexobj(x) else real), coefficients)


def _diagonal(system: object) -> AbstractDiagonal:
    if not isinstance(system, AbstractDiagonal):
        raise PdefitError(
            f"ETDRK4 expects equations with a linear part that is diagonal in a basis (AbstractDiagonal), which "
            f"{type(system).__name__} has not; use solver=imex for a split system, solver=rkc for diffusion, or solver=rk4"
        )
    return system
