"""Monotone maps between a control in physical units and its search variable theta (unconstrained, rescaled).

Bounds and priors are in physical units. Every map is increasing, so that a physical box is a box in theta too.
"""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array


class AbstractTransform(eqx.Module):
    """An increasing map from physical to search space. It acts element by element and keeps shapes."""

    @abc.abstractmethod
    def to_search(self, x: Array) -> Array:
        """theta(x), not finite where x is outside the transform's domain."""

    @abc.abstractmethod
    def to_physical(self, theta: Array) -> Array:
        """x(theta), defined for every real theta."""


class Identity(AbstractTransform):
    """The transform theta = x."""

    def to_search(self, x):
        return x

    def to_physical(self, theta):
        return theta


class Log(AbstractTransform):
    """The transform theta = ln x, for a positive quantity known up to a factor."""

    def to_search(self, x):
        return jnp.log(x)

    def to_physical(self, theta):
        return jnp.exp(theta)


class Log10(AbstractTransform):
    """The transform theta = log10 x, for a positive quantity known up to decades."""

    def to_search(self, x):
        return jnp.log10(x)

    def to_physical(self, theta):
        return jnp.power(jnp.asarray(10.0, theta.dtype), theta)


class Logit(AbstractTransform):
    """The transform theta = ln((x - lower) / (upper - x)), for a quantity that can never leave an interval.

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
    """The transform x = ln(1 + e^theta), for a positive quantity: logarithmic near zero and linear far from it."""

    def to_search(self, x):
        return x + jnp.log(-jnp.expm1(-x))

    def to_physical(self, theta):
        return jax.nn.softplus(theta)


class Scale(AbstractTransform):
    """The transform theta = x / factor, for a quantity of either sign.

    **Arguments:**

    - `factor`: the size of the quantity, in its unit; default 1.
    """

    factor: float = 1.0

    def __check_init__(self):
        if not self.factor > 0:
            raise ValueError(f"Scale expects a positive factor, but got {self.factor}")

    def to_search(self, x):
        return x / self.factor

    def to_physical(self, theta):
        return theta * self.factor
