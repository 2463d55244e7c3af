"""A Taylor remainder with round-off, fitted to the errors of difference quotients."""

import dataclasses

import numpy as np

# the remainder of a central difference is fitted by these powers of the step
_POWERS = (0, 2, 4)
# steps that a fit takes at least: two more than it has unknowns
FEWEST = len(_POWERS) + 2
# With half the step the error of a smooth map's prediction falls by 2^6, and by 2^8 where higher powers matter, too.
_SUDDEN = 2.0**8
# The error itself falls by 2^2, and by 2^4 where the next power matters.
_FALLEN = 2.0**5
# sudden changes below this part of the derivative do not matter
_SEEN = 1e-5


@dataclasses.dataclass(frozen=True)
class Fit:
    """A fit of the powers to the steps from index `first` on: its coefficients and its constant."""

    first: int
    coefficients: np.ndarray
    constant: float
    from_noise: float
    # root mean square of the residuals, in units of the round-off
    scatter: float

    @property
    def error_bar(self) -> float:
        return self.from_noise * max(1.0, self.scatter)


class Series:
    """Errors y (n, M) of difference quotients at steps h (n,), and their round-off rho (n,), relative to the derivative."""

    def __init__(self, steps: list[float], gaps: list[np.ndarray], size: float, noise: float):
        self.h, y = np.asarray(steps), np.stack(gaps)
        scale = size or float(np.max(np.linalg.norm(y, axis=1))) or 1.0
        self.y = y / scale
        # two evaluations, over twice the step; never zero, for weights
        self.rho = np.maximum(noise, 1e-300) / (np.sqrt(2) * self.h * scale)

    def fit(self, first: int) -> Fit:
        """Weighted least squares over the steps from index `first` on."""
        h, y, rho = self.h[first:], self.y[first:], self.rho[first:]
        basis = _basis(h)
        operator = _solve(basis / rho[:, None]) / rho
        coefficients = operator @ y
        scatter = np.linalg.norm((y - basis @ coefficients) / rho[:, None], axis=1)
        degrees = len(h) - len(_POWERS)
        return Fit(
            first=first,
            coefficients=coefficients,
            constant=float(np.linalg.norm(coefficients[0])),
            from_noise=float(np.sqrt(np.sum((operator[0] * rho) ** 2))),
            scatter=float(np.sqrt(np.sum(scatter**2) / degrees)),
        )

    def fits(self) -> list[Fit]:
        return [self.fit(k) for k in range(len(self.h) - FEWEST + 1)]

    def best(self) -> Fit:
        """The fit with the smallest error bar.

        At larger steps round-off matters less, at smaller steps the remainder does.
        """
        return min(self.fits(), key=lambda f: f.error_bar)

    def floor(self) -> float:
        """Error bar left by round-off alone."""
        return min(f.from_noise for f in self.fits())

    def sudden(self) -> int | None:
        """Index of the last step at which the error changes suddenly; None if there is none.

        Either smaller steps predict the next error but not this one, or this error is far above all errors at smaller
        steps.
        """
        count = len(self.h) - FEWEST + 1
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
    """Pseudo-inverse with columns scaled to equal length, because powers of small steps span decades."""
    length = np.linalg.norm(weighted, axis=0)
    return np.linalg.pinv(weighted / length) / length[:, None]
