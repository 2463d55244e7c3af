"""The bounds of theta, and which of its elements are at one."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Bool, Float

# a value nearer to a bound than this part of the larger bound is at it: round-off of a step that ends there
_ROUND_OFF = 4 * float(np.finfo(float).eps)


class Bounds(NamedTuple):
    """The smallest and the largest value of every element of theta.

    **Arguments:**

    - `lower`, `upper`: the bounds in search space, (p,) or (e, p), infinite if there are none.
    """

    lower: Float[np.ndarray, "*e p"]
    upper: Float[np.ndarray, "*e p"]

    def at(self, theta: Float[Array | np.ndarray, "*e p"]) -> Bool[np.ndarray, "*e p"]:
        """The elements of theta that are at one of their bounds to round-off, and so cannot take up residuals."""
        largest = np.max([np.where(np.isfinite(b), np.abs(b), 0.0) for b in self], axis=0)
        gap = np.minimum(np.asarray(theta) - self.lower, self.upper - np.asarray(theta))
        return gap <= _ROUND_OFF * largest

    def free(self, theta: Float[Array | np.ndarray, "*e p"]) -> Bool[np.ndarray, "*e p"]:
        """The elements of theta that are fitted: those at no bound."""
        return ~self.at(theta)
