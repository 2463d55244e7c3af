"""Scores of a forecast against the truth and against a baseline."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from pdefit.analysis.forecast.peak_times import PeakTimes, peak_times

# relative error up to which a forecast is called valid
VALID_BELOW = 0.1


@dataclasses.dataclass(frozen=True)
class Skill:
    """Errors of a forecast over its times, and of a baseline over the same.

    **Arguments:**

    - `ts` (T,): times of the forecast, in the system's time unit.
    - `relative_l2`, `baseline_l2` (T,): |forecast - truth| / |truth|, norms over all points of the scored variables.
    - `per_label`, `baseline_per_label`: absolute errors (T,) of each body or component, in the unit of the first
      variable; empty where its first axis has no labels.
    - `valid_time`: time from the end of the fit up to which the relative error stays below 0.1; `valid_to_end` is true
      if it does so at all times.
    - `peaks`: errors in time, of one field that is spread over a grid.
    """

    ts: np.ndarray
    relative_l2: np.ndarray
    baseline_l2: np.ndarray
    per_label: dict[str, np.ndarray]
    baseline_per_label: dict[str, np.ndarray]
    valid_time: float
    valid_to_end: bool
    peaks: PeakTimes | None = None


def skill(
    ts: np.ndarray,
    t0: float,
    forecast: Mapping[str, np.ndarray],
    baseline: Mapping[str, np.ndarray],
    truth: Mapping[str, np.ndarray],
    labels: tuple[str, ...] = (),
    spread: str | None = None,
) -> Skill:
    """Scores of a forecast, and of a baseline, against the truth.

    **Arguments:**

    - `ts` (T,), `t0`: times of the forecast, and the time from which it starts.
    - `forecast`, `baseline`, `truth`: fields (T, ...) by name; NaN in the truth is not scored.
    - `labels`: names along the first axis after time of the first field, e.g. of bodies.
    - `spread`: name of the field whose peak times are compared, one on a grid (default: none).
    """
    relative = _relative(forecast, truth)
    wrong = np.flatnonzero(~(relative <= VALID_BELOW))
    last = relative.size if wrong.size == 0 else int(wrong[0])
    return Skill(
        ts=ts,
        relative_l2=relative,
        baseline_l2=_relative(baseline, truth),
        per_label=_per_label(forecast, truth, labels),
        baseline_per_label=_per_label(baseline, truth, labels),
        valid_time=float(ts[last - 1] - t0) if last else 0.0,
        valid_to_end=last == relative.size,
        peaks=None if spread is None else peak_times(spread, ts, forecast[spread], baseline[spread], truth[spread]),
    )


def _relative(fields: Mapping[str, np.ndarray], truth: Mapping[str, np.ndarray]) -> np.ndarray:
    wrong = total = 0.0
    for name, true in truth.items():
        axes = tuple(range(1, np.ndim(true)))
        known = np.isfinite(true)
        # where a forecast has blown up its square may overflow; its error is then infinite, as it should be
        with np.errstate(over="ignore"):
            wrong = wrong + np.sum(np.where(known, np.asarray(fields[name]) - true, 0.0) ** 2, axis=axes)
        total = total + np.sum(np.where(known, true, 0.0) ** 2, axis=axes)
    return np.sqrt(np.asarray(wrong) / np.maximum(np.asarray(total), np.finfo(float).tiny))


def _per_label(
    fields: Mapping[str, np.ndarray], truth: Mapping[str, np.ndarray], labels: tuple[str, ...]
) -> dict[str, np.ndarray]:
    """Norm of the error of the first scored variable, for each label of its first axis after time."""
    name, true = next(iter(truth.items()))
    if not labels or np.ndim(true) < 2 or np.shape(true)[1] != len(labels):
        return {}
    error = np.asarray(fields[name]) - true
    norm = np.sqrt(np.nansum(error**2, axis=tuple(range(2, error.ndim))))
    return {label: norm[:, i] for i, label in enumerate(labels)}
