"""Noise of a record, estimated from the record alone."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from pdefit._util.errors import PdefitError
from pdefit.data.observations import Observations

_HIGHEST_ORDER = 8
# a standard error of about 40 %, with fewer differences even more
_FEWEST = 20
# enough for a standard error below 1 %, whatever the size of the film
_MOST_VALUES = 2_000_000
# the median of |x| for a standard normal x
_MEDIAN = 0.6744897501960817


@dataclasses.dataclass(frozen=True)
class NoiseEstimate:
    """A noise standard deviation estimated from a record.

    **Arguments:**

    - `sigma`: the standard deviation, in the variable's unit.
    - `error`: its relative standard error.
    - `order`: the order of the differences in time used.
    - `count`: the number of these differences.
    - `settled`: whether higher orders give about the same value. Otherwise sigma may contain changes of the signal
      between frames, and is an upper bound.
    """

    sigma: float
    error: float
    order: int
    count: int
    settled: bool


def estimate_noise(observations: Observations, name: str) -> NoiseEstimate:
    """Standard deviation of a variable's noise, from divided differences in time.

    A difference of order k annihilates polynomials of degree k - 1, at irregular times too. With weights of unit length
    its standard deviation equals the noise's. The estimate is the median absolute difference over 0.6745. So it ignores
    outliers, and a front that passes a minority of the points. Missing values are left out of each point's series.

    Differences are of second order if the signal is slow. If it curves between frames, the order is the lowest (up to
    8) within one standard error of the smallest estimate.

    Limits of the method:

    - There is one number for a variable: the median noise of all its points.
    - Noise must be independent from frame to frame. A drift, or frames that share an exposure, count as signal, and
      sigma is then too small.
    - The part of a fast signal that no order removes counts as noise: a thousandth of its amplitude with eight frames
      in a period, three quarters with three. `settled` does not always reveal it.

    **Arguments:**

    - `observations`: the record; its own sigma is not used.
    - `name`: the variable.

    Sources: J. von Neumann et al., Ann. Math. Stat. 12:153 (1941), doi:10.1214/aoms/1177731746; T. Gasser, L. Sroka, C.
    Jennen-Steinmetz, Biometrika 73:625 (1986), doi:10.1093/biomet/73.3.625.
    """
    values, mask = (
        np.asarray(x).reshape(observations.ts.size, -1) for x in (observations.values[name], observations.mask[name])
    )
    stride = -(-values.size // _MOST_VALUES)
    times, series, counts = _packed(observations.ts, values[:, ::stride].astype(np.float64), mask[:, ::stride])
    found: list[tuple[float, float, int, int]] = []
    for order in range(2, _HIGHEST_ORDER + 1):
        # differences of values around 1e308 overflow, which is refused below
        with np.errstate(over="ignore", invalid="ignore"):
            differences = np.abs(_differences(times, series, counts, order))
        if differences.size < _FEWEST:
            break
        # a difference shares its noise with its neighbours: about every second one is independent
        error = 1.17 / np.sqrt(differences.size / 2)
        found.append((_median(differences) / _MEDIAN, float(error), order, differences.size))
    if not found:
        count = observations.ts.size - observations.first_frame
        raise PdefitError(
            f"sigma: auto finds fewer than {_FEWEST} second differences in time of '{name}' ({count} frames); leave sigma "
            f"out, so that residuals decide it, or give a number"
        )
    if not all(np.isfinite(s) for s, *_ in found):
        raise PdefitError(
            f"sigma: auto finds values of '{name}' too large for differences of them; write NaN in their place, or give sigma "
            f"as a number"
        )
    smallest = min(s for s, *_ in found)
    sigma, error, order, count = next(f for f in found if f[0] <= smallest * (1 + f[1]))
    if not sigma > 0:
        raise PdefitError(
            f"sigma: auto finds that more than half of the second differences in time of '{name}' are exactly zero "
            f"(constant or coarsely rounded values); leave sigma out, so that residuals decide it, or give a number"
        )
    return NoiseEstimate(sigma, error, order, count, settled=order < found[-1][2])


def _median(x: np.ndarray) -> float:
    """Median of positive numbers; the few distinct values of integer differences are interpolated."""
    if np.median(x) == 0 or not np.all(np.isfinite(x)):
        return float(np.median(x))
    levels, counts = np.unique(np.round(x / x.max(), 9), return_counts=True)
    # half of the values on a level count as below it
    return float(x.max() * np.interp(x.size / 2, np.cumsum(counts) - counts / 2, levels))


def _packed(ts: np.ndarray, values: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Times and values (T, n) of every series with the observed ones first, and their numbers (n,)."""
    if mask.all():
        return np.broadcast_to(ts[:, None], values.shape), values, np.full(values.shape[1], ts.size)
    index = np.argsort(~mask, axis=0, kind="stable")
    return ts[index], np.take_along_axis(values, index, axis=0), mask.sum(axis=0)


def _differences(times: np.ndarray, series: np.ndarray, counts: np.ndarray, order: int) -> np.ndarray:
    """All divided differences of one order, (m,), with weights of unit length."""
    windows = times.shape[0] - order
    if windows < 1:
        return np.zeros(0)
    inside: np.ndarray = np.arange(windows)[:, None] + order < counts
    span = np.where(inside, times[order:] - times[:windows], 1.0)
    total, squares = np.zeros(inside.shape), np.zeros(inside.shape)
    for i in range(order + 1):
        weight = np.ones(inside.shape)
        for j in range(order + 1):
            if j != i:
                gap = (times[i : i + windows] - times[j : j + windows]) / span
                weight /= np.where(inside, gap, 1.0)
        total += weight * series[i : i + windows]
        squares += weight**2
    return (total / np.sqrt(squares))[inside]


def describe(noise: Mapping[str, NoiseEstimate]) -> list[str]:
    """Messages for the user, one line for each variable."""
    return [
        f"sigma of {name} = {n.sigma:.3g} ±{n.error:.0%}, estimated from {n.count} differences of order {n.order} in time"
        + ("" if n.settled else "; still falling with the order: it may contain changes of the signal between frames")
        for name, n in noise.items()
    ]


# values that are looked at, and significant digits that a file may have been written with
_LOOKED_AT, _FEWEST_DIGITS, _MOST_DIGITS = 5000, 3, 10


def rounding_step(values: np.ndarray) -> tuple[float, str]:
    """Rounding step of a record, and what rounded it; 0 for numbers of full precision.

    **Arguments:** `values` (n,): measured values of one variable.
    """
    some = np.unique(values[np.isfinite(values) & (values != 0)])
    some = some[:: max(1, some.size // _LOOKED_AT)]
    if some.size < _FEWEST:
        return 0.0, ""
    size = float(np.sqrt(np.mean(some**2)))
    for digits in range(_FEWEST_DIGITS, _MOST_DIGITS):
        for step in (
            10.0 ** (np.floor(np.log10(size)) + 1 - digits),
            10.0 ** (np.floor(np.log10(np.abs(some))) + 1 - digits),
        ):
            if np.all(np.abs(some / step - np.round(some / step)) < 1e-5):
                return float(np.sqrt(np.mean(np.broadcast_to(step, some.shape) ** 2))), f"{digits} digits"
    if np.all(some == some.astype(np.float32)):
        return float(np.finfo(np.float32).eps) * size, "float32"
    return 0.0, ""
