"""Pulses of current into boxes of tissue."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import pdefit
from pdefit_cardiac.boxes import as_boxes, covers, weighted_sum

# this close to its ends the step differs from 0 or 1 by less than round-off
_CLOSE = 1e-3


def _numbers(values: Any) -> Array:
    return values if isinstance(values, jax.Array) else jnp.asarray(values, float)


def _positive(name: str) -> Callable[[Any], Array]:
    def convert(values: Any) -> Array:
        # an array of JAX may be traced, and then has no values to check
        if not isinstance(values, jax.Array) and not np.all(np.asarray(values) > 0):
            raise ValueError(f"{name} expects times above 0, but got {values}")
        return _numbers(values)

    return convert


class Stimulus(eqx.Module):
    """The current that pulses add to u_t: the `args` of a system of heart tissue.

        I(t, x) = sum_i strength_i (S((t - times_i) / rise) - S((t - times_i - duration_i) / rise)) c_i(x)

    with c_i the fraction of a cell inside box i, and the smooth step S(x) = (1 + tanh((1 / (1 - x) - 1 / x) / 2)) / 2
    between 0 and 1. A pulse starts to rise at times_i and to fall at times_i + duration_i, both over `rise`, and is
    zero before and after. Overlapping pulses add up.

    All derivatives of a pulse are continuous, so solvers keep their order. Its charge is exactly strength_i duration_i,
    also as a sum over constant steps if the duration is a multiple of the step.

    **Arguments:**

    - `times`: the times at which pulses begin, in ms.
    - `duration`: one number, or one for each pulse, in ms.
    - `strength`: one number, or one for each pulse, in 1/ms.
    - `boxes`: a box `[[x0, x1], [y0, y1], ...]` in length units for all pulses, or a list of one for each; by default
      everywhere.
    - `rise`: the time of rise and fall, in ms; default 0.05. Solvers reach their order if it spans several steps.
    """

    times: Float[Array, "pulses"] = eqx.field(converter=lambda x: jnp.atleast_1d(_numbers(x)))
    duration: Array = eqx.field(converter=_positive("duration"))
    strength: Array = eqx.field(converter=_numbers)
    boxes: Float[Array, "boxes axes 2"] | None = eqx.field(
        default=None, converter=lambda x: None if x is None else as_boxes(x)
    )
    rise: Float[Array, ""] = eqx.field(default=0.05, converter=_positive("rise"))

    def __check_init__(self):
        pulses = self.times.shape
        for name in ("duration", "strength"):
            if (shape := getattr(self, name).shape) not in ((), pulses):
                raise ValueError(f"{name} expects one number, or one for each of {pulses[0]} pulses, but got {shape}")
        if self.boxes is not None and self.boxes.shape[0] not in (1, *pulses):
            raise ValueError(
                f"boxes expects one box, or one for each of {pulses[0]} pulses, but got {self.boxes.shape[0]}"
            )

    def __call__(self, t: Any, grid: pdefit.CartesianGrid, dtype: Any = None) -> Array:
        """The current at one time, of the grid's shape.

        **Arguments:**

        - `t`: the time, in ms.
        - `grid`: the cells of the tissue.
        - `dtype`: the type of the result; by default the type of `strength`.
        """
        begun = (t - self.times) / self.rise
        pulse = self.strength * (_smooth_step(begun) - _smooth_step(begun - self.duration / self.rise))
        pulse = pulse.astype(dtype or self.strength.dtype)
        if self.boxes is None:
            return jnp.broadcast_to(jnp.sum(pulse), grid.shape)
        if self.boxes.shape[0] == 1:
            pulse = jnp.sum(pulse, keepdims=True)
        return weighted_sum(pulse, [part.astype(pulse.dtype) for part in covers(self.boxes, grid)])


def _smooth_step(x: Array) -> Array:
    """The smooth step: 0 below 0, 1 above 1, with continuous derivatives of every order."""
    x = jnp.clip(x, _CLOSE, 1 - _CLOSE)
    return 0.5 + 0.5 * jnp.tanh(0.5 / (1 - x) - 0.5 / x)
