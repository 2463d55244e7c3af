"""The times of the frames of a simulation or twin."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from pdefit._util.errors import PdefitError
from pdefit.cli.config.sections import is_number, whole_number
from pdefit.cli.experiment.trial import check_memory


def frame_times(cfg: Mapping[str, Any]) -> np.ndarray:
    """`times.count` frames from start to stop, and after them those of `times.forecast`, which may be further apart."""
    times = cfg["times"]
    numbers = is_number(times["start"]) and is_number(times["stop"]) and isinstance(times["count"], int)
    if not numbers or times["count"] < 2 or times["stop"] <= times["start"]:
        raise PdefitError("times expects start < stop and count >= 2, e.g. times={start: 0, stop: 10, count: 41}")
    whole_number(times["count"], "times.count")
    check_memory(times["count"])
    ts = np.linspace(float(times["start"]), float(times["stop"]), times["count"])
    later = times["forecast"]
    if later is None:
        return ts
    complete = isinstance(later, Mapping) and set(later) == {"stop", "count"}
    if not complete or not is_number(later["stop"]) or not later["stop"] > times["stop"]:
        raise PdefitError(
            f"times.forecast expects a stop after times.stop = {times['stop']:g} and a count, e.g. {{stop: 20, count: 40}}, "
            f"but got {later!r}"
        )
    whole_number(later["count"], "times.forecast.count")
    if later["count"] < 1:
        raise PdefitError("times.forecast.count expects one frame or more; set times.forecast=null for no forecast")
    check_memory(times["count"] + later["count"])
    return np.concatenate([ts, np.linspace(ts[-1], float(later["stop"]), later["count"] + 1)[1:]])


def last_fitted(cfg: Mapping[str, Any]) -> float | None:
    """The time up to which frames are fitted; None for all of them."""
    times = cfg["times"]
    if times["fit_until"] is None and times["forecast"] is not None:
        return times["stop"]
    return times["fit_until"]
