"""Observation of logarithms, for multiplicative noise."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from pdefit._util.trees import named_fields
from pdefit.inverse.problem.instrument import AbstractObservationOperator, as_names


class Logarithm(AbstractObservationOperator):
    """Observation operator: natural logarithms of some fields.

    For values over decades with multiplicative (log-normal) noise: give their logarithms as data, with the sigma of the
    logarithms. Not for values that may be zero, nor for noise with a background (`pdefit.likelihoods.Proportional`).

    **Arguments:**

    - `fields`: their names, or one name. Other fields are observed unchanged.
    """

    fields: tuple[str, ...] = eqx.field(converter=as_names, static=True)

    def __call__(self, t, y, args):
        return {n: jnp.log(x) if n in self.fields else x for n, x in named_fields(y).items()}

    @property
    def shows_states(self):
        return True

    def inverted(self, observations):
        values, mask = observations.values, observations.mask

        def exact(n: str, x: Array) -> Array:
            logs = np.asarray(x)
            with np.errstate(over="ignore"):
                return jax.device_put(np.where(np.asarray(mask[n]), np.exp(logs), np.zeros((), logs.dtype)))

        numbers = {n: exact(n, x) if n in self.fields else x for n, x in values.items()}
        return dataclasses.replace(observations, values=numbers)

    def returned(self, values, coords):
        return {n: np.exp(x) if n in self.fields else x for n, x in values.items()}
