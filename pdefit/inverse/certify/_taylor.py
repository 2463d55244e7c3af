"""Central differences against a derivative: is their gap a Taylor remainder with round-off, or an error?"""

import dataclasses
import functools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from jax.typing import ArrayLike

from pdefit.inverse.certify._remainder import FEWEST, Fit, Series

# Four small steps from the first on may decide where they fit. Two more are tried beside them.
_SMALL, _FOUR, _MORE = 2.0**-10, 4, 2.0**2
# Elsewhere steps halve from the largest. So many are always tried, more while they bring information.
_LARGEST, _BASE, _MOST = 2.0**-4, 9, 30
# standard errors that a constant may be away from zero
_SIGMAS = 4.0
# an error bar this small leaves nothing to gain from more steps
_SHARP = 2e-7
# Round-off varies from point to point by less than this factor. Scatter beyond it is the map's own.
_SCATTER = 10.0
# Jumps in the map add an error that grows as the step shrinks, or stays; kinks add one that is proportional to the step.
_BENT = 1.6
# An interval in which the map changes suddenly is halved so often. A jump keeps more than this part of the change.
_HALVINGS, _KEPT = 20, 1e-3


@dataclasses.dataclass(frozen=True)
class Differences:
    """Comparison of a derivative with central differences along one direction.

    All values are relative to the size of the derivative, unless stated.

    **Arguments:**

    - `steps`: relative steps, from large to small.
    - `errors`: |difference quotient - derivative| at each step.
    - `constant`: the part of the error that does not vanish with the step, from a fit of c0 + c2 h^2 + c4 h^4.
    - `error_bar`: the standard error of the constant, from round-off and the misfit of the powers.
    - `round_off`: the standard error left by round-off alone.
    - `noise`: the norm of the round-off of the function, absolute.
    - `finding`: `right`, `wrong`, `switch`, `kink` (right, and continuous with kinks) or `unseen` (round-off hides it).
    """

    steps: tuple[float, ...]
    errors: tuple[float, ...]
    constant: float
    error_bar: float
    round_off: float
    noise: float
    finding: str

    @property
    def limit(self) -> float:
        """Largest constant that may arise by chance."""
        return _SIGMAS * self.error_bar


@dataclasses.dataclass(frozen=True)
class Line:
    """A function f of a vector along the line x + h v.

    **Arguments:**

    - `f`: the function.
    - `x`, `v`: the point and the direction.
    - `noise`: measures the norm of the round-off of f, if few steps cannot determine it.
    - `inside`: whether values of f lie in the range of a Taylor series about x.
    - `each`: f at several points, which may be evaluated together; by default one after the other.
    """

    f: Callable[[Any], Any]
    x: ArrayLike
    v: ArrayLike
    noise: Callable[[], float]
    inside: Callable[[np.ndarray], bool]
    each: Callable[[list[Any]], Iterable[Any]] | None = None

    def __call__(self, step: float) -> np.ndarray:
        return np.asarray(self.f(self.x + step * self.v))

    def quotient(self, step: float) -> np.ndarray | None:
        """Central difference quotient; None if f is not `inside` at both ends."""
        points = [self.x + step * self.v, self.x - step * self.v]
        ahead, behind = map(np.asarray, self.each(points) if self.each else map(self.f, points))
        # far from x the model may blow up; such a step says nothing of the derivative at x
        return (ahead - behind) / (2 * step) if self.inside(ahead) and self.inside(behind) else None


def differences(line: Line, gap: Callable[[Any], Any], size: float, enough: float, few: bool = False) -> Differences:
    """Comparison of central differences along a line with a derivative, over as many steps as needed.

    A few small steps detect dense jumps, as with many values and steps. A single jump may lie beyond them.

    **Arguments:**

    - `line`: the function along the line.
    - `gap`: the difference between a difference quotient and the derivative, as a vector.
    - `size`: the norm of the derivative; 0 if unknown, for the norm of the quotients.
    - `enough`: a constant below this counts as zero.
    - `few`: whether four small steps decide if they fit; default False.
    """

    @functools.cache
    def at(step: float) -> np.ndarray | None:
        quotient = line.quotient(step)
        found = None if quotient is None else np.asarray(gap(quotient))
        return found if found is not None and np.all(np.isfinite(found)) else None

    return (few and _by_few(at, size, enough)) or _by_many(line, at, size, enough)


def _by_few(at: Callable[[float], np.ndarray | None], size: float, enough: float) -> Differences | None:
    """Comparison by four small steps, whose scatter about the fit is the round-off of f; None if they do not fit."""
    first = _SMALL
    for _ in range(2):
        steps = [first * 2.0**-k for k in range(_FOUR)]
        gaps = [y for y in map(at, steps) if y is not None]
        if len(gaps) < _FOUR:
            return None
        series = Series(steps, gaps, size, 1.0)
        fit, errors = series.fit(0), tuple(float(e) for e in np.linalg.norm(series.y, axis=1))
        error_bar = fit.from_noise * fit.scatter
        if fit.constant <= enough and _SIGMAS * error_bar <= enough and error_bar <= _SHARP:
            return Differences(tuple(steps), errors, fit.constant, error_bar, error_bar, fit.scatter, "right")
        # errors that still fall are a remainder, of which smaller steps have less; others are round-off
        first *= 1 / _MORE if errors[-1] < errors[-2] / 2 else _MORE
    return None


