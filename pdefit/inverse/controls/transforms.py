"""Monotone maps between a control in physical units and its search variable theta (unconstrained, rescaled).

Bounds and priors are in physical units. Every map is increasing, so a physical box is also a box in theta.
"""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array


class AbstractTransform(eqx.Module):
    """Increasing map from physical to search space. It acts element by element and keeps shapes."""

    @abc.abstractmethod
    def to_search(self, x: Array) -> Array:
        """theta(x); not finite if x is outside the transform's domain."""

    @abc.abstractmethod
    def to_physical(self, theta: Array) -> Array:
        """x(theta), defined for every real theta."""


class Identity(AbstractTransform):
    """Transform theta = x.

    For quantities of either sign and magnitude near one. Not for positive (`Log`) or large (`Scale`) quantities.
    """

    def to_search(self, x):
        return x

    def to_physical(self, theta):
        return theta


class Log(AbstractTransform):
    """Transform theta = ln x.

    For a positive quantity known up to a factor. Not if zero is possible (`Softplus`).
    """

    def to_search(self, x):
        return jnp.log(x)

    def to_physical(self, theta):
        return jnp.exp(theta)


class Log10(AbstractTransform):
    """Transform theta = log10 x.

    For a positive quantity known up to decades, which theta counts. Not if zero is possible (`Softplus`).
    """

    def to_search(self, x):
        return jnp.log10(x)

    def to_physical(self, theta):
        return jnp.power(jnp.asarray(10.0, theta.dtype), theta)


class Logit(AbstractTransform):
    """Transform theta = ln((x - lower) / (upper - x)).

    For a quantity that can never leave an interval. Not for limits that an estimate may reach (`bounds`).

    **Arguments:**

    - `lower`, `upper`: the ends of the interval, in the control's unit; default 0 and 1.
    """

    lower: float = 0.0
    upper: float = 1.0

    def __check_init__(self):
        if not self.lower < self.upper:
            raise ValueError(f"Logit expects lower < upper, but got [{self.lower}, {self.upper}]")

    def to_search(self, x):
        return jnp.log((x - self.lower) / (self.upper - x))

    def to_physical(self, theta):
        return self.lower + (self.upper - self.lower) * jax.nn.sigmoid(theta)


class Softplus(AbstractTransform):
    """Transform x = ln(1 + e^theta), logarithmic near zero and linear far from it.

    For a positive quantity that may be nearly zero. Not for a quantity known up to a factor (`Log`).
    """

    def to_search(self, x):
        return x + jnp.log(-jnp.expm1(-x))

    def to_physical(self, theta):
        return jax.nn.softplus(theta)


class Scale(AbstractTransform):
    """Transform theta = x / factor.

    For a quantity of either sign and any magnitude. Not for positive quantities (`Log`).

    **Arguments:**

    - `factor`: the magnitude of the quantity, in its unit; default 1.
    """

    factor: float = 1.0

    def __check_init__(self):
        if not self.factor > 0:
            raise ValueError(f"Scale expects a positive factor, but got {self.factor}")

    def to_search(self, x):
        return x / self.factor

    def to_physical(self, theta):
        return theta * self.factor
