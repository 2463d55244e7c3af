"""Noise that differs from what was stated: its size, its memory, single frames, the signal it grows with, a drift."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from pdefit.analysis.goodness.structure import ResidualFilm, deviations

# standard deviations beyond which a difference of two variances is not taken for chance
_SURE = 6.0
# ratio of variances that is worth a sentence
_RATIO = 1.5
# mean square of the residuals of a frame, as a part of the others', above and below which the frame stands out
_LOUD, _QUIET = 2.5, 0.5


class NoiseShape(NamedTuple):
    """A way in which noise differs from independent noise of the stated size.

    **Arguments:**

    - `kind`: `frame`, `stiff` (a first frame that is not followed), `start`, `signal` or `offset`.
    - `words`: what was seen, a clause.
    - `remedy`: what to do about it.
    """

    kind: str
    words: str
    remedy: str


def noise_shapes(film: ResidualFilm) -> Iterator[NoiseShape]:
    """Shapes of the noise of one variable, from the sizes of its residuals."""
    r = film.residuals
    axes = tuple(range(1, r.ndim))
    count = np.sum(np.isfinite(r), axis=axes)
    square = np.nansum(r**2, axis=axes) / np.maximum(count, 1)
    some = float(np.median(count[count > 0])) if np.count_nonzero(count) > 3 else 0.0
    # the median of a mean of few squares is less than their expectation
    usual = float(np.median(square[count > 0])) / (1 - 2 / (9 * some)) ** 3 if some else 0.0
    if not usual > 0:
        return
    beyond = np.asarray([deviations(float(s / usual), float(max(n, 1))) for s, n in zip(square, count, strict=True)])
    loud = np.flatnonzero((beyond > _SURE) & (square > _LOUD * usual))
    if 0 in loud:
        yield NoiseShape(
            "stiff",
            f"residuals of {film.variable} in the first frame are {np.sqrt(square[0] / usual):.2g} times those of the others: "
            "the initial state does not follow it",
            "free the initial state, or loosen its prior (a smaller length or a larger amplitude of its smoothing)",
        )
    elif 0 < loud.size <= max(1, len(r) // 10):
        times = np.sqrt(square[loud].max() / usual)
        frames = ", ".join(map(str, loud[:5]))
        yield NoiseShape(
            "frame",
            f"residuals of {film.variable} in frame {frames} (the first is 0) are {times:.2g} times those of the others",
            f"leave it out (holdout=[{frames}]) or mask it, and compare",
        )
    yield from _signal(film, loud) or _start(film.variable, square, usual, float(beyond[0]))


def _start(variable: str, square: np.ndarray, usual: float, beyond: float) -> list[NoiseShape]:
    """An initial state that follows the noise of the first frame."""
    if not (square[0] < _QUIET * min(usual, 1.0) and beyond < -4):
        return []
    words = (
        f"the first frame of {variable} is fitted to {np.sqrt(square[0]):.2g} sigma and the others to "
        f"{np.sqrt(usual):.2g}: the initial state follows its noise"
    )
    return [NoiseShape("start", words, "give the initial state a prior (smoothing)")]


def _signal(film: ResidualFilm, loud: np.ndarray) -> list[NoiseShape]:
    """Noise that is larger where the signal is, but for frames that stand out."""
    r = film.residuals
    signal = np.abs(film.predicted[1:])
    rest = np.where(np.isin(np.arange(1, len(r)), loud).reshape(-1, *[1] * (r.ndim - 1)), np.nan, r[1:])
    known = np.isfinite(signal) & np.isfinite(rest)
    if np.count_nonzero(known) < 40:
        return []
    level = np.median(signal[known])
    upper, lower = rest[known & (signal > level)], rest[known & (signal <= level)]
    if min(upper.size, lower.size) < 20:
        return []
    large, small = (float(np.mean(x**2)) for x in (upper, lower))
    # the spread of a logarithm of a ratio of two variances of normal values
    sure = np.log(large / max(small, 1e-300)) / np.sqrt(2 / upper.size + 2 / lower.size)
    if not (large > _RATIO * small and sure > _SURE):
        return []
    words = (
        f"residuals of {film.variable} are {np.sqrt(large / max(small, 1e-300)):.2g} times larger where |{film.variable}| is "
        f"large: noise grows with the signal"
    )
    return [NoiseShape("signal", words, "state a sigma that grows with the signal (a variable of the file)")]
