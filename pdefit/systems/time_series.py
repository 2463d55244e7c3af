"""Series of measured values as functions of time."""

from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jaxtyping import Array, PyTree

from pdefit._util.errors import PdefitError, unknown

_METHODS = ("linear", "cubic", "smooth")
# decades of the roughness penalty, where times are one apart on average
_DECADES = (-9.0, 15.0)


# inputs and the times at which they are read, while a vector field is traced for them (`pdefit.systems.courses`)
READINGS: ContextVar[list[tuple[Any, Any]] | None] = ContextVar("readings", default=None)


def note(read: Any, t: Any) -> None:
    """Record that an input is read, if `READINGS` is set.

    **Arguments:**

    - `read`: the series or interpolant.
    - `t`: the time of reading.
    """
    if (kept := READINGS.get()) is not None:
        kept.append((read, t))


class Measurement(NamedTuple):
    """Measured values of a series, their times and their standard deviations."""

    times: np.ndarray
    values: Array | np.ndarray
    sigma: np.ndarray


class TimeSeries(eqx.Module):
    """A function of time that interpolates values given at times.

    Outside of the times the value at the nearer end is kept. Times stay in float64 even if the values are float32. The
    array `values` can be a control. Steps end at knots that a longer step could miss.

    Methods:

    - `linear`: straight lines. Their kinks cost an adaptive solver steps, and break the smoothness in an unknown delay.
    - `cubic`: monotone cubic polynomials (PCHIP) without overshoot. They are nonlinear in the values, with a kink at
      equal neighbours.
    - `smooth`: a smoothing spline through noisy values. Between its values at `times` it is a cubic polynomial with
      slopes from parabolas. It is linear in the values, and needs the fewest steps of an adaptive solver.

    **Arguments:**

    - `times`: increasing times, (T,), in the system's time unit.
    - `values`: the values at these times, (T, ...). NaN values are left out if `method` is `smooth` or `knots` are
      given.
    - `method`: `linear`, `cubic` or `smooth`; default `cubic`.
    - `sigma`: the standard deviation of the values: one number, or an array that broadcasts to their shape. With the
      method `smooth` the root mean square residual is then one sigma. Without it, generalised cross validation chooses
      the smoothness. `pdefit.priors.Measured` needs it.
    - `knots`: times that replace `times`, (K,), or their number. The values at the knots come from a least-squares fit.
      By default the knots are `times`.

    Sources: F. N. Fritsch, J. Butland, SIAM J. Sci. Stat. Comput. 5:300 (1984), doi:10.1137/0905021; C. H. Reinsch,
    Numer. Math. 10:177 (1967), doi:10.1007/BF02162161.
    """

    times: np.ndarray
    values: Array
    method: str = eqx.field(static=True)
    measured: Measurement | None

    def __init__(self, times: Any, values: Any, method: str = "cubic", sigma: Any = None, knots: Any = None):
        if method not in _METHODS:
            raise unknown("method of a time series", str(method), _METHODS)
        self.times, self.method, self.measured = increasing(times, "times"), method, None
        # values of JAX may be traced, and are not looked at
        given = values if isinstance(values, jax.Array) else np.asarray(values, float)
        if given.shape[:1] != self.times.shape:
            raise PdefitError(
                f"A time series expects a value for each of {self.times.size} times, but got {given.shape}"
            )
        if sigma is not None:
            if np.shape(sigma) not in ((), given.shape) or not np.all(np.asarray(sigma) > 0):
                raise PdefitError(
                    f"A time series expects one standard deviation above 0, or one for each of {given.shape}, but got "
                    f"shape {np.shape(sigma)}"
                )
            self.measured = Measurement(self.times, given, np.broadcast_to(np.asarray(sigma, float), given.shape))
        if knots is not None:
            wanted = np.linspace(self.times[0], self.times[-1], knots) if isinstance(knots, int) else knots
            self.times = increasing(wanted, "knots")
            given = _columns(partial(_regression, self.times, method), times, given, sigma)
        elif method == "smooth":
            given = _columns(partial(_smoothed, self.times, sigma is not None), times, given, sigma)
        if isinstance(given, np.ndarray) and not np.all(np.isfinite(given)):
            raise PdefitError("A time series expects finite values; leave out missing ones, or take method=smooth")
        self.values = jnp.asarray(given, None if isinstance(given, jax.Array) else float)

    def __call__(self, t: Any) -> Array:
        """Values at one time, with the shape of one element of `values`.

        **Arguments:**

        - `t`: the time, in the system's time unit.
        """
        note(self, t)
        return interpolated(self.times, self.values, t, self.method)

    def continued(self, t: Any) -> Array:
        """Values at one time, extrapolated by the first and last polynomial outside of the times.

        **Arguments:** `t`: the time, in the system's time unit.
        """
        note(self, t)
        return interpolated(self.times, self.values, t, self.method, clip=False)

    def with_values(self, values: Array) -> "TimeSeries":
        """The series with new values at its knots.

        **Arguments:**

        - `values`: the values, of the same shape.
        """
        return eqx.tree_at(lambda series: series.values, self, values)

    def misfit(self) -> Array:
        """Residuals of the series at measured times, in standard deviations; 0 for missing measurements."""
        if self.measured is None:
            raise PdefitError("A time series expects the standard deviation of its values (sigma) for its misfit")
        times, values, sigma = self.measured
        known = jnp.isfinite(values)
        return jnp.where(known, (jax.vmap(self)(times) - jnp.where(known, values, 0.0)) / sigma, 0.0)


