"""Baseline forecasts, which need no equations."""

import numpy as np

from pdefit.data.observations import Observations

LAST, MEAN, LINEAR = "last frame", "mean of frames", "linear extrapolation"


def baselines(record: Observations, fitted: int, unseen: dict[str, np.ndarray]) -> dict[str, dict[str, np.ndarray]]:
    """Forecasts of every variable from its measured frames, (T, ...), by the name of the rule.

    - `last frame` repeats the last measured value of every point (persistence).
    - `mean of frames` repeats the mean of its measured values.
    - `linear extrapolation` continues the straight line through its last two.

    **Arguments:**

    - `record`: the data.
    - `fitted`: the number of frames before the forecast.
    - `unseen`: for each variable a forecast, (T, ...), for values never measured before and for moving points.
    """
    ts, later, found = record.ts[:fitted], record.ts[fitted:], {LAST: {}, MEAN: {}, LINEAR: {}}
    for name, instead in unseen.items():
        mask, values = np.asarray(record.mask[name][:fitted]), np.asarray(record.values[name][:fitted])
        moves = name in record.positions and record.positions[name].shape[0] > 1
        count = np.zeros_like(mask[0], int) if moves else mask.sum(0)
        (last, t), (before, s) = (_from_end(values, mask, ts, rank) for rank in (1, 2))
        slope = np.where(count > 1, (last - before) / np.where(count > 1, t - s, 1.0), 0.0)
        ahead = later.reshape(-1, *(1,) * last.ndim) - t
        mean = np.sum(values, 0, where=mask) / np.maximum(count, 1)
        for rule, forecast in ((LAST, last), (MEAN, mean), (LINEAR, last + slope * ahead)):
            found[rule][name] = np.where(count > 0, forecast, instead)
    return found


def _from_end(values: np.ndarray, mask: np.ndarray, ts: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """The last measured value of every point (rank 1), or the one before it (rank 2), and its time."""
    nth = mask & (np.cumsum(mask[::-1], 0)[::-1] == rank)
    at = np.argmax(nth, 0)
    return np.take_along_axis(values, at[None], 0)[0], ts[at]
