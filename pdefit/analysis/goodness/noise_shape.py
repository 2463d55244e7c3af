"""Departures of noise from its statement: its size, correlation, outlier frames, growth with the signal, and drift."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from pdefit._util.errors import with_space
from pdefit.analysis.goodness.structure import LARGE, SURE, ResidualFilm, Structure, deviations, structures

# standard deviations beyond which a difference of two variances is not taken for chance
_SURE = 6.0
# ratio of variances that is worth a sentence
_RATIO = 1.5
# mean square of the residuals of a frame, as a part of the others', above and below which the frame stands out
_LOUD, _QUIET = 2.5, 0.5
# loud frames that are no further apart than the record over this, or are neighbours, tell of one event
_NEAR = 30
# excess of the test of offsets, as a part of that of the surest test, and the fewest values that share an offset
_AMONG, _SHARED = 0.7, 4
# projections in turn onto what offsets and numbers explain
_TURNS = 30

# what to do about a known initial state that the first frame contradicts
_FREE = "free the initial state, or state the time at which it held (times.start)"


class NoiseShape(NamedTuple):
    """A departure of the noise from independent noise of the stated size.

    **Arguments:**

    - `kind`: `frame`, `event` (adjacent frames that the model misses), `stiff` (a first frame that is not followed),
      `start`, `signal` or `offset`.
    - `words`: the finding, a clause.
    - `remedy`: the next step.
    """

    kind: str
    words: str
    remedy: str


class Setting(NamedTuple):
    """Facts about a fit that decide the meaning of loud frames.

    **Arguments:**

    - `times`: the times of the frames, (T,), in `unit`.
    - `unit`: the unit of time.
    - `courses`: the names of unknown functions of time.
    - `start_is_free`: whether the fit has an unknown initial state.
    - `sigma_known`: whether residuals are in units of a known noise.
    """

    times: np.ndarray
    unit: str = ""
    courses: tuple[str, ...] = ()
    start_is_free: bool = False
    sigma_known: bool = True


def noise_shapes(film: ResidualFilm, setting: Setting) -> Iterator[NoiseShape]:
    """Departures of one variable's noise from its statement, by the sizes of its residuals.

    One loud frame is an outlier of the instrument. Loud frames near each other are an event in the system that the
    model misses. So is a single loud frame if the fit has an unknown function of time, which bends only at its knots.
    """
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
    ends = np.split(loud, np.flatnonzero(np.diff(loud) > max(1, len(r) // _NEAR)) + 1)
    parts = [np.arange(g[0], g[-1] + 1) for g in ends if g.size]
    grown = _signal(film, np.concatenate([loud, *parts]))
    if 0 in loud:
        times = f"{np.sqrt(square[0] / usual):.2g} times those of the others"
        words = f"residuals of {film.variable} in the first frame are {times}: the initial state does not follow it"
        loosen = (
            "loosen the prior of the initial state (smaller length or larger amplitude), or free what of it is held"
        )
        yield NoiseShape("stiff", words, loosen if setting.start_is_free else _FREE)
    elif 0 < loud.size <= max(1, len(r) // 10):
        # loud frames beside each other tell of nothing else if noise grows with the signal, or if no frame is fitted
        unfitted = setting.sigma_known and usual > LARGE
        parts = [g for g in parts if len(g) == 1] if grown or unfitted else parts
        yield from _loud(film.variable, parts, np.sqrt(square / usual), setting)
    yield from grown or _start(film.variable, square, usual, float(beyond[0]))


def _loud(variable: str, parts: list[np.ndarray], size: np.ndarray, setting: Setting) -> Iterator[NoiseShape]:
    """Findings about outlying parts of the record; `size` (T,) is in units of the usual residual."""
    events = [g for g in parts if len(g) > 1 or setting.courses]
    if events:
        near = ", ".join(f"{(setting.times[g[0]] + setting.times[g[-1]]) / 2:.4g}" for g in events[:5])
        near, times = f"near t = {near}{with_space(setting.unit)}", size[np.concatenate(events)].max()
        words = f"residuals of {variable} {near} are {times:.2g} times those at other times"
        more = f"give {' and '.join(setting.courses)} more knots {near}, and compare"
        event = f"look for an event in the system {near} (an input that jumps), put it into the model, and compare"
        yield NoiseShape("event", words, more if setting.courses else event)
    if single := [int(g[0]) for g in parts if len(g) == 1 and not setting.courses]:
        frames, times = ", ".join(map(str, single[:5])), size[single].max()
        words = f"residuals of {variable} in frame {frames} (the first is 0) are {times:.2g} times those of the others"
        yield NoiseShape("frame", words, f"leave it out (holdout=[{frames}]) or mask it, and compare")


def _start(variable: str, square: np.ndarray, usual: float, beyond: float) -> list[NoiseShape]:
    """Finding of an initial state that follows the noise of the first frame."""
    if not (square[0] < _QUIET * min(usual, 1.0) and beyond < -4):
        return []
    sizes = f"{np.sqrt(square[0]):.2g} sigma and the others to {np.sqrt(usual):.2g}"
    words = f"the first frame of {variable} is fitted to {sizes}: the initial state follows its noise"
    return [NoiseShape("start", words, "give the initial state a prior (smoothing)")]


def _signal(film: ResidualFilm, loud: np.ndarray) -> list[NoiseShape]:
    """Finding of noise that grows with the signal, apart from outlier frames."""
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
    times = f"{np.sqrt(large / max(small, 1e-300)):.2g} times larger where |{film.variable}| is large"
    words = f"residuals of {film.variable} are {times}: noise grows with the signal"
    return [NoiseShape("signal", words, "state a sigma that grows with the signal (a variable of the file)")]


def _level(film: ResidualFilm, axes: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Means over axes, and the residuals without them, both orthogonal to the directions of fitted scalars."""
    fitted = np.isfinite(film.residuals)
    count = np.maximum(np.sum(fitted, axis=axes, keepdims=True), 1)
    columns = np.stack([np.zeros(film.residuals.size), *map(np.ravel, np.nan_to_num(film.directions))], 1)
    basis, rest, level = np.linalg.qr(columns)[0], film.weights, np.zeros(count.shape)
    # in turn, until nothing moves
    for _ in range(_TURNS):
        more = np.sum(rest, axis=axes, keepdims=True) / count
        level, rest = level + more, np.where(fitted, rest - more, 0.0)
        rest = np.where(fitted, rest - (basis @ (basis.T @ np.ravel(rest))).reshape(rest.shape), 0.0)
    return level, np.where(fitted, rest, np.nan)