def kinked(tree: PyTree) -> dict[str, TimeSeries]:
    """Series in a pytree whose method is `linear` or `cubic`, by name.

    The time derivative of `linear` jumps at the knots. The derivative of `cubic` in the values jumps at equal
    neighbours.
    """
    found = jax.tree.leaves_with_path(tree, is_leaf=lambda x: isinstance(x, TimeSeries))
    series = {jax.tree_util.keystr(path[-1:], simple=True): x for path, x in found if isinstance(x, TimeSeries)}
    return {name: x for name, x in series.items() if x.method != "smooth"}


def increasing(knots: Any, name: str, owner: str = "A time series") -> np.ndarray:
    """Increasing knots as an array, (K,).

    **Arguments:**

    - `knots`: the knots.
    - `name`, `owner`: their name and their owner in messages.
    """
    knots = np.asarray(knots, float)
    if knots.ndim != 1 or knots.size < 2 or not np.all(np.isfinite(knots)) or not np.all(np.diff(knots) > 0):
        raise PdefitError(f"{owner} expects at least two increasing {name}, but got {knots.size} of another kind")
    return knots


def interpolated(times: Array | np.ndarray, values: Array, t: Any, method: str, clip: bool = True) -> Array:
    """Interpolated values at one time. Only the methods `linear` and `smooth` are linear in the values.

    **Arguments:**

    - `times`, `values`: the knots, (K,), and the values at them, (K, ...).
    - `t`: the time.
    - `method`: `linear`, `cubic` (monotone slopes), or `smooth` (slopes of parabolas).
    - `clip`: whether values stay constant outside of the knots.
    """
    times, n, dtype = jnp.asarray(times), values.shape[0], values.dtype
    t = jnp.asarray(t, times.dtype)
    t = jnp.clip(t, times[0], times[-1]) if clip else t
    i = jnp.clip(jnp.searchsorted(times, t, side="right") - 1, 0, n - 2)
    # the two knots around t and one more at each side
    near = jnp.clip(i + jnp.arange(-1, 3), 0, n - 1)
    y, width = values[near], jnp.diff(times[near])
    x = ((t - times[i]) / width[1]).astype(dtype)
    if method == "linear" or n == 2:
        return y[1] + x * (y[2] - y[1])
    # beyond the first and the last knot there is no interval, and its secant is not used
    w = jnp.reshape(width.astype(dtype), (3, *(1,) * (y.ndim - 1)))
    secants = jnp.diff(y, axis=0) / jnp.where(w > 0, w, 1)
    inner, end = (_monotone, _monotone_end) if method == "cubic" else (_parabola, _parabola_end)
    (a, b, c), (u, v, w) = secants, w
    first = v * jnp.where(i == 0, end(b, c, v, w), inner(a, b, u, v))
    last = v * jnp.where(i == n - 2, end(b, a, v, u), inner(b, c, v, w))
    rise = y[2] - y[1]
    return y[1] + x * (first + x * (3 * rise - 2 * first - last + x * (first + last - 2 * rise)))


