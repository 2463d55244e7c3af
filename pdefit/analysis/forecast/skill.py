"""How good a forecast is."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from pdefit.analysis.forecast.peak_times import PeakTimes, peak_times

# relative error up to which a forecast is called valid
VALID_BELOW = 0.1


@dataclasses.dataclass(frozen=True)
class Skill:
    """Errors of a forecast over its T times, and of a baseline over the same.

    `relative_l2` (T,) |forecast - truth| / |truth| over all points of the scored variables; `per_label[name]` (T,) absolute
    errors of each body or component, where the first axis has labels. `valid_time` is how long after its start the relative
    error stays below 0.1; `peaks` compares the peak times of one field.
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
    """Score fields (T, ...) of a forecast from t0 against the truth; NaN in the truth is not scored. `spread` is the field
    whose peak times are compared, one that is spread over a grid."""
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
        seen = np.isfinite(true)
        # a forecast that has blown up overflows: infinitely wrong
        with np.errstate(over="ignore"):
            wrong = wrong + np.sum(np.where(seen, np.asarray(fields[name]) - true, 0.0) ** 2, axis=axes)
        total = total + np.sum(np.where(seen, true, 0.0) ** 2, axis=axes)
    return np.sqrt(np.asarray(wrong) / np.maximum(np.asarray(total), np.finfo(float).tiny))


def _per_label(
    fields: Mapping[str, np.ndarray], truth: Mapping[str, np.ndarray], labels: tuple[str, ...]
) -> dict[str, np.ndarray]:
    """The norm of the error of the first scored variable, for each label of its first axis after time."""
    name, true = next(iter(truth.items()))
    if not labels or np.ndim(true) < 2 or np.shape(true)[1] != len(labels):
        return {}
    error = np.asarray(fields[name]) - true
    norm = np.sqrt(np.nansum(error**2, axis=tuple(range(2, error.ndim))))
    return {label: norm[:, i] for i, label in enumerate(labels)}
