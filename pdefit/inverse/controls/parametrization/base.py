"""Parametrizations of an array in search space: the interface, and arrays that are their own coefficients."""

import abc
import math

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


class AbstractParametrization(eqx.Module):
    """Map from coefficients to an array in search space, with a smoothness prior of the coefficients.

    **Arguments:**

    - `shape`: the shape of the array.
    - `roughness`: the weight of every coefficient in the smoothness prior, (size,); None without a prior.
    - `open`: whether a fit estimates these weights.
    """

    shape: tuple[int, ...] = eqx.field(static=True)
    roughness: Array | None = eqx.field(default=None, kw_only=True)
    open: bool = eqx.field(static=True, default=False, kw_only=True)

    @property
    def size(self) -> int:
        """Number of coefficients."""
        return math.prod(self.shape)

    @property
    def weights(self) -> Float[np.ndarray, " size"]:
        """Weight of every coefficient in the smoothness prior; 0 without a prior."""
        return np.zeros(self.size) if self.roughness is None else np.asarray(self.roughness)

    @property
    def groups(self) -> np.ndarray:
        """Group number of every coefficient, (size,); data should determine all coefficients of a group about equally well."""
        return np.zeros(self.size)

    def amplitude(self, scale: float) -> float | None:
        """Amplitude of the smoothing: the root mean square of the prior's standard deviation at a point.

        **Arguments:** `scale`: the change of a coefficient for a change of 1 in theta.

        **Returns:** None without an amplitude.
        """
        return None

    @abc.abstractmethod
    def field(self, coefficients: Float[Array, " size"]) -> Array:
        """Array of given coefficients."""

    @abc.abstractmethod
    def coefficients(self, field: Array) -> Array:
        """Coefficients of an array, or of its representable part."""

    def at_points(self, changes: Float[Array | np.ndarray, "n size"]) -> Float[Array | np.ndarray, "n size"]:
        """Changes of the array at its points from changes of coefficients; unchanged if these belong to no point."""
        return changes

    @abc.abstractmethod
    def variance(self, variances: Float[np.ndarray, " size"]) -> Array | np.ndarray:
        """Variance of the array at every point, from variances of independent coefficients."""


class Plain(AbstractParametrization):
    """Array whose elements are the coefficients. It has no smoothness prior."""

    def field(self, coefficients):
        return jnp.reshape(coefficients, self.shape)

    def coefficients(self, field):
        return field

    def variance(self, variances):
        return np.full(self.shape, np.mean(variances))
