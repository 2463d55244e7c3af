"""Central differences against a derivative: whether their gap is a Taylor remainder with round-off, or an error."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from jax.typing import ArrayLike

# Relative steps halve from the first. So many are always tried, more while they bring information.
_LARGEST, _BASE, _MOST = 2.0**-4, 9, 30
# the remainder of a central difference is fitted by these powers of the step
_POWERS = (0, 2, 4)
# steps that a fit takes at least: two more than it has unknowns
_FEWEST = len(_POWERS) + 2
# standard errors that a constant may be away from zero
_SIGMAS = 4.0
# an error bar this small leaves nothing to gain from more steps
_SHARP = 2e-7
# Round-off varies from point to point by less than this factor. Scatter beyond it is the map's own.
_SCATTER = 10.0
# With half the step the error of a smooth map's prediction falls by 2^6, and by 2^8 where higher powers matter, too.
_SUDDEN = 2.0**8
# The error itself falls by 2^2, and by 2^4 where the next power matters.
_FALLEN = 2.0**5
# sudden changes below this part of the derivative do not matter
_SEEN = 1e-5
# Jumps in the map add an error that grows as the step shrinks, or stays; kinks add one that is proportional to the step.
_BENT = 1.6
# An interval in which the map changes suddenly is halved so often. A jump keeps more than this part of the change.
_HALVINGS, _KEPT = 20, 1e-3


@dataclasses.dataclass(frozen=True)
class Differences:
    """The comparison of a derivative with central differences along one direction, relative to its size.

    All is relative to the size of the derivative.

    **Arguments:**

    - `steps`: relative steps, from large to small.
    - `errors`: |difference quotient - derivative| at each.
    - `constant`: the part of the error that does not vanish with the step, from a fit of c0 + c2 h^2 + c4 h^4.
    - `error_bar`: the standard error of the constant, from round-off and from how well the powers fit.
    - `round_off`: the standard error that round-off alone would leave.
    - `finding`: `right`, `wrong`, `switch`, `kink` (right, and continuous with kinks) or `unseen` (round-off hides it).
    """

    steps: tuple[float, ...]
    errors: tuple[float, ...]
    constant: float
    error_bar: float
    round_off: float
    finding: str

    @property
    def limit(self) -> float:
        """The largest constant that may come about by chance."""
        return _SIGMAS * self.error_bar


def differences(
    f: Callable[[Any], Any],
    x: ArrayLike,
    v: ArrayLike,
    gap: Callable[[Any], Any],
    size: float,
    noise: float,
    enough: float,
    inside: Callable[[np.ndarray], bool],
) -> Differences:
    """The comparison of central differences of f along v with a derivative, over as many steps as it takes to be sure.

    **Arguments:**

    - `f`: a function of a vector.
    - `x`, `v`: the point and the direction.
    - `gap`: the difference between a difference quotient and the derivative, as a vector.
    - `size`: the norm of the derivative; 0 where it is unknown, for that of the quotients.
    - `noise`: the norm of the round-off of f.
    - `enough`: a constant below this counts as zero.
    - `inside`: whether values of f lie where a Taylor series about x can hold.
    """
    steps, gaps = [], []
    for step in _LARGEST * 2.0 ** -np.arange(_MOST):
        ahead, behind = np.asarray(f(x + step * v)), np.asarray(f(x - step * v))
        # far from x the model may blow up; such a step says nothing of the derivative at x
        if not (inside(ahead) and inside(behind)):
            continue
        found = np.asarray(gap((ahead - behind) / (2 * step)))
        if np.all(np.isfinite(found)):
            steps.append(step)
            gaps.append(found)
        if len(steps) >= _BASE and _settled(_Series(steps, gaps, size, noise), enough):
            break
    if len(steps) < _FEWEST:
        return Differences(tuple(steps), (), float("inf"), 0.0, 0.0, "wrong")
    series = _Series(steps, gaps, size, noise)
    best = series.best()
    drop = series.sudden()
    errors = np.linalg.norm(series.y, axis=1)

    def jumps(inner: float, outer: float) -> bool:
        return _jumps(f, x, v, inner, outer, noise)

    return Differences(
        steps=tuple(float(h) for h in series.h),
        errors=tuple(float(e) for e in errors),
        constant=best.constant,
        error_bar=best.error_bar,
        round_off=series.floor(),
        finding=_finding(series, best, drop, enough, jumps),
    )


def _jumps(f: Callable[[Any], Any], x: ArrayLike, v: ArrayLike, inner: float, outer: float, noise: float) -> bool:
    """Whether f jumps between inner and outer steps, on either side.

    The change of a continuous map goes to zero with the interval. That of a jump stays.
    """
    slope = (np.asarray(f(x + inner * v)) - np.asarray(f(x - inner * v))) / (2 * inner)

    def surprise(a: float, b: float, at_a: np.ndarray, at_b: np.ndarray) -> float:
        return float(np.linalg.norm(at_b - at_a - (b - a) * slope))

    sides = []
    for sign in (1.0, -1.0):
        a, b = sign * inner, sign * outer
        at_a, at_b = np.asarray(f(x + a * v)), np.asarray(f(x + b * v))
        sides.append((surprise(a, b, at_a, at_b), a, b, at_a, at_b))
    first, a, b, at_a, at_b = max(sides, key=lambda side: side[0])
    last = first
    # a bend of f is shared by both halves and fades with them; a jump lies in one of them, and stays as large
    for _ in range(_HALVINGS):
        middle = (a + b) / 2
        at_middle = np.asarray(f(x + middle * v))
        lower, upper = surprise(a, middle, at_a, at_middle), surprise(middle, b, at_middle, at_b)
        last = max(lower, upper)
        if lower > upper:
            b, at_b = middle, at_middle
        else:
            a, at_a = middle, at_middle
    return last > max(_KEPT * first, 20 * noise)


@dataclasses.dataclass(frozen=True)
class _Fit:
    """A fit of the powers to the steps from number `first` on: its coefficients and its constant."""

    first: int
    coefficients: np.ndarray
    constant: float
    from_noise: float
    # root mean square of the residuals, in units of the round-off
    scatter: float

    @property
    def error_bar(self) -> float:
        return self.from_noise * max(1.0, self.scatter)


class _Series:
    """Errors y (n, M) of difference quotients at steps h (n,), and their round-off rho (n,), relative to the derivative."""

    def __init__(self, steps: list[float], gaps: list[np.ndarray], size: float, noise: float):
        self.h, y = np.asarray(steps), np.stack(gaps)
        scale = size or float(np.max(np.linalg.norm(y, axis=1))) or 1.0
        self.y = y / scale
        # two evaluations, over twice the step; never zero, for weights
        self.rho = np.maximum(noise, 1e-300) / (np.sqrt(2) * self.h * scale)

    def fit(self, first: int) -> _Fit:
        """Weighted least squares over the steps from number `first` on."""
        h, y, rho = self.h[first:], self.y[first:], self.rho[first:]
        basis = _basis(h)
        operator = _solve(basis / rho[:, None]) / rho
        coefficients = operator @ y
        scatter = np.linalg.norm((y - basis @ coefficients) / rho[:, None], axis=1)
        degrees = len(h) - len(_POWERS)
        return _Fit(
            first=first,
            coefficients=coefficients,
            constant=float(np.linalg.norm(coefficients[0])),
            from_noise=float(np.sqrt(np.sum((operator[0] * rho) ** 2))),
            scatter=float(np.sqrt(np.sum(scatter**2) / degrees)),
        )

    def fits(self) -> list[_Fit]:
        return [self.fit(k) for k in range(len(self.h) - _FEWEST + 1)]

    def best(self) -> _Fit:
        """The fit with the smallest error bar.

        With larger steps round-off matters less, with smaller ones the remainder does.
        """
        return min(self.fits(), key=lambda f: f.error_bar)

    def floor(self) -> float:
        """The error bar that round-off alone would leave."""
        return min(f.from_noise for f in self.fits())

    def sudden(self) -> int | None:
        """The number of the last step at which the error changes suddenly; None where there is none.

        Either its error was not to be expected from smaller steps while that of the next one was, or it is far above
        all smaller ones.
        """
        count = len(self.h) - _FEWEST + 1
        surprise, expected = np.zeros(count), np.zeros(count)
        for k in range(count):
            inside = slice(k + 1, None)
            row = _basis(self.h[k : k + 1]) @ (
                _solve(_basis(self.h[inside]) / self.rho[inside, None]) / self.rho[inside]
            )
            surprise[k] = np.linalg.norm(self.y[k] - (row @ self.y[inside])[0])
            expected[k] = np.sqrt(np.sum((row * self.rho[inside]) ** 2) + self.rho[k] ** 2)
        before = np.maximum(surprise[1:], 5 * expected[1:])
        unexpected = (surprise[:-1] > _SUDDEN * before) & (surprise[:-1] > _SEEN)
        error = np.linalg.norm(self.y, axis=1)
        # two, because one error may vanish by chance
        later = np.maximum(error[1:count], error[2 : count + 1])
        fallen = (error[: count - 1] > _FALLEN * later) & (error[: count - 1] > _SEEN)
        found = np.flatnonzero(unexpected | fallen)
        return int(found[-1]) if found.size else None


def _basis(h: np.ndarray) -> np.ndarray:
    return h[:, None] ** np.asarray(_POWERS)


def _solve(weighted: np.ndarray) -> np.ndarray:
    """The pseudo-inverse by columns of equal length, because powers of small steps span decades."""
    length = np.linalg.norm(weighted, axis=0)
    return np.linalg.pinv(weighted / length) / length[:, None]


def _settled(series: _Series, enough: float) -> bool:
    """Whether more steps would bring no new information."""
    best = series.best()
    if _SIGMAS * best.error_bar <= enough and best.error_bar <= _SHARP:
        return True
    # smaller steps only bring round-off; a fit to these alone shows what lies above them
    last = slice(-_FEWEST, None)
    return bool(np.all(series.rho[last] > 0.5 * np.linalg.norm(series.y[last], axis=1)))


def _finding(
    series: _Series, best: _Fit, drop: int | None, enough: float, jumps: Callable[[float, float], bool]
) -> str:
    """The finding from the errors: what they are made of."""
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


def _wrong(series: _Series, best: _Fit, enough: float) -> bool:
    """Whether the constant is not zero, by the best fit and by the one without its largest step.

    A part of the remainder that a fit cannot follow may look like a constant, but not in both fits. Only one error may
    be much smaller than the constant: of halved steps, h^2 cancels most of it at one.
    """
    fits = [best] if best.first == len(series.h) - _FEWEST else [best, series.fit(best.first + 1)]
    found = min(f.constant - _SIGMAS * f.error_bar for f in fits)
    least = np.sort(np.linalg.norm(series.y, axis=1) + _SIGMAS * series.rho)[1]
    return all(f.constant > max(enough, _SIGMAS * f.error_bar) for f in fits) and bool(least > 0.5 * found)


def _exponent(series: _Series, best: _Fit, last: int) -> float:
    """The power of the step with which errors grow, above number `last`."""
    if last == 0:
        return float("inf")
    above = slice(max(last - 3, 0), last + 1)
    smooth = series.h[:, None] ** 2 * best.coefficients[1]
    # where round-off hides the coefficient, its multiple of a large step is larger than any error
    size = np.minimum(np.linalg.norm(series.y, axis=1), np.linalg.norm(series.y - smooth, axis=1))[above]
    return float(np.polyfit(np.log(series.h[above]), np.log(np.maximum(size, 1e-300)), 1)[0])
