"""Weighted residuals of a record after a fit, frame by frame, and their derivatives in the fitted scalars."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence

import numpy as np
import scipy

from pdefit.analysis.goodness.evidence import Correlation
from pdefit.analysis.goodness.structure import ResidualFilm
from pdefit.inverse.objective.compiled import sum_of_squares
from pdefit.inverse.objective.functional import Functional

Residuals = Mapping[str, np.ndarray]
# an error of first order is twice the change with half the step; a little more is for what fitted fields take up
_LARGEST_MULTIPLE = 2.5


@dataclasses.dataclass(frozen=True)
class Remainder:
    """Weighted residuals of one record at an estimate, and the directions that the fitted scalars explain.

    Films and correlations are computed once.

    **Arguments:**

    - `functional`: the objective of the fit.
    - `residuals`: its weighted residuals at the estimate, by variable (S, I, ...).
    - `directions`: derivatives of the residuals in the fitted scalars, from `influences`; default none. Without them,
      weak structure may be hidden by the fit of the scalars.
    """

    functional: Functional
    residuals: Residuals
    directions: Sequence[Residuals] = ()

    @functools.cached_property
    def chi2(self) -> float:
        """Sum of squared residuals."""
        return sum_of_squares(dict(self.residuals))

    @functools.cached_property
    def films(self) -> list[ResidualFilm]:
        """Weighted residuals of every fitted variable frame by frame, with the predictions at the same values."""
        films, first = list[ResidualFilm](), self.functional.observations.first_frame
        seen = self.functional.observations.from_first_frame
        for name, values in self.residuals.items():
            r = by_frame(self.functional, name, values)[first:]
            if not np.any(np.isfinite(r)):
                continue
            data, sigma = (np.asarray(x[name]) for x in (seen.values, seen.sigma))
            axes = grid_axes(self.functional, name, r.ndim - 1)
            shape = r.shape if axes or r.ndim == 1 else (len(r), -1)
            changes = [by_frame(self.functional, name, d[name])[first:].reshape(shape) for d in self.directions]
            films.append(
                ResidualFilm(
                    name,
                    ("time", *axes),
                    r.reshape(shape),
                    (data + sigma * r).reshape(shape),
                    np.stack(changes) if changes else np.zeros((0, *r.reshape(shape).shape)),
                )
            )
        return films

    @functools.cached_property
    def whiteness(self) -> dict[str, dict[str, Correlation]]:
        """Correlations of neighbouring residuals of each observed variable, along `time` and along every axis of a grid.

            value = sum a b / sqrt(sum a^2 sum b^2),    spread = sqrt(sum a^2 b^2 / (sum a^2 sum b^2))

        The sums run over neighbours a, b in one window that were both observed and fitted. No mean is subtracted, since
        an offset is structure too. The spread assumes independent residuals, but not of equal size. Neighbours in time
        are successive frames, however far apart. Axes with labels (bodies) have no neighbours.

        Fitting p controls to n values lowers a correlation by up to p / n. Windows that start from noisy data raise it.

        Source of the spread: H. White, Econometrica 48:817 (1980), doi:10.2307/1912934.
        """
        correlations: dict[str, dict[str, Correlation]] = {}
        for name, values in self.residuals.items():
            fitted = np.asarray(self.functional.fitted(name))
            axes = {
                "time": 1,
                **{dim: k + 2 for k, dim in enumerate(grid_axes(self.functional, name, fitted.ndim - 2))},
            }
            along = {dim: _correlation(values, fitted, axis) for dim, axis in axes.items()}
            correlations[name] = {dim: c for dim, c in along.items() if c is not None}
        return correlations

    @functools.cached_property
    def taken(self) -> np.ndarray:
        """Orthonormal basis (n, k) of the directions of the fitted scalars."""
        if not self.directions:
            return np.zeros((self.flat(self.residuals).size, 0))
        return np.linalg.qr(np.stack([self.flat(d) for d in self.directions], 1))[0]

    def flat(self, values: Residuals) -> np.ndarray:
        """Values by variable as one vector (n,), in the order of the residuals."""
        return np.concatenate([np.ravel(values[name]) for name in self.residuals])

    def beside(self, x: np.ndarray) -> np.ndarray:
        """A vector (n,), or columns (n, m), projected orthogonally to the directions of the fitted scalars."""
        return x - self.taken @ (self.taken.T @ x)

    def replaced(self, flat: np.ndarray) -> "Remainder":
        """A copy with other residuals, given as one vector (n,)."""
        ends = np.cumsum([np.size(r) for r in self.residuals.values()])
        parts = zip(self.residuals.items(), np.split(flat, ends[:-1]), strict=True)
        return dataclasses.replace(self, residuals={name: x.reshape(np.shape(r)) for (name, r), x in parts})

    def without_discretisation(self, finer: Sequence[Residuals]) -> "Remainder":
        """A copy without discretisation errors, orthogonal to the directions of the fitted scalars.

        If step or cell is halved, an error of order q falls by a factor 2^-q. So the error is -1 to -2 times the
        change; larger multiples are not discretisation errors.

        **Arguments:** `finer`: changes of the residuals with finer steps, and with finer cells.
        """
        changes = self.beside(np.stack([self.flat(d) for d in finer], 1))
        if not np.all(np.isfinite(changes)):
            return self
        r = self.flat(self.residuals)
        return self.replaced(r - changes @ scipy.optimize.lsq_linear(changes, r, (-_LARGEST_MULTIPLE, 0.0)).x)


def by_frame(functional: Functional, name: str, values: np.ndarray) -> np.ndarray:
    """Values of a variable (S, I, ...) at the times of the record, (T, ...); NaN for values that were not fitted."""
    layout = functional.layout
    fitted = np.asarray(functional.fitted(name))[layout.counts]
    out = np.full((functional.observations.ts.size, *values.shape[2:]), np.nan)
    out[layout.index[layout.counts]] = np.where(fitted, values[layout.counts], np.nan)
    return out


def grid_axes(functional: Functional, name: str, ndim: int) -> tuple[str, ...]:
    """Names of the axes along which a field has spatial neighbours; empty for lists and fields without a grid."""
    system = functional.problem.system
    where = system.coords().get(name)
    if where is None or len(where.dims) != ndim or any(where.coords[d].dtype.kind not in "fiu" for d in where.dims):
        return ()
    return where.dims


def _correlation(values: np.ndarray, fitted: np.ndarray, axis: int) -> Correlation | None:
    """Correlation between neighbours along an axis; None without neighbours, or if all residuals are zero."""
    values, fitted = np.moveaxis(values, axis, 0), np.moveaxis(fitted, axis, 0)
    both = fitted[:-1] & fitted[1:]
    a, b = values[:-1][both], values[1:][both]
    size = np.sqrt(np.sum(a**2) * np.sum(b**2))
    if a.size < 2 or not size > 0:
        return None
    return Correlation(float(np.sum(a * b) / size), float(np.sqrt(np.sum((a * b) ** 2)) / size), int(a.size))
