"""Nudging: after each frame the state is drawn towards the observed fields."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, PyTree

# how far from a frame a step may begin, as a part of its size: times of float32 states are rounded
_NEAR = 0.1
# standard deviations within which data are noise
_WITHIN = 3.0


class Nudge(eqx.Module):
    """Relaxation of the state towards the observed fields, at every frame at which they differ by more than noise.

        u <- u + strength d^3 / (d^2 + (3 sigma)^2),  d = u_observed - u

    So noise hardly enters a correct trajectory, while a wrong one is held near the data. It is a smooth map of the
    state: tangents and adjoints of a nudged trajectory are exact.

    **Arguments:**

    - `ts`: the times of the frames, (n,), increasing.
    - `values`: for every leaf of the state its observed values, (n, ...); None if it is not observed.
    - `mask`: whether each value is known, of the same shapes.
    - `sigma`: their standard deviations, in the unit of the fields: (1, ...) or (n, ...).
    - `strength`: the relaxation factor, from 0 to 1, as an array, so that one program serves all values.
    """

    ts: np.ndarray
    values: tuple[Array | None, ...]
    mask: tuple[Bool[Array, "n ..."] | None, ...]
    sigma: tuple[Array | None, ...]
    strength: Float[Array, ""]

    def __call__(self, t: Array, h: Array, y: PyTree) -> PyTree:
        """State at the start of a step: nudged at a frame, unchanged elsewhere.

        **Arguments:**

        - `t`, `h`: start and size of the step. A step of size zero is padding.
        - `y`: the state.
        """
        away = jnp.abs(jnp.asarray(self.ts).astype(t.dtype) - t)
        i = jnp.argmin(away)

        def drawn(y: PyTree) -> PyTree:
            leaves, tree = jax.tree.flatten(y)
            return jax.tree.unflatten(tree, map(partial(self._drawn, i), leaves, self.values, self.mask, self.sigma))

        # a branch of its own, which most steps leave out
        return lax.cond(away[i] < _NEAR * jnp.abs(h), drawn, lambda y: y, y)

    def _drawn(self, i: Array, u: Array, values: Array | None, mask: Array | None, sigma: Array | None) -> Array:
        if values is None or mask is None or sigma is None:
            return u
        off = jnp.where(mask[i], values[i] - u, 0.0)
        noise = _WITHIN * sigma[i if sigma.shape[0] > 1 else 0]
        return u + self.strength.astype(u.dtype) * off**3 / (off**2 + noise**2)
