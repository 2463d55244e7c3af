"""Peak times: the error of a forecast in time rather than in value."""

import dataclasses
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class Arrivals:
    """Errors of predicted peak times.

    **Arguments:**

    - `error`: mean distance in time from a true peak to the nearest predicted one at the same point, in the unit of the
      times. Only points with a predicted peak count; NaN if there is none.
    - `missed`: fraction of the true peaks with no predicted peak within reach.
    """

    error: float
    missed: float


@dataclasses.dataclass(frozen=True)
class PeakTimes:
    """Errors of the peak times of a forecast and of its baseline.

    **Arguments:**

    - `field`: name of the field.
    - `peaks`: number of true peaks, over all points.
    - `reach`: half the median time between successive true peaks of a point, or the length of the record if no point
      has two.
    - `forecast`, `baseline`: errors of the forecast and of its baseline.
    """

    field: str
    peaks: int
    reach: float
    forecast: Arrivals
    baseline: Arrivals

    def record(self) -> dict[str, Any]:
        """Entries of summary.json."""
        mine, base = self.forecast, self.baseline
        own = {"field": self.field, "peaks": self.peaks, "error": mine.error, "missed": mine.missed}
        return own | {"baseline_error": base.error, "baseline_missed": base.missed}


@dataclasses.dataclass(frozen=True)
class _Peaks:
    """Peaks of all points, (n,): index of the point and time, ordered by point, then by time."""

    point: np.ndarray
    time: np.ndarray


def peak_times(
    field: str, ts: np.ndarray, forecast: np.ndarray, baseline: np.ndarray, truth: np.ndarray
) -> PeakTimes | None:
    """Errors of the peak times of a forecast and its baseline; None if the truth has no peak or is a front.

    A wave is a period in which the value at a point exceeds the midpoint between minimum and maximum of the true film.
    The peak of a wave is its highest sample, so that ripples do not count as peaks. Its time is refined by the parabola
    through three samples. A wave has no peak if an end of the film cuts it off, if its top is a plateau of more than
    two equal samples, or if it is not finite. A front rises and stays, and its highest samples are noise: fewer values
    fall back to the level than half its peaks.

    **Arguments:**

    - `field`: name of the field, for the result.
    - `ts` (T,): times of the frames.
    - `forecast`, `baseline`, `truth` (T, ...): the field; NaN in the truth is no peak.
    """
    ts, true = np.asarray(ts, np.float64), np.asarray(truth)
    finite = np.isfinite(true)
    if ts.size < 3 or not finite.any():
        return None
    low = float(np.min(true, where=finite, initial=np.inf))
    high = float(np.max(true, where=finite, initial=-np.inf))
    level = low + 0.5 * (high - low)
    expected = _peaks(ts, true, level)
    falls = np.count_nonzero((true[:-1] > level) & (true[1:] <= level))
    if expected.time.size == 0 or 2 * falls < expected.time.size:
        return None
    apart = np.diff(expected.time)[np.diff(expected.point) == 0]
    reach = 0.5 * float(np.median(apart)) if apart.size else float(ts[-1] - ts[0])
    return PeakTimes(
        field=field,
        peaks=int(expected.time.size),
        reach=reach,
        forecast=_arrivals(expected, _peaks(ts, np.asarray(forecast), level), reach),
        baseline=_arrivals(expected, _peaks(ts, np.asarray(baseline), level), reach),
    )


def _peaks(ts: np.ndarray, film: np.ndarray, level: float) -> _Peaks:
    """The highest maximum of every wave of a film (T, ...)."""
    x = np.ascontiguousarray(film.reshape(ts.size, -1).T)
    rises, falls, stays = x[:, 1:] > x[:, :-1], x[:, 1:] < x[:, :-1], x[:, 1:] == x[:, :-1]
    # two equal samples have their maximum between them; more are a plateau
    top = falls[:, 1:].copy()
    top[:, :-1] |= stays[:, 1:-1] & falls[:, 2:]
    finite = np.isfinite(x)
    wave = finite & (x > level)
    top &= rises[:, :-1] & wave[:, 1:-1] & finite[:, :-2] & finite[:, 2:]
    point, i = _highest(x, wave, *np.nonzero(top))
    before, at, after = (x[point, k].astype(np.float64) for k in (i - 1, i, i + 1))
    left, right = ts[i] - ts[i - 1], ts[i + 1] - ts[i]
    up, down = at - before, at - after
    # the vertex of the parabola, for steps of any length
    vertex = ts[i] + 0.5 * (right**2 * up - left**2 * down) / (right * up + left * down)
    return _Peaks(point, vertex)


def _highest(x: np.ndarray, wave: np.ndarray, point: np.ndarray, i: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The highest maximum of each wave among maxima at samples 1 + i of series x (P, T); of equal ones the first."""
    begins = wave.copy()
    begins[:, 1:] &= ~wave[:, :-1]
    first = np.flatnonzero(begins)
    if first.size == 0:
        return point, i + 1
    height = np.maximum.reduceat(np.where(wave, x, -np.inf).ravel(), first)
    index = point * x.shape[1] + i + 1
    of = np.searchsorted(first, index, side="right") - 1
    highest = np.flatnonzero(x.ravel()[index] == height[of])
    # of equal ones, the first
    kept = highest[np.unique(of[highest], return_index=True)[1]]
    return point[kept], i[kept] + 1


def _arrivals(expected: _Peaks, peaks: _Peaks, reach: float) -> Arrivals:
    """Errors of the predicted peaks; each true peak is compared with the nearest one at its point."""
    if peaks.time.size == 0:
        return Arrivals(error=float("nan"), missed=1.0)
    first = min(expected.time.min(), peaks.time.min())
    span = max(expected.time.max(), peaks.time.max()) - first + 1.0
    # times of all points on one axis, each point in a stretch of its own, so that one sorted search serves all
    keys, wanted = ((p.time - first) / span + 2.0 * p.point for p in (peaks, expected))
    behind = np.searchsorted(keys, wanted)
    distance = np.full(wanted.size, np.inf)
    for k in (behind - 1, behind):
        k = np.clip(k, 0, keys.size - 1)
        here = np.where(peaks.point[k] == expected.point, np.abs(peaks.time[k] - expected.time), np.inf)
        distance = np.minimum(distance, here)
    known = np.isfinite(distance)
    error = float(distance[known].mean()) if known.any() else float("nan")
    return Arrivals(error=error, missed=float(np.mean(~(distance <= reach))))