def _by_many(line: Line, at: Callable[[float], np.ndarray | None], size: float, enough: float) -> Differences:
    """Comparison by many steps of all sizes, whose errors reveal their origin."""
    noise, steps, gaps = line.noise(), [], []
    for step in _LARGEST * 2.0 ** -np.arange(_MOST):
        found = at(float(step))
        if found is not None:
            steps.append(step)
            gaps.append(found)
        if len(steps) >= _BASE and _settled(Series(steps, gaps, size, noise), enough):
            break
    if len(steps) < FEWEST:
        return Differences(tuple(steps), (), float("inf"), 0.0, 0.0, noise, "wrong")
    series = Series(steps, gaps, size, noise)
    best = series.best()
    drop = series.sudden()
    errors = np.linalg.norm(series.y, axis=1)
    return Differences(
        steps=tuple(float(h) for h in series.h),
        errors=tuple(float(e) for e in errors),
        constant=best.constant,
        error_bar=best.error_bar,
        round_off=series.floor(),
        noise=noise,
        finding=_finding(series, best, drop, enough, functools.partial(_jumps, line, noise)),
    )


def _jumps(line: Line, noise: float, inner: float, outer: float) -> bool:
    """True if f jumps between inner and outer steps, on either side.

    The change of a continuous map tends to zero with the interval. A jump's does not.
    """
    slope = (line(inner) - line(-inner)) / (2 * inner)

    def surprise(a: float, b: float, at_a: np.ndarray, at_b: np.ndarray) -> float:
        return float(np.linalg.norm(at_b - at_a - (b - a) * slope))

    sides = []
    for sign in (1.0, -1.0):
        a, b = sign * inner, sign * outer
        at_a, at_b = line(a), line(b)
        sides.append((surprise(a, b, at_a, at_b), a, b, at_a, at_b))
    first, a, b, at_a, at_b = max(sides, key=lambda side: side[0])
    last = first
    # a bend of f is shared by both halves and fades with them; a jump lies in one of them, and stays as large
    for _ in range(_HALVINGS):
        middle = (a + b) / 2
        at_middle = line(middle)
        lower, upper = surprise(a, middle, at_a, at_middle), surprise(middle, b, at_middle, at_b)
        last = max(lower, upper)
        if lower > upper:
            b, at_b = middle, at_middle
        else:
            a, at_a = middle, at_middle
    return last > max(_KEPT * first, 20 * noise)


def _settled(series: Series, enough: float) -> bool:
    """True if more steps would add no information."""
    best = series.best()
    if _SIGMAS * best.error_bar <= enough and best.error_bar <= _SHARP:
        return True
    # smaller steps only bring round-off; a fit to these alone shows what lies above them
    last = slice(-FEWEST, None)
    return bool(np.all(series.rho[last] > 0.5 * np.linalg.norm(series.y[last], axis=1)))


def _finding(series: Series, best: Fit, drop: int | None, enough: float, jumps: Callable[[float, float], bool]) -> str:
    """The finding, from the composition of the errors."""
    # scatter that round-off cannot explain
    irregular = best.scatter > _SCATTER and _SIGMAS * best.error_bar > enough
    wrong = _wrong(series, best, enough)
    if drop is None and not irregular:
        return "wrong" if wrong else "right"
    last = len(series.h) - 2 if drop is None else drop
    if jumps(float(series.h[last + 1]), float(series.h[last])):
        return "switch"
    if wrong:
        return "wrong"
    if _exponent(series, best, last) < _BENT:
        return "kink"
    return "unseen" if irregular else "right"


def _wrong(series: Series, best: Fit, enough: float) -> bool:
    """True if the constant is not zero, both in the best fit and without its largest step.

    A part of the remainder that a fit cannot represent may look like a constant, but not in both fits. Only one error
    may be much smaller than the constant: among halved steps, h^2 cancels most of it at one.
    """
    fits = [best] if best.first == len(series.h) - FEWEST else [best, series.fit(best.first + 1)]
    found = min(f.constant - _SIGMAS * f.error_bar for f in fits)
    least = np.sort(np.linalg.norm(series.y, axis=1) + _SIGMAS * series.rho)[1]
    return all(f.constant > max(enough, _SIGMAS * f.error_bar) for f in fits) and bool(least > 0.5 * found)


def _exponent(series: Series, best: Fit, last: int) -> float:
    """Power of the step with which errors grow, above index `last`."""
    if last == 0:
        return float("inf")
    above = slice(max(last - 3, 0), last + 1)
    smooth = series.h[:, None] ** 2 * best.coefficients[1]
    # where round-off hides the coefficient, its multiple of a large step is larger than any error
    size = np.minimum(np.linalg.norm(series.y, axis=1), np.linalg.norm(series.y - smooth, axis=1))[above]
    return float(np.polyfit(np.log(series.h[above]), np.log(np.maximum(size, 1e-300)), 1)[0])