def _parabola(a: Array, b: Array, u: Array, v: Array) -> Array:
    """Slope of a parabola between intervals of widths u and v with secants a and b."""
    return (v * a + u * b) / (u + v)


def _parabola_end(a: Array, b: Array, u: Array, v: Array) -> Array:
    """Slope of a parabola at the free end of the interval with secant a, whose neighbour has the secant b."""
    return ((2 * u + v) * a - u * b) / (u + v)


def _monotone(a: Array, b: Array, u: Array, v: Array) -> Array:
    p, q, same = u + 2 * v, 2 * u + v, a * b > 0
    return jnp.where(same, (p + q) * a * b / jnp.where(same, p * b + q * a, 1), 0)


def _monotone_end(a: Array, b: Array, u: Array, v: Array) -> Array:
    slope = _parabola_end(a, b, u, v)
    steep = (a * b <= 0) & (jnp.abs(slope) > 3 * jnp.abs(a))
    return jnp.where(slope * a <= 0, 0, jnp.where(steep, 3 * a, slope))


def _columns(fit: Callable[..., np.ndarray], times: Any, values: Any, sigma: Any) -> np.ndarray:
    """Fitted values of every column, by `fit(times, values, weights)` of its finite elements."""
    flat, t = np.asarray(values, float).reshape(len(values), -1), np.asarray(times, float)
    weights = 1 / np.broadcast_to(1.0 if sigma is None else sigma, np.shape(values)).reshape(flat.shape)
    known = np.isfinite(flat)
    fitted = [fit(t[k], x[k], w[k]) for k, x, w in zip(known.T, flat.T, weights.T, strict=True)]
    return np.stack(fitted, 1).reshape(-1, *np.shape(values)[1:])


def _regression(knots: np.ndarray, method: str, t: np.ndarray, x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Values at knots by a least-squares fit to given values."""
    # monotone slopes are not linear in the values; those of parabolas are near to them
    of = "linear" if method == "linear" else "smooth"
    basis = np.asarray(_basis(knots, t, of))
    values, _, rank, _ = np.linalg.lstsq(weights[:, None] * basis, weights * x)
    if rank < knots.size:
        raise PdefitError(f"{t.size} values do not determine {knots.size} knots; take fewer knots")
    return values


@partial(jax.jit, static_argnames="method")
def _basis(knots: Array, t: Array, method: str) -> Array:
    """Interpolated unit vectors of all knots at some times, (T, K)."""
    return jax.vmap(lambda t: interpolated(knots, jnp.eye(len(knots)), t, method))(t)


def _smoothed(times: np.ndarray, stated: bool, t: np.ndarray, x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Values of a smoothing spline at all times."""
    if t.size < 5:
        raise PdefitError(f"A smoothing spline expects at least 5 values, but got {t.size}; take method=cubic")
    t, times = ((s - times[0]) / np.mean(np.diff(times)) for s in (t, times))
    spline, scale = partial(scipy.interpolate.make_smoothing_spline, t, x, weights**2), np.mean(weights**2)

    def excess(decade: float) -> float:
        fitted = spline(lam=scale * 10**decade)
        return float(np.mean((weights * (fitted(t) - x)) ** 2) - 1)

    penalty = None
    if stated:
        low, high = _DECADES
        decade: Any = high if excess(high) <= 0 else scipy.optimize.brentq(excess, low, high, xtol=1e-3)
        penalty = scale * 10**decade
    return spline(lam=penalty)(times)