def offsets(film: ResidualFilm, found: Sequence[Structure]) -> Iterator[NoiseShape]:
    """Findings of offsets of frames, or of places, that explain all structure."""
    surest = max((s.excess for s in found), default=0.0)
    if len(film.dims) < 2 or surest < SURE:
        return
    in_space = tuple(range(1, film.residuals.ndim))
    drift = (
        "a drift of the baseline, or a source that is the same everywhere",
        "free an offset of the instrument, or add a source",
    )
    pattern = (
        "a pattern of the instrument, or a source that stands still",
        "subtract a dark frame, or fit a field of sources",
    )
    for each, where, axes, (cause, remedy) in (
        ("frame", "averaged over every frame", in_space, drift),
        ("place", "averaged over time at every place", (0,), pattern),
    ):
        # so many offsets take up whatever there is: their own test must be among the surest
        among = max((s.excess for s in found if s.where == where), default=0.0) >= _AMONG * surest
        if not among or np.max(np.sum(np.isfinite(film.residuals), axis=axes)) < _SHARED:
            continue
        level, rest = _level(film, axes)
        if all(s.excess < SURE for s in structures(film.without(film.residuals - rest))):
            ends = f"{np.min(-level):+.2g} to {np.max(-level):+.2g}"
            words = (
                f"one offset for each {each} of {film.variable}, from {ends} sigma, takes all structure away: {cause}"
            )
            yield NoiseShape("offset", words, f"{remedy}, and compare")
            return
