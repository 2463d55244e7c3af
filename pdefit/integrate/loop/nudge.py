"""Nudging: after each frame the state is drawn towards what was observed."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, PyTree

# how far from a frame a step may begin, as a part of its size: times of float32 states are rounded
_NEAR = 0.1


class Nudge(eqx.Module):
    """A part of the way from the state to the observed fields, gone at every frame.

        u <- u + strength (u_observed - u)

    It is a linear map of the state, so tangents and adjoints of a nudged trajectory are exact.

    **Arguments:**

    - `ts`: the times of the frames, (n,), increasing.
    - `values`: for every leaf of the state its observed values, (n, ...); None where it is not observed.
    - `mask`: where these are known, of the same shapes.
    - `strength`: the part, from 0 to 1, as an array: programs are the same for all of them.
    """

    ts: np.ndarray
    values: tuple[Array | None, ...]
    mask: tuple[Bool[Array, "n ..."] | None, ...]
    strength: Float[Array, ""]

    def __call__(self, t: Array, h: Array, y: PyTree) -> PyTree:
        """The state at the start of a step: nudged at a frame, itself elsewhere.

        **Arguments:**

        - `t`, `h`: start and size of the step. One of size zero is padding.
        - `y`: the state.
        """
        away = jnp.abs(jnp.asarray(self.ts).astype(t.dtype) - t)
        i = jnp.argmin(away)

        def drawn(y: PyTree) -> PyTree:
            leaves, tree = jax.tree.flatten(y)
            return jax.tree.unflatten(tree, map(partial(self._drawn, i), leaves, self.values, self.mask))

        # a branch of its own, which most steps leave out
        return lax.cond(away[i] < _NEAR * jnp.abs(h), drawn, lambda y: y, y)

    def _drawn(self, i: Array, u: Array, values: Array | None, mask: Array | None) -> Array:
        if values is None or mask is None:
            return u
        return u + jnp.where(mask[i], self.strength.astype(u.dtype) * (values[i] - u), 0.0)
