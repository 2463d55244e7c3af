"""Bounds of theta, and masks of its elements at a bound."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Bool, Float

# a value nearer to a bound than this part of the larger bound is at it: round-off of a step that ends there
_ROUND_OFF = 4 * float(np.finfo(float).eps)


class Bounds(NamedTuple):
    """Lower and upper bound of every element of theta.

    **Arguments:**

    - `lower`, `upper`: the bounds in search space, (p,) or (e, p); infinite for no bound.
    """

    lower: Float[np.ndarray, "*e p"]
    upper: Float[np.ndarray, "*e p"]

    def at(self, theta: Float[Array | np.ndarray, "*e p"]) -> Bool[np.ndarray, "*e p"]:
        """Mask of elements of theta at a bound to round-off, which count as held, not as fitted."""
        largest = np.max([np.where(np.isfinite(b), np.abs(b), 0.0) for b in self], axis=0)
        gap = np.minimum(np.asarray(theta) - self.lower, self.upper - np.asarray(theta))
        return gap <= _ROUND_OFF * largest

    def free(self, theta: Float[Array | np.ndarray, "*e p"]) -> Bool[np.ndarray, "*e p"]:
        """Mask of the fitted elements of theta: the elements at no bound."""
        return ~self.at(theta)
