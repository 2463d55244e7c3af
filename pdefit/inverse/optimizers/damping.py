"""Damping of Gauss-Newton steps: for Levenberg-Marquardt, conjugate gradients, cells and collocation."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float


class Damping(NamedTuple):
    """Rule by which damping falls after a good step and rises after a poor one.

    **Arguments:**

    - `eased`, `raised`: the factors after a good and after a poor step.
    - `least`, `most`: the limits of a damping; a fit is stuck if all its dampings have reached `most`.
    """

    eased: Float[Array, "..."] | float
    raised: Float[Array, "..."] | float
    least: float = 0.0
    most: float = np.inf

    @staticmethod
    def by_gain(ratio: Float[Array, "..."], raised: Float[Array, "..."], most: float) -> "Damping":
        """The rule based on the gain ratio of actual to predicted decrease of J.

        **Arguments:**

        - `ratio`: the gain ratio of the step.
        - `raised`, `most`: the factor after a poor step, and the largest damping.

        Source: H. Nielsen, IMM-REP-1999-05.
        """
        return Damping(jnp.clip(1 - (2 * ratio - 1) ** 3, 1 / 3, 2.0), raised, most=most)

    def after(
        self, damping: Float[Array, "..."], good: Bool[Array, "..."], poor: Bool[Array, "..."]
    ) -> Float[Array, "..."]:
        """Dampings after a step; after a step that is neither good nor poor they are kept."""
        return jnp.clip(damping * jnp.where(poor, self.raised, jnp.where(good, self.eased, 1.0)), self.least, self.most)

    def helpless(self, damping: Float[Array, "..."]) -> Bool[Array, ""]:
        """True if all dampings have reached their maximum."""
        return jnp.all(damping >= self.most)
