"""Fields of time and space, interpolated between knots."""

import functools
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from pdefit._util.errors import PdefitError, unknown
from pdefit._util.memory import too_large
from pdefit._util.trees import is_traced
from pdefit.systems.time_series import increasing, interpolated, note

# slopes of parabolas, unlike monotone ones, are linear in the values
_METHODS = {"linear": "linear", "cubic": "smooth"}


class Interpolant(eqx.Module):
    """A field of time and space that interpolates values at knots, such as an unknown force.

    Outside its knots it keeps the value of the nearest end, unless the axis is periodic. It is linear in `values`,
    which can be a control. The knots are constants.

    Methods:

    - `linear` joins neighbours by straight lines. Its error falls with the square of the distance between knots.
    - `cubic` has continuous first derivatives. Its slope at a knot is the slope of the parabola through the neighbours.
      Its error falls with the third power of the distance.

    **Arguments:**

    - `values`: the values, (K_t, K_1, ..., K_d, ...): one axis for each axis of knots, then components. Without `times`
      there is no axis K_t.
    - `times`: the knots in time, increasing, (K_t,), in the system's time unit; None for a field constant in time.
    - `axes`: the knots along each of d spatial axes, increasing, (K_i,), in its length unit.
    - `method`: `linear` or `cubic`; default `cubic`.
    - `periods`: the period of each spatial axis, in its length unit, or None; default None for all.

    Source: R. Keys, IEEE Trans. Acoust. 29:1153 (1981), doi:10.1109/TASSP.1981.1163711.
    """

    values: Array
    times: tuple[float, ...] | None = eqx.field(static=True)
    axes: tuple[tuple[float, ...], ...] = eqx.field(static=True)
    method: str = eqx.field(static=True)
    periods: tuple[float | None, ...] = eqx.field(static=True)

    def __init__(self, values: Any, times: Any, axes: Sequence[Any], method: str = "cubic", periods: Any = None):
        if method not in _METHODS:
            raise unknown("method of an interpolant", str(method), _METHODS)
        knots = functools.partial(increasing, owner="An interpolant")
        # static, so that weights of constant points are constants of a program
        self.times = None if times is None else tuple(knots(times, "times").tolist())
        self.axes = tuple(tuple(knots(x, "knots along an axis").tolist()) for x in axes)
        self.method, self.periods = method, (None,) * len(self.axes) if periods is None else tuple(periods)
        if not 1 <= len(self.axes) <= 3 or len(self.periods) != len(self.axes):
            raise PdefitError(
                f"An interpolant expects 1 to 3 axes of space with a period or None each, but got {len(axes)}"
            )
        if any(p is not None and p <= x[-1] - x[0] for x, p in zip(self.axes, self.periods, strict=True)):
            raise PdefitError(
                "The knots of a periodic axis lie within one period; leave out the last, which is the first"
            )
        self.values = jnp.asarray(values, None if isinstance(values, jax.Array) else float)
        shape = tuple(map(len, self.axes if self.times is None else (self.times, *self.axes)))
        if self.values.shape[: len(shape)] != shape:
            raise PdefitError(f"An interpolant expects values of shape {shape}, ..., but got {self.values.shape}")

    @classmethod
    def zeros(
        cls,
        knots: Sequence[int],
        extent: Sequence[float],
        origin: Sequence[float] | None = None,
        times: Sequence[float] | None = None,
        components: Sequence[int] = (),
        method: str = "cubic",
        periodic: bool | Sequence[bool] = False,
    ) -> "Interpolant":
        """A field of zeros with equally spaced knots in a box.

        **Arguments:**

        - `knots`: the numbers of knots, first in time if `times` are given, then along each spatial axis.
        - `extent`, `origin`: the lengths of the box and its lower corner, as in a grid; default origin 0.
        - `times`: the first and the last time; None for a field constant in time.
        - `components`: the shape of a value at a point; default () for a number.
        - `method`: as in `Interpolant`.
        - `periodic`: whether spatial axes are periodic, for all or for each; default False.
        """
        d, wraps = len(extent), np.broadcast_to(periodic, len(extent)).tolist()
        if len(knots) != d + (times is not None):
            raise PdefitError(
                f"knots expects a number for time, if there are times, and {d} for space, but got {knots}"
            )
        if size := too_large((*knots, *components)):
            raise PdefitError(f"knots = {[*knots]} take {size} of memory; take fewer")
        box = zip(np.zeros(d) if origin is None else origin, extent, knots[-d:], wraps, strict=True)
        axes = [low + length * np.linspace(0.0, 1.0, n, endpoint=not wrap) for low, length, n, wrap in box]
        between = None if times is None else np.linspace(times[0], times[-1], knots[0])
        periods = [length if wrap else None for length, wrap in zip(extent, wraps, strict=True)]
        return cls(np.zeros((*knots, *components)), between, axes, method, periods)

    def __call__(self, t: Any, points: Sequence[Any]) -> Array:
        """Field at one time and at all combinations of coordinates, (n_1, ..., n_d, ...) with components last.

        Coordinates may be traced. With NumPy coordinates, the weights are constants of the program.

        **Arguments:**

        - `t`: the time, in the system's time unit; ignored by a field constant in time.
        - `points`: the coordinates along each spatial axis, (n_i,), in its length unit.
        """
        if len(points) != len(self.axes):
            raise PdefitError(f"An interpolant expects coordinates along {len(self.axes)} axes, but got {len(points)}")
        # operands, each with labels of its axes: the values have 0, 1, ..., and points follow
        first, most = int(self.times is not None), self.values.ndim
        operands: list[Any] = [self.values, range(most)]
        if self.times is not None:
            note(self, t)
            operands += [self._weights(self.times, None, t), [0]]
        for i, (knots, period, x) in enumerate(zip(self.axes, self.periods, points, strict=True)):
            operands += [self._weights(knots, period, x), [most + i, first + i]]
        out = [*range(most, most + len(points)), *range(first + len(points), most)]
        return jnp.einsum(*operands, out, optimize="optimal", precision="highest")

    def _weights(self, knots: tuple[float, ...], period: float | None, x: Any) -> Array:
        arguments = knots, period, self.method, self.values.dtype
        if is_traced(x):
            return _weights(*arguments, x)
        with jax.ensure_compile_time_eval():
            return _weights(*arguments, jnp.asarray(x, float))


@functools.partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _weights(knots: tuple[float, ...], period: float | None, method: str, dtype: Any, x: Array) -> Array:
    """Weights of the values at the knots of one axis, for one coordinate (K,) or for many (n, K)."""
    places, unit = np.asarray(knots), np.eye(len(knots), dtype=dtype)
    if period is not None:
        # one more knot before the first and two after the last are all that a cubic reaches
        places = np.concatenate([places[-1:] - period, places, places[:2] + period])
        unit = np.concatenate([unit[-1:], unit, unit[:2]])
        x = knots[0] + jnp.mod(x - knots[0], period)
    return jnp.vectorize(lambda x: interpolated(places, jnp.asarray(unit), x, _METHODS[method]), signature="()->(k)")(x)
