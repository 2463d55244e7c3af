"""Scores of a forecast against the truth and against a baseline."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from pdefit.analysis.forecast.peak_times import PeakTimes, peak_times

# relative error up to which a forecast is called valid
VALID_BELOW = 0.1
# standard deviations that the square of the error may exceed its expectation by; errors below round-off count as zero
_CHANCE, _ROUND_OFF = 3.0, 1e-6

Variables = Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Skill:
    """Errors of a forecast at each of its times, with errors of baselines at the same times.

    **Arguments:**

    - `ts`: the times of the forecast, (T,), in the system's time unit.
    - `relative_l2`: |forecast - truth| / |truth|, (T,), norms over all points of the scored variables.
    - `baselines`: the relative error of every baseline by name. Tables and pictures show the first.
    - `per_label`, `baseline_per_label`: absolute errors (T,) of each body or component, in the unit of the first
      variable; empty if its first axis has no labels.
    - `valid_time`: the time from the end of the fit up to which the forecast is valid; `valid_to_end` is true if it is
      valid at all times.
    - `better`: the baseline with the smallest mean square error, if this error is smaller than the forecast's.
    - `peaks`: errors of the peak times of one field on a grid.
    """

    ts: np.ndarray
    relative_l2: np.ndarray
    baselines: dict[str, np.ndarray]
    per_label: dict[str, np.ndarray]
    baseline_per_label: dict[str, np.ndarray]
    valid_time: float
    valid_to_end: bool
    better: str | None = None
    peaks: PeakTimes | None = None

    @property
    def baseline(self) -> str:
        """Name of the first baseline."""
        return next(iter(self.baselines))

    @property
    def baseline_l2(self) -> np.ndarray:
        """Relative error of the first baseline, (T,)."""
        return self.baselines[self.baseline]


def skill(
    ts: np.ndarray,
    t0: float,
    forecast: Variables,
    baselines: Mapping[str, Variables],
    truth: Variables,
    *,
    sigma: Variables | None = None,
    labels: tuple[str, ...] = (),
    spread: str | None = None,
) -> Skill:
    """Scores of a forecast, and of baselines, against the truth or against data with noise.

    A forecast is valid as long as its error stays below a tenth of the truth, and below the root mean square error of the
    best baseline. The noise of the data does not count: the square of the error may exceed these bounds by the expected
    square of the noise and three of its standard deviations.

    **Arguments:**

    - `ts`, `t0`: the times of the forecast, (T,), and the time from which it starts.
    - `forecast`, `truth`: fields (T, ...) by name; NaN in the truth is not scored.
    - `baselines`: other forecasts by name, at least one.
    - `sigma`: standard deviations of the truth, (T, ...); by default the truth is exact.
    - `labels`: names along the first axis after time of the first field, e.g. of bodies.
    - `spread`: the name of the field on a grid whose peak times are compared; by default none.
    """
    size = np.maximum(_square(truth, truth), np.finfo(float).tiny)
    wrong = _square(forecast, truth, minus=1.0)
    others = {name: _square(fields, truth, minus=1.0) for name, fields in baselines.items()}
    noise, chance = np.zeros_like(size), np.zeros_like(size)
    if sigma is not None:
        noise = _square(sigma, truth)
        chance = _CHANCE * np.sqrt(2 * _square({n: s**2 for n, s in sigma.items()}, truth))
    best = min(others, key=lambda name: float(np.mean(others[name])))
    least = max(float(np.mean(others[best] - noise)), 0.0)
    limit = np.maximum(np.minimum(VALID_BELOW**2 * size, least), _ROUND_OFF**2 * size) + noise + chance
    bad = np.flatnonzero(~(wrong <= limit))
    until = int(bad[0]) if bad.size else wrong.size
    first = next(iter(baselines.values()))
    return Skill(
        ts=ts,
        relative_l2=np.sqrt(wrong / size),
        baselines={name: np.sqrt(error / size) for name, error in others.items()},
        per_label=_per_label(forecast, truth, labels),
        baseline_per_label=_per_label(first, truth, labels),
        valid_time=float(ts[until - 1] - t0) if until else 0.0,
        valid_to_end=until == wrong.size,
        better=None if np.mean(wrong) <= np.mean(others[best]) else best,
        peaks=None if spread is None else peak_times(spread, ts, forecast[spread], first[spread], truth[spread]),
    )


def _square(fields: Variables, truth: Variables, minus: float = 0.0) -> np.ndarray:
    """Sum of squares of fields minus a multiple of the truth, over all values known in the truth, (T,)."""
    total = np.zeros(len(next(iter(truth.values()))))
    for name, true in truth.items():
        # if a forecast has blown up its square may overflow; its error is then infinite, as it should be
        with np.errstate(over="ignore"):
            difference = np.where(np.isfinite(true), np.asarray(fields[name]) - minus * true, 0.0)
            total = total + np.sum(difference**2, axis=tuple(range(1, difference.ndim)))
    return total


def _per_label(fields: Variables, truth: Variables, labels: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Norm of the error of the first scored variable, for each label of its first axis after time."""
    name, true = next(iter(truth.items()))
    if not labels or np.ndim(true) < 2 or np.shape(true)[1] != len(labels):
        return {}
    error = np.asarray(fields[name]) - true
    norm = np.sqrt(np.nansum(error**2, axis=tuple(range(2, error.ndim))))
    return {label: norm[:, i] for i, label in enumerate(labels)}
