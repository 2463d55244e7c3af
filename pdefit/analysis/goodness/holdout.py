"""Frames held out of a fit, to score it afterwards."""

from collections.abc import Sequence

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float

from pdefit._util.errors import PdefitError
from pdefit.data.observations import Observations
from pdefit.inverse.objective.compiled import sum_of_squares, weighted
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.shooting.formulation import AbstractFormulation
from pdefit.inverse.uncertainty.influences import PART, whole_change


def held_frames(
    ts: np.ndarray, fraction: object, formulations: Sequence[AbstractFormulation], first: int = 0
) -> np.ndarray:
    """Indices of held-out frames, evenly spread over the eligible frames of a fit.

    The first and the last frame stay in the fit, and so does every frame at which a window starts, since a window that
    starts from data has used that frame.

    **Arguments:**

    - `ts` (T,): times of the fitted frames.
    - `fraction`: the fraction of frames to hold out, from 0 to 0.5, or the numbers of the frames, counted from 0.
    - `formulations`: how the stages of the fit cut the record into windows.
    - `first`: the index of the first frame with data; default 0.
    """
    if isinstance(fraction, list | tuple):
        return _named(ts, fraction, formulations, first)
    if isinstance(fraction, bool) or not isinstance(fraction, int | float) or not 0 <= fraction <= 0.5:
        raise PdefitError(f"holdout expects a fraction of the fitted frames between 0 and 0.5, but got '{fraction}'")
    if fraction == 0:
        return np.zeros(0, int)
    free, total = _free(ts, formulations, first), ts.size - first
    count = max(1, round(fraction * total))
    if count > free.size:
        raise PdefitError(
            f"holdout = {fraction:g} asks for {count} of {total} frames, but {free.size} may be kept out: neither the first, "
            f"the last, nor the start of a window; use longer windows, or a smaller holdout (0 keeps all)"
        )
    # the middle of each of `count` equal parts
    return free[((np.arange(count) + 0.5) * free.size / count).astype(int)]


def _named(
    ts: np.ndarray, frames: Sequence[object], formulations: Sequence[AbstractFormulation], first: int
) -> np.ndarray:
    """Indices of the held-out frames that are listed by number."""
    free = (_free(ts, formulations, first) - first).tolist()
    if wrong := [i for i in frames if isinstance(i, bool) or i not in free]:
        raise PdefitError(
            f"holdout expects a fraction, or numbers of frames between 1 and {ts.size - first - 2} at which no window starts, "
            f"but got {wrong[0]}"
        )
    return np.unique(np.asarray(frames, int)) + first


def _free(ts: np.ndarray, formulations: Sequence[AbstractFormulation], first: int) -> np.ndarray:
    """Indices of the frames that may be held out."""
    starts = np.concatenate([f.layout(ts, np.inf).nodes for f in formulations])
    return np.setdiff1d(np.arange(first + 1, ts.size - 1), starts)


def withhold(observations: Observations, frames: np.ndarray) -> Observations:
    """Observations with the given frames masked out."""
    out = np.isin(np.arange(observations.ts.size), frames)
    mask = {
        n: jax.device_put(np.asarray(m) & ~out.reshape(-1, *[1] * (m.ndim - 1))) for n, m in observations.mask.items()
    }
    return eqx.tree_at(lambda o: o.mask, observations, mask)


def heldout_score(
    functional: Functional,
    theta: Float[Array, " p"],
    observations: Observations,
    frames: np.ndarray,
    errors: Sequence[np.ndarray] = (),
) -> tuple[float, int]:
    """chi2 per value at held-out frames: mean squared residual over its predicted variance; and the number of values.

    The variance is the sum of the variances of noise and prediction. The latter takes one forward run for each error.

    **Arguments:**

    - `functional`, `theta` (p,): the fit and its estimate. Its sigma is the weight.
    - `observations`: the record with the held-out frames.
    - `frames`: indices of the held-out frames.
    - `errors`: changes of theta, (p,) each, from `independent_errors`. Without them the estimate counts as exact, which
      rejects right models of small records.
    """
    others = np.setdiff1d(np.arange(observations.ts.size), frames)
    only = eqx.tree_at(lambda f: f.observations.mask, functional, withhold(observations, others).mask)
    count = only.observed_values
    now = weighted(only, theta)
    variance = {n: np.ones_like(r) for n, r in now.items()}
    for error in errors:
        for n, change in whole_change(now, weighted(only, theta + PART * error)).items():
            variance[n] += change**2
    return sum_of_squares({n: r / np.sqrt(variance[n]) for n, r in now.items()}) / max(count, 1), count
