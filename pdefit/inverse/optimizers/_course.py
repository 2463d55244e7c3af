"""The history of J over the evaluations of a fit, and the extrapolated remaining decrease."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from pdefit.inverse.optimizers.base import select

# the evaluations at the end of the first window, and their ratio at the ends of any two in succession
_FIRST, _RATIO = 48.0, 4 / 3


class Course(NamedTuple):
    """Decrease of J over windows of evaluations, and its extrapolated remainder.

    For optimizers without a Newton step, whose own models predict too little in a narrow valley.

    Each window has a third as many evaluations as all before it. If J falls like a power of their number, its decreases
    from window to window form a geometric series; if it falls faster, they shrink faster. So the series estimates the
    remainder. Three windows decide, by the larger of the two ratios of their decreases: J of a network may hardly fall
    for a fifth of all evaluations, and then fall again. A creeping fit continues as long as a quarter of all its
    evaluations lowers J noticeably.

    **Arguments:**

    - `evaluations`: the number of evaluations so far.
    - `mark`: the number of evaluations at the end of the window.
    - `value`: J at its beginning.
    - `fallen`: the decrease of J in the previous window.
    - `ratio`: that decrease over the one before it; infinite if it was no smaller, or if there is none.
    - `left`: the decrease in the last complete window, plus the extrapolated remainder.
    """

    evaluations: Int[Array, ""]
    mark: Float[Array, ""]
    value: Float[Array, ""]
    fallen: Float[Array, ""]
    ratio: Float[Array, ""]
    left: Float[Array, ""]

    @staticmethod
    def begin(zero: Float[Array, ""]) -> "Course":
        """The record before the first evaluation."""
        return Course(jnp.zeros((), int), zero + _FIRST, zero, zero, zero + jnp.inf, zero + jnp.inf)

    def after(self, value: Float[Array, ""]) -> "Course":
        """The record after one more evaluation.

        **Arguments:** `value`: the lowest J so far.
        """
        evaluations = self.evaluations + 1
        # the first window begins far away
        fallen = jnp.where(self.mark == _FIRST, 0.0, self.value - value)
        # a window without any fall is a line search that fails
        slower = (fallen > 0) & (fallen < self.fallen)
        ratio = jnp.where(slower, fallen / jnp.where(slower, self.fallen, 1.0), jnp.inf)
        slowest = jnp.maximum(ratio, self.ratio)
        left = jnp.where(slowest < 1, fallen / jnp.where(slowest < 1, 1 - slowest, 1.0), jnp.inf)
        new, old = (_RATIO * self.mark, value, fallen, ratio, left), self[1:]
        return Course(evaluations, *select(evaluations >= self.mark, new, old))
