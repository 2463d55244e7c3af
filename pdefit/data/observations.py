"""What an instrument recorded, as plain arrays."""

from collections.abc import Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import ArrayLike

Numbers = ArrayLike | float | int


class Observations(eqx.Module):
    """Values of named variables at increasing times, with masks and standard deviations.

    Attributes, for T times: `ts` (T,) in the system's time unit; `values[name]` (T, ...), 0 where missing; `mask[name]` the
    same shape, False where missing; `sigma[name]` one standard deviation, the same number of axes, broadcastable to values.
    """

    ts: np.ndarray = eqx.field(converter=lambda t: np.asarray(t, np.float64))
    values: dict[str, Array]
    mask: dict[str, Array]
    sigma: dict[str, Array]

    @staticmethod
    def build(ts: Numbers, values: Mapping[str, Numbers], sigma: Mapping[str, Numbers] | float = 1.0) -> "Observations":
        """Observations from arrays in which NaN means missing; `sigma` is one number, or one entry for each variable."""
        arrays = {name: np.asarray(value) for name, value in values.items()}
        given = sigma if isinstance(sigma, Mapping) else dict.fromkeys(arrays, sigma)
        mask = {name: np.isfinite(value) for name, value in arrays.items()}
        return Observations(
            ts=ts,
            values={name: jnp.asarray(np.where(mask[name], value, 0)) for name, value in arrays.items()},
            mask={name: jnp.asarray(m) for name, m in mask.items()},
            sigma={name: _align(np.asarray(given[name], float), value.shape) for name, value in arrays.items()},
        )

    def __check_init__(self):
        if self.ts.ndim != 1 or self.ts.size == 0 or np.any(np.diff(self.ts) <= 0):
            raise ValueError("Observations expects increasing times in one dimension")
        for name, value in self.values.items():
            if value.shape[:1] != self.ts.shape or self.mask[name].shape != value.shape:
                raise ValueError(f"Observations of '{name}' expects {self.ts.size} times, but got shape {value.shape}")
            jnp.broadcast_shapes(self.sigma[name].shape, value.shape)
            if not np.all(np.asarray(self.sigma[name]) > 0):
                raise ValueError(f"Observations of '{name}' expects sigma > 0 everywhere")

    def at(self, index: slice | np.ndarray) -> "Observations":
        """The observations at some times: a slice or an increasing index array."""

        def pick(x: Array) -> Array:
            return x[index] if x.shape[0] == self.ts.size else x

        return Observations(
            ts=self.ts[index],
            values=jax.tree.map(lambda x: x[index], self.values),
            mask=jax.tree.map(lambda x: x[index], self.mask),
            sigma=jax.tree.map(pick, self.sigma),
        )

    def between(self, start: float, stop: float) -> "Observations":
        """The observations with start <= t <= stop."""
        return self.at(np.flatnonzero((self.ts >= start) & (self.ts <= stop)))

    def select(self, names: tuple[str, ...]) -> "Observations":
        """Some of the variables."""
        return Observations(
            ts=self.ts,
            values={n: self.values[n] for n in names},
            mask={n: self.mask[n] for n in names},
            sigma={n: self.sigma[n] for n in names},
        )

    def with_sigma(self, sigma: Mapping[str, Numbers]) -> "Observations":
        """The same values with other standard deviations for some variables, in the precision of those they replace."""
        aligned = {
            n: _align(np.asarray(s, float), self.values[n].shape).astype(self.sigma[n].dtype) for n, s in sigma.items()
        }
        return eqx.tree_at(lambda o: o.sigma, self, {**self.sigma, **aligned})


def _align(sigma: np.ndarray, shape: tuple[int, ...]) -> Array:
    """sigma with as many axes as its variable: (n,) belongs to the first axis after time, if that has n entries."""
    if sigma.ndim == 1 and sigma.shape == shape[1:2]:
        sigma = sigma.reshape(-1, *(1,) * (len(shape) - 2))
    return jnp.asarray(sigma.reshape((1,) * (len(shape) - sigma.ndim) + sigma.shape))
