"""Round-off of a function, from differences over steps so small that only round-off remains."""

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import ArrayLike


def round_off(f: Callable[[Any], Any], x: ArrayLike, v: ArrayLike, step: float = 1e-13) -> float:
    """Norm of the round-off noise of f near x along v, from third differences over small steps.

    **Arguments:**

    - `f`: a function of a vector.
    - `x`, `v`: the point and the direction, (p,).
    - `step`: the length of a step; default 1e-13, for float64.

    Source: J. More, S. Wild, SIAM J. Sci. Comput. 33:1292 (2011), doi:10.1137/100786125.
    """
    values = np.stack([np.asarray(f(x + k * step * v)) for k in range(6)])
    third = np.diff(values, 3, axis=0)
    # the third difference of independent errors has 20 times their variance
    return float(np.sqrt(np.mean(np.sum(third.reshape(3, -1) ** 2, axis=1)) / 20))
