"""When peaks pass: the error of a forecast in time rather than in value."""

import dataclasses
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class Arrivals:
    """How predicted peaks stand to the true ones.

    `error` the mean distance in time to the nearest predicted peak of the same point, over all true peaks whose point has a
    predicted one (NaN where none has); `missed` the fraction of true peaks without a predicted one within reach.
    """

    error: float
    missed: float


@dataclasses.dataclass(frozen=True)
class PeakTimes:
    """Peak times of a forecast and of a baseline against those of the truth.

    `peaks` how many the truth has, over all points; `reach` half the median time between successive true peaks of a point
    with a dip between them below what counts as a peak (a spike and its dome are one wave), or the length of the film where
    no point has two.
    """

    field: str
    peaks: int
    reach: float
    forecast: Arrivals
    baseline: Arrivals


@dataclasses.dataclass(frozen=True)
class _Peaks:
    """Peaks of all points (n,): the point of each, its time, and how many samples before it are no higher than the level;
    ordered by point, then by time."""

    point: np.ndarray
    time: np.ndarray
    dips: np.ndarray


def peak_times(field: str, ts: np.ndarray, forecast: Any, baseline: Any, truth: Any) -> PeakTimes | None:
    """Compare the peak times of films (T, ...) of one field; None if the truth has no peak.

    A peak is a local maximum of a point's series above half the range of the true film (the minimum plus half of maximum
    minus minimum), its time refined by the parabola through three samples. One that lasts for more than two equal samples
    is a plateau and has no time. Noise on the truth makes peaks of its own: for noisy observations the error is an upper
    bound. A value that is NaN or infinite is no peak, nor are its neighbors.
    """
    ts, true = np.asarray(ts, np.float64), np.asarray(truth)
    finite = np.isfinite(true)
    if ts.size < 3 or not finite.any():
        return None
    low = float(np.min(true, where=finite, initial=np.inf))
    high = float(np.max(true, where=finite, initial=-np.inf))
    level = low + 0.5 * (high - low)
    expected = _peaks(ts, true, level)
    if expected.time.size == 0:
        return None
    apart = np.diff(expected.time)[(np.diff(expected.point) == 0) & (np.diff(expected.dips) > 0)]
    reach = 0.5 * float(np.median(apart)) if apart.size else float(ts[-1] - ts[0])
    return PeakTimes(
        field=field,
        peaks=int(expected.time.size),
        reach=reach,
        forecast=_arrivals(expected, _peaks(ts, np.asarray(forecast), level), reach),
        baseline=_arrivals(expected, _peaks(ts, np.asarray(baseline), level), reach),
    )


def _peaks(ts: np.ndarray, film: np.ndarray, level: float) -> _Peaks:
    """The maxima above a level of every point of a film (T, ...)."""
    x = film.reshape(ts.size, -1)
    rises, falls, level_on = x[1:] > x[:-1], x[1:] < x[:-1], x[1:] == x[:-1]
    # two equal samples have their maximum between them; more are a plateau
    top = falls[1:].copy()
    top[:-1] |= level_on[1:-1] & falls[2:]
    finite = np.isfinite(x)
    top &= rises[:-1] & (x[1:-1] > level) & finite[:-2] & finite[1:-1] & finite[2:]
    point, i = np.nonzero(top.T)
    i = i + 1
    before, at, after = (x[k, point].astype(np.float64) for k in (i - 1, i, i + 1))
    left, right = ts[i] - ts[i - 1], ts[i + 1] - ts[i]
    up, down = at - before, at - after
    # the vertex of the parabola, for steps of any length
    vertex = ts[i] + 0.5 * (right**2 * up - left**2 * down) / (right * up + left * down)
    dips = np.cumsum(x <= level, axis=0, dtype=np.int32)[i, point]
    return _Peaks(point, vertex, dips)


def _arrivals(expected: _Peaks, found: _Peaks, reach: float) -> Arrivals:
    """Every true peak beside the nearest one that was found at its point."""
    if found.time.size == 0:
        return Arrivals(error=float("nan"), missed=1.0)
    first = min(expected.time.min(), found.time.min())
    span = max(expected.time.max(), found.time.max()) - first + 1.0
    # one axis for all points, each of which has its own stretch of it
    keys, wanted = ((p.time - first) / span + 2.0 * p.point for p in (found, expected))
    behind = np.searchsorted(keys, wanted)
    distance = np.full(wanted.size, np.inf)
    for k in (behind - 1, behind):
        k = np.clip(k, 0, keys.size - 1)
        here = np.where(found.point[k] == expected.point, np.abs(found.time[k] - expected.time), np.inf)
        distance = np.minimum(distance, here)
    known = np.isfinite(distance)
    error = float(distance[known].mean()) if known.any() else float("nan")
    return Arrivals(error=error, missed=float(np.mean(~(distance <= reach))))
