"""Parametrizations: how coefficients in theta stand for an array, namely its elements, a Sobolev variable or modes.

Every parametrization maps coefficients to an array in search space, and holds their smoothness prior.
"""

import abc
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pdefit.inverse.controls.mode_basis import ModeBasis
from pdefit.systems.linear_operators import Smoother


class AbstractParametrization(eqx.Module):
    """The map from coefficients to an array in search space, and the smoothness prior of the coefficients.

    **Arguments:**

    - `shape`: the shape of the array.
    - `roughness`: the weight of every coefficient in the smoothness prior, (size,); None without a prior.
    - `open`: whether a fit chooses these weights.
    """

    shape: eqx.AbstractVar[tuple[int, ...]]
    roughness: eqx.AbstractVar[Array | None]
    open: eqx.AbstractVar[bool]

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

    def at_points(self, changes: Float[Array, "n size"]) -> Float[Array, "n size"]:
        """Changes of the array at its points, from changes of coefficients; these themselves if they belong to no point."""
        return changes

    @abc.abstractmethod
    def variance(self, variances: Float[np.ndarray, " size"]) -> Array | np.ndarray:
        """The variance of the array at every point, from variances of independent coefficients."""


class Plain(AbstractParametrization):
    """An array whose elements are the coefficients."""

    shape: tuple[int, ...] = eqx.field(static=True)
    roughness: None = None
    open: bool = eqx.field(static=True, default=False)

    def field(self, coefficients):
        return jnp.reshape(coefficients, self.shape)

    def coefficients(self, field):
        return field

    def variance(self, variances):
        return np.full(self.shape, np.mean(variances))


class Sobolev(AbstractParametrization):
    """A field that is a background plus S z, with the Sobolev variable z as coefficients.

    In z a smooth change of the field is shorter than a rough one.

    **Arguments:** `shape`, `roughness`, `open` as of `AbstractParametrization`, and

    - `smoother`: the operator S.
    - `background`: the field at z = 0.
    """

    shape: tuple[int, ...] = eqx.field(static=True)
    smoother: Smoother = eqx.field(static=True)
    background: Array
    roughness: Array | None
    open: bool = eqx.field(static=True)

    @property
    def groups(self):
        return np.ravel(self.smoother.groups)

    @property
    def deviation(self) -> float:
        """The root mean square of the standard deviation at a point, for a z of unit variance."""
        return float(np.sqrt(np.mean(self.smoother.variance)))

    def amplitude(self, scale):
        return None if self.roughness is None else self.deviation / (float(np.mean(self.roughness)) / scale)

    def field(self, coefficients):
        return self.background + self.smoother.smooth(jnp.reshape(coefficients, self.shape))

    def coefficients(self, field):
        return self.smoother.unsmooth(field - self.background)

    def at_points(self, changes):
        return jax.vmap(self.smoother.smooth)(changes.reshape(-1, *self.shape)).reshape(changes.shape)

    def variance(self, variances):
        # all elements of z have the same weight
        return np.mean(variances) * self.smoother.variance


class Modes(AbstractParametrization):
    """A field that is a sum of smooth modes. A fit chooses how large their coefficients are expected to be.

    **Arguments:** `shape`, `roughness` as of `AbstractParametrization`, the latter in units of the noise, and

    - `basis`: the modes.
    """

    shape: tuple[int, ...] = eqx.field(static=True)
    basis: ModeBasis = eqx.field(static=True)
    roughness: Array
    open: bool = eqx.field(static=True, default=True)

    @property
    def size(self):
        return self.basis.count

    def field(self, coefficients):
        return self.basis.field(coefficients)

    def coefficients(self, field):
        return self.basis.coefficients(field)

    def variance(self, variances):
        return self.basis.field(jnp.asarray(variances), power=2)
