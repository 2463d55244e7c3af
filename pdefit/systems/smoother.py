"""Smoothing that a part of a system brings along for its own fields."""

import abc

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, Int


class Smoother(abc.ABC):
    """A linear operator S that makes an unknown field of a search variable z; it has a hash."""

    @property
    @abc.abstractmethod
    def variance(self) -> Float[np.ndarray, "..."]:
        """The variance of S z at every element, for a z of unit variance."""

    @property
    def groups(self) -> Int[np.ndarray, "..."]:
        """A number for every element of z, alike for those that data of a kind should determine about equally well."""
        return np.zeros(self.variance.shape, int)

    @abc.abstractmethod
    def smooth(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        """The field S z."""

    @abc.abstractmethod
    def unsmooth(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        """The variable z with S z = x, the inverse of `smooth`."""


class AbstractSmoothed(eqx.Module):
    """A part of a system with a field that lies on no grid, such as values at knots around a sphere."""

    @abc.abstractmethod
    def smoother(self, name: str, length: float, time: float, order: float, amplitude: float | None) -> Smoother:
        """The operator of the smoothing of a field.

        **Arguments:**

        - `name`: the name of the array.
        - `length`, `time`, `order`, `amplitude`: as of `pdefit.Smoothing`.
        """
