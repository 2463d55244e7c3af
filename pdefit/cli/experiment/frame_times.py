"""Times of the frames of a simulation or twin."""

import numpy as np

from pdefit._util.errors import PdefitError
from pdefit.analysis.goodness.holdout import held_frames
from pdefit.cli.config.settings import Settings
from pdefit.cli.config.sources import Times
from pdefit.cli.experiment.trial import check_memory


def frame_times(times: Times) -> np.ndarray:
    """Times of `times.count` frames from start to stop, and after them those of `times.forecast`.

    Frames of the forecast may be further apart.
    """
    if times.start is None or times.stop is None or times.count is None or times.stop <= times.start:
        raise PdefitError("times expects start < stop and count >= 2, e.g. times={start: 0, stop: 10, count: 41}")
    check_memory(times.count)
    ts = np.linspace(times.start, times.stop, times.count)
    if times.forecast is None:
        return ts
    check_memory(times.count + times.forecast.count)
    return np.concatenate([ts, np.linspace(ts[-1], times.forecast.stop, times.forecast.count + 1)[1:]])


def frames_kept_out(settings: Settings, ts: np.ndarray) -> np.ndarray:
    """Indices of the frames that `holdout` keeps out of a fit.

    **Arguments:** `ts` are the times of the fitted frames.
    """
    stages = settings.stages.stages
    used = [settings.formulation, *(s.formulation for s in stages if s.formulation is not None)]
    return held_frames(ts, settings.holdout, used)


def fitted_frames(times: Times, ts: np.ndarray) -> int:
    """Number of frames of a record at times `ts` that are fitted: those up to `times.fit_until`."""
    stop = times.last_fitted
    fitted = ts.size if stop is None else int(np.searchsorted(ts, stop, side="right"))
    if fitted < 2:
        raise PdefitError(f"times.fit_until = {stop} leaves {fitted} frames to fit; the record starts at {ts[0]:g}")
    return fitted
