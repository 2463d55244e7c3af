"""Convergence: criteria for a minimum of J, and the state of a fit that has converged or is stuck."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from pdefit._util.program import Program
from pdefit.inverse.optimizers.base import Box

# residuals of a record without noise cannot fall further than this, because of round-off
_ROUND_OFF = 1e-14


def exhausts(before: Array, promise: Array, fallen: Array, little: Array) -> Bool[Array, ""]:
    """True if the remaining decrease of J, extrapolated from two successive Newton steps, is negligible.

    On a parabola the predicted decrease shrinks by as much as J falls. In a curved valley J falls while the prediction
    hardly shrinks. So the prediction is multiplied by the ratio of the two, if that exceeds one.

    **Arguments:**

    - `before`, `promise`: the predicted decrease of J at the previous point, and at this one.
    - `fallen`: the actual decrease of J between them.
    - `little`: the negligible decrease of J.
    """
    accounted = before - promise
    return (accounted > 0) & (promise * jnp.maximum(fallen, accounted) <= little * accounted)


@Program
def _measure_noise(box: Box, value: Array, decrement: float) -> tuple[Array, Array, Array]:
    """The variance of residuals, the round-off of J, and whether a fall of J by so much would matter."""
    noise = box.noise(value)
    return box.variance(value), noise, box.matters(noise, value, decrement)


class Convergence(NamedTuple):
    """State of a fit: whether it has started, converged, or is stuck.

    **Arguments:**

    - `first_value`: J at the first point.
    - `started`: whether there was an evaluation.
    - `converged`: whether the best point is a minimum, as far as the optimizer can judge.
    - `stuck`: whether further evaluations are pointless without convergence.
    """

    first_value: Float[Array, ""]
    started: Bool[Array, ""]
    converged: Bool[Array, ""]
    stuck: Bool[Array, ""]

    @staticmethod
    def begin(theta: Float[Array, " p"]) -> "Convergence":
        """The state before the first evaluation."""
        false = jnp.zeros((), bool)
        return Convergence(jnp.zeros((), theta.dtype), false, false, false)

    def exhausted(self, value: Float[Array, ""]) -> Bool[Array, ""]:
        """True if residuals have fallen to round-off."""
        return self.started & (value <= _ROUND_OFF**2 * self.first_value)

    def after(self, value: Array, finite: Array, converged: Array, stuck: Array) -> "Convergence":
        """The state after one more evaluation.

        **Arguments:**

        - `value`, `finite`: J at the evaluated point, and whether that point can be used.
        - `converged`, `stuck`: as in the state; a fit whose first point cannot be used is stuck.
        """
        stuck |= ~self.started & ~finite
        return Convergence(jnp.where(self.started, self.first_value, value), jnp.ones((), bool), converged, stuck)

    def remark(
        self, box: Box, value: Array, promise: Array, tolerance: float, decrement: float, numbers: float | None = None
    ) -> str | None:
        """Sentence about a fit that ended because a Newton step changes little, or because round-off hides the rest.

        **Arguments:**

        - `box`: the limits of the search.
        - `value`, `promise`: J, and its predicted decrease.
        - `tolerance`: the fraction of J below which a predicted decrease ends any fit.
        - `decrement`: the Newton decrement that ends it.
        - `numbers`: the decrement of the scalars, if a state with a larger decrement remains.
        """
        if not (bool(self.converged) or bool(self.stuck)):
            return None
        # without what has a place for every unknown, by one program for all fits
        limits = box._replace(lower=np.zeros(0), upper=np.zeros(0), nothing=None, straight=False)
        variance, noise, matters = map(float, _measure_noise(limits, value, decrement))
        if bool(self.stuck) and matters:
            return (
                f"stopped at the precision of float32: round-off of J hides a fall of {noise:.1g}, and so "
                f"{np.sqrt(2 * noise / variance):.1g} standard errors; take dtype=float64"
            )
        if not (bool(self.converged) and tolerance * float(value) < float(promise) <= decrement * variance / 2):
            return None
        fall = f"ended where J could fall by {promise:.1g} and"
        if numbers is not None:
            return f"{fall} numbers would move by less than {numbers**0.5:.1g} standard errors"
        # no combination of unknowns moves by more standard errors than the root of the decrement
        moved = np.sqrt(2 * float(promise) / variance)
        return f"{fall} nothing would move by more than {moved:.1g} standard errors"
