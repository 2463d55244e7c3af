"""A zoom line search for the strong Wolfe conditions, one evaluation at a time."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

_DECREASE = 1e-4
_CURVATURE = 0.9
_ROUND_OFF = 1e-14


class Search(NamedTuple):
    """A line search along phi(a) = J(theta + a d).

    **Arguments:**

    - `step`: the trial step.
    - `value0`, `slope0`: value and slope at a = 0.
    - `low`, `low_value`, `low_slope`: the best step so far, with value and slope.
    - `high`, `high_value`: the other end of the bracket, once `zooming`.
    - `zooming`: whether a bracket was found.
    - `trials`: the number of trials.
    - `limit`: the largest step that the bounds allow.
    """

    step: Array
    value0: Array
    slope0: Array
    low: Array
    low_value: Array
    low_slope: Array
    high: Array
    high_value: Array
    zooming: Array
    trials: Array
    limit: Array


class Verdict(NamedTuple):
    """The decision after a trial; where neither `accept` nor `fail` holds, the search goes on.

    **Arguments:**

    - `accept`: the trial is taken.
    - `fail`: the search gives up.
    - `better`: the trial is the new `low`, whose gradient must be kept.
    """

    accept: Bool[Array, ""]
    fail: Bool[Array, ""]
    better: Bool[Array, ""]


def begin(step: Array, value: Array, slope: Array, limit: Array) -> Search:
    """A search from a = 0.

    **Arguments:**

    - `step`: the first trial step.
    - `value`, `slope`: value and slope at a = 0.
    - `limit`: the largest step that the bounds allow.
    """
    zero = jnp.zeros_like(value)
    false = jnp.zeros((), bool)
    step = jnp.minimum(step, limit)
    return Search(step, value, slope, zero, value, slope, zero, value, false, jnp.zeros((), int), limit)


def _interpolate(low: Array, low_value: Array, low_slope: Array, high: Array, high_value: Array) -> Float[Array, ""]:
    """The minimum of the parabola through value and slope at `low` and the value at `high`, kept inside the bracket."""
    width = high - low
    curvature = high_value - low_value - low_slope * width
    good = jnp.isfinite(high_value) & (curvature > 0)
    fraction = jnp.where(good, -low_slope * width / (2 * jnp.where(good, curvature, 1.0)), 0.5)
    return low + jnp.clip(fraction, 0.1, 0.9) * width


def advance(search: Search, value: Array, slope: Array, max_trials: int = 20) -> tuple[Search, Verdict]:
    """The search after its trial step, and the decision.

    **Arguments:**

    - `search`: the search before the trial.
    - `value`, `slope`: value and slope at the trial step.
    - `max_trials`: the number of trials after which the search fails.

    Source: J. Nocedal, S. Wright, Numerical Optimization (2006), algorithms 3.5 and 3.6, doi:10.1007/978-0-387-40065-5.
    Near round-off, values that differ by less than their accuracy count as equal (W. Hager, H. Zhang, SIAM J. Optim.
    16:170 (2005), doi:10.1137/030601880).
    """
    s = search
    finite = jnp.isfinite(value) & jnp.isfinite(slope)
    slack = _ROUND_OFF * jnp.abs(s.value0)
    too_high = ~finite | (value > s.value0 + _DECREASE * s.step * s.slope0 + slack)
    too_high |= (s.zooming | (s.trials > 0)) & (value >= s.low_value + slack)
    flat = jnp.abs(slope) <= -_CURVATURE * s.slope0
    at_limit = ~s.zooming & (s.step >= s.limit)
    accept = ~too_high & (flat | at_limit)

    # the trial becomes the far end of the bracket, or the new best with the bracket on the side where J falls
    turned = jnp.where(s.zooming, slope * (s.high - s.low) >= 0, slope >= 0)
    high = jnp.where(too_high, s.step, jnp.where(turned, s.low, s.high))
    high_value = jnp.where(too_high, jnp.where(finite, value, jnp.inf), jnp.where(turned, s.low_value, s.high_value))
    low = jnp.where(too_high, s.low, s.step)
    low_value = jnp.where(too_high, s.low_value, value)
    low_slope = jnp.where(too_high, s.low_slope, slope)
    zooming = s.zooming | too_high | turned

    longer = jnp.minimum(3 * s.step, s.limit)
    step = jnp.where(zooming, _interpolate(low, low_value, low_slope, high, high_value), longer)
    trials = s.trials + 1
    fail = ~accept & ((trials >= max_trials) | (jnp.abs(high - low) * zooming + (~zooming) < 1e-14 * s.step))
    new = Search(step, s.value0, s.slope0, low, low_value, low_slope, high, high_value, zooming, trials, s.limit)
    return new, Verdict(accept, fail, ~too_high)
