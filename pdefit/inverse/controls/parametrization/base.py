"""Parametrizations of an array in search space: the interface, and arrays that are their own coefficients."""

import abc
import math

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


class AbstractParametrization(eqx.Module):
    """The map from coefficients to an array in search space, and the smoothness prior of the coefficients.

    **Arguments:**

    - `shape`: the shape of the array.
    - `roughness`: the weight of every coefficient in the smoothness prior, (size,); None without a prior.
    - `open`: whether a fit chooses these weights.
    """

    shape: tuple[int, ...] = eqx.field(static=True)
    roughness: Array | None = eqx.field(default=None, kw_only=True)
    open: bool = eqx.field(static=True, default=False, kw_only=True)

    @property
    def size(self) -> int:
        """The number of coefficients."""
        return math.prod(self.shape)

    @property
    def weights(self) -> Float[np.ndarray, " size"]:
        """The weight of every coefficient in the smoothness prior; 0 without a prior."""
        return np.zeros(self.size) if self.roughness is None else np.asarray(self.roughness)

    @property
    def groups(self) -> np.ndarray:
        """A number for every coefficient, (size,), equal for those that data should determine about equally well."""
        return np.zeros(self.size)

    def amplitude(self, scale: float) -> float | None:
        """The amplitude of the smoothing: the root mean square of the prior's standard deviation at a point.

        **Arguments:** `scale`: the size of a coefficient that belongs to a change of 1 in theta.

        **Returns:** None without an amplitude.
        """
        return None

    @abc.abstractmethod
    def field(self, coefficients: Float[Array, " size"]) -> Array:
        """The array that coefficients stand for."""

    @abc.abstractmethod
    def coefficients(self, field: Array) -> Array:
        """The coefficients of an array, or of the part of it that they can hold."""

    def at_points(self, changes: Float[Array | np.ndarray, "n size"]) -> Float[Array | np.ndarray, "n size"]:
        """Changes of the array at its points, from changes of coefficients; these themselves if they belong to no point."""
        return changes

    @abc.abstractmethod
    def variance(self, variances: Float[np.ndarray, " size"]) -> Array | np.ndarray:
        """The variance of the array at every point, from variances of independent coefficients."""


class Plain(AbstractParametrization):
    """An array whose elements are the coefficients. It has no smoothness prior."""

    def field(self, coefficients):
        return jnp.reshape(coefficients, self.shape)

    def coefficients(self, field):
        return field

    def variance(self, variances):
        return np.full(self.shape, np.mean(variances))
