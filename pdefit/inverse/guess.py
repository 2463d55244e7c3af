"""Where a control starts."""

import abc
import zlib

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from pdefit.errors import PdefitError
from pdefit.systems.observations import Observations


class AbstractGuess(eqx.Module):
    """The first value of a control, in physical units."""

    @abc.abstractmethod
    def value(self, nominal: Array, path: str, key: PRNGKeyArray, observations: Observations) -> np.ndarray:
        """An array of the shape of `nominal`, the value the problem holds (for a twin: the truth)."""


class Value(AbstractGuess):
    """A number, or an array of the control's shape."""

    number: float | np.ndarray

    def value(self, nominal, path, key, observations):
        given = np.asarray(self.number, float)
        try:
            return np.broadcast_to(given, nominal.shape)
        except ValueError:
            raise PdefitError(
                f"The guess of '{path}' has shape {given.shape}, but the control has shape {nominal.shape}; "
                f"give one number or an array of that shape"
            ) from None


class Perturb(AbstractGuess):
    """The nominal value times a factor drawn from U(low, high), one for each element; the run's seed decides it."""

    low: float
    high: float

    def __check_init__(self):
        if not self.low <= self.high:
            raise ValueError(f"perturb expects [low, high] with low <= high, but got [{self.low}, {self.high}]")

    def value(self, nominal, path, key, observations):
        # the draw depends on the seed and the control's name, not on which other controls there are
        key = jax.random.fold_in(key, zlib.crc32(path.encode()))
        return np.asarray(nominal * jax.random.uniform(key, nominal.shape, minval=self.low, maxval=self.high))


class FromData(AbstractGuess):
    """The observed value: of a field of `y0` at the first time. Missing points keep their nominal value."""

    def value(self, nominal, path, key, observations):
        root, _, field = path.partition(".")
        if root == "nodes":
            # nodes are taken from the data when the formulation makes them
            return np.asarray(nominal)
        if root != "y0" or field not in observations.values:
            raise PdefitError(
                f"The guess of '{path}' cannot come from data: only an observed field of y0 or nodes can "
                f"(observed: {', '.join(observations.values)}); give a number"
            )
        first, seen = observations.values[field][0], observations.mask[field][0]
        if first.shape != nominal.shape:
            raise PdefitError(
                f"The guess of '{path}' cannot come from data of shape {first.shape}: the field has shape "
                f"{nominal.shape}; give a number"
            )
        return np.asarray(np.where(seen, first, nominal))
