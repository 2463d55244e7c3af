"""The course of J over the evaluations of a fit, and the fall that it leaves."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from pdefit.inverse.optimizers.base import select

# the evaluations at the end of the first window, and their ratio at the ends of any two in succession
_FIRST, _RATIO = 48.0, 4 / 3


class Course(NamedTuple):
    """The decrease of J over windows of evaluations, and its extrapolated remainder.

    For optimizers without a Newton step, whose own models promise too little in a narrow valley.

    Each window takes a third as many evaluations as all before it. J that falls like a power of their number then falls
    by a geometric series from window to window, and J that falls faster by less. So the series says about how much is
    left. Three windows decide, by the slower of the two ratios of their falls: J of a network may hardly fall for a fifth
    of all evaluations, and then go on. A fit that creeps goes on as long as a quarter of all its evaluations brings
    something.

    **Arguments:**

    - `evaluations`: the number of evaluations so far.
    - `mark`: the number at which the window ends.
    - `value`: J at its beginning.
    - `fallen`: the fall of J in the window before.
    - `ratio`: that fall over the one before it; infinite if it was no smaller, or none at all.
    - `left`: the fall of the last window that ended, and of all after it.
    """

    evaluations: Int[Array, ""]
    mark: Float[Array, ""]
    value: Float[Array, ""]
    fallen: Float[Array, ""]
    ratio: Float[Array, ""]
    left: Float[Array, ""]

    @staticmethod
    def begin(zero: Float[Array, ""]) -> "Course":
        """The course before the first evaluation."""
        return Course(jnp.zeros((), int), zero + _FIRST, zero, zero, zero + jnp.inf, zero + jnp.inf)

    def after(self, value: Float[Array, ""]) -> "Course":
        """The course after one more evaluation.

        **Arguments:** `value` is the lowest J so far.
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
