"""Series of basis functions of one input as an unknown term."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pdefit._util.errors import PdefitError, unknown
from pdefit.systems.terms.base import AbstractTerm

_BASES = "chebyshev", "fourier", "spline"


class Series(AbstractTerm):
    """A term of one input as a sum of basis functions: Chebyshev polynomials, sines and cosines, or a spline.

    For a function of one input: a growth rate over the density, a diffusivity, a flux. It is linear in its
    coefficients, so that fits and intervals are easier than with a network. Outside its range it keeps the value of the
    nearest end; a Fourier series repeats.

    **Arguments:**

    - `inputs`: the name of its input.
    - `low`, `high`: the range, in the unit of the input.
    - `basis`: `chebyshev`, `fourier` or `spline`; default `chebyshev`. A Fourier series is periodic over the range.
    - `count`: the number of coefficients, or of knots of the spline; default 6; odd for `fourier`.
    - `coefficients`: the coefficients, in the unit of the term, (count,), or a number for all; default 0.
    - `positive`: whether the term is the exponential of the sum, whose coefficients are then logarithms; default False.
      For terms that must stay positive between the knots, too, such as a diffusivity.
    """

    coefficients: Float[Array, " k"]
    inputs: tuple[str, ...] = eqx.field(static=True)
    low: float = eqx.field(static=True)
    high: float = eqx.field(static=True)
    basis: str = eqx.field(static=True)
    positive: bool = eqx.field(static=True)

    def __init__(
        self,
        inputs: Sequence[str],
        low: float,
        high: float,
        basis: str = "chebyshev",
        count: int = 6,
        coefficients: Any = 0.0,
        positive: bool = False,
    ):
        if basis not in _BASES:
            raise unknown("basis of a series", basis, _BASES)
        self.inputs, self.low, self.high, self.basis = tuple(inputs), float(low), float(high), basis
        self.positive = positive
        if len(self.inputs) != 1 or not self.low < self.high:
            raise PdefitError(
                f"A series expects one input and a range of it, but got {list(self.inputs)} from {low:g} to {high:g}; take a "
                f"network for several inputs"
            )
        if count < 2 or basis == "fourier" and count % 2 == 0:
            raise PdefitError(f"A series expects two coefficients or more, an odd number with fourier, but got {count}")
        self.coefficients = jnp.broadcast_to(jnp.asarray(coefficients, float), (count,))

    def __call__(self, *values: Array) -> Array:
        found = self._sum(*values)
        return jnp.exp(found) if self.positive else found

    def _sum(self, x: Array) -> Array:
        c, n = self.coefficients, self.coefficients.size
        part = (jnp.asarray(x) - self.low) / (self.high - self.low)
        if self.basis == "fourier":
            waves = 2 * np.pi * jnp.outer(part.ravel(), jnp.arange(1, n // 2 + 1))
            found = c[0] + jnp.sin(waves) @ c[1 : n // 2 + 1] + jnp.cos(waves) @ c[n // 2 + 1 :]
            return found.reshape(part.shape)
        if self.basis == "spline":
            return _spline(c, (n - 1) * jnp.clip(part, 0.0, 1.0))
        z = 2 * jnp.clip(part, 0.0, 1.0) - 1
        # by Clenshaw's recurrence
        after, last = jnp.zeros_like(z), jnp.zeros_like(z)
        for k in range(n - 1, 0, -1):
            after, last = c[k] + 2 * z * after - last, after
        return c[0] + z * after - last


def _spline(values: Float[Array, " k"], z: Array) -> Array:
    """Cubic spline through values at 0, 1, 2, ... with the slopes of parabolas, as a sum of kernels.

    It is the spline of a smooth time series. Index look-ups would dominate the cost of a field's rate; a sum avoids
    them.
    """
    first, last = _beyond(values), _beyond(values[::-1])
    total = jnp.zeros_like(z)
    for k, value in enumerate((first, *values, last), -1):
        s = jnp.abs(z - k)
        near, far = 1 + s**2 * (1.5 * s - 2.5), 2 - s * (4 - s * (2.5 - 0.5 * s))
        total = total + value * jnp.where(s < 1, near, jnp.where(s < 2, far, 0.0))
    return total


def _beyond(values: Float[Array, " k"]) -> Array:
    """Value one step before the first, from the parabola through the first three, or from the line through two."""
    return 2 * values[0] - values[1] if values.size == 2 else 3 * values[0] - 3 * values[1] + values[2]
