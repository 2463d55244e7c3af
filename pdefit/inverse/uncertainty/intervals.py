"""Uncertainty of an estimate: covariance, intervals, and controls that the data do not determine."""

import dataclasses

import numpy as np
import scipy
from jaxtyping import Array, Float

from pdefit._util.errors import PdefitError
from pdefit._util.html import interval, table
from pdefit.inverse.controls.theta import Controls
from pdefit.inverse.controls.transforms import AbstractTransform, Log, Log10, Softplus
from pdefit.inverse.linear.determined_inverse import column_norms, determined_inverse, undetermined
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.objective.compiled import Equations
from pdefit.inverse.uncertainty.control_values import at_points, moved
from pdefit.inverse.uncertainty.covariance import covariance_of, values_per_element
from pdefit.inverse.uncertainty.marginal_intervals import marginal_covariance

# beyond this many controls, node states among them, a dense covariance takes minutes
_MANY = 2000
# rows of a table in a notebook, at most
_SHOWN = 40
# the change of a search variable by a factor e, and half an interval in such changes that leaves the size of a number open
FACTOR, OPEN = {Log: 1.0, Log10: np.log10(np.e), Softplus: 1.0}, np.log(1e3)


@dataclasses.dataclass(frozen=True)
class Intervals:
    """Confidence intervals of every element of theta and of its physical value.

    **Arguments:**

    - `method`: the origin of the covariance, as text.
    - `covariance`: the covariance in search space, (p, p). If fields are unknown besides k scalars, the covariance of
      the scalars, (k, k). For a control with smoothing it is the covariance of its values at points.
    - `error`, `reach`: standard error and half width of the interval in search space, (p,). NaN for elements at a bound,
      and for fields if only scalars have a covariance; infinite if undetermined.
    - `estimate`, `low`, `high`: physical values, (p,). The interval is symmetric in search space.
    - `degrees`: the degrees of freedom of Student's t.
    - `inverse`: the rows of the inverse Gauss-Newton matrix (J_r^T J_r)^-1 that belong to the covariance, (k, p), with J_r
      the Jacobian of the residuals. For a control with smoothing they are of its values at points.
    - `gradient`: J_r^T r at the estimate, (p,).
    - `unidentifiable`: the names of elements that the data do not determine.
    - `names`, `units`: the name of every element of theta, and the unit of its physical value.
    - `controls`: the controls of theta.
    - `free`: mask of elements at no bound, (p,). The uncertainty is conditional on the elements at a bound.
    - `equations`: the normal equations at the estimate; None if fields are unknown besides scalars.
    """

    method: str
    covariance: np.ndarray
    error: np.ndarray
    reach: np.ndarray
    estimate: np.ndarray
    low: np.ndarray
    high: np.ndarray
    degrees: int
    inverse: np.ndarray
    gradient: np.ndarray
    unidentifiable: tuple[str, ...]
    names: tuple[str, ...]
    units: tuple[str, ...]
    controls: Controls
    free: np.ndarray
    equations: Equations | None = dataclasses.field(default=None, repr=False)

    def __str__(self) -> str:
        """Estimates with their intervals, one line each."""
        across, more = max(map(len, self.names)), len(self.names) - _SHOWN
        lines = [f"{name:<{across}}  {x:<10.5g} {span:<22} {unit}".rstrip() for name, unit, x, span in self._rows()]
        return "\n".join([*lines, *([f"and {more} more"] if more > 0 else [])])

    def _repr_html_(self) -> str:
        """Estimates with their intervals, for notebooks."""
        many = self.names[_SHOWN:]
        lines = [self.method, *([f"{len(many)} more elements"] if many else [])]
        lines += [f"not identifiable: {', '.join(self.unidentifiable[:_SHOWN])}"] if self.unidentifiable else []
        return table(("parameter", "unit", "estimate", "interval"), self._rows(), lines)

    def along(self, slope: Float[np.ndarray, " p"], transform: AbstractTransform) -> tuple[float, float]:
        """Standard error of a quantity, and half width of its 95 % interval, on its scale.

        They are infinite if the data do not determine it, and NaN if it depends on a number without an interval.

        **Arguments:**

        - `slope`: its derivatives in the values of theta in search space, (p,).
        - `transform`: its scale.
        """
        used, k = slope != 0, len(self.covariance)
        if np.isnan(self.error[used]).any():
            return np.nan, np.nan
        if np.isinf(self.error[used]).any() and not self._determines(slope):
            return np.inf, np.inf
        # a stated sigma may widen each interval by its own factor
        stated, usual = np.isfinite(self.reach) & (self.error > 0), scipy.special.stdtrit(self.degrees, 0.975)
        ratio = np.divide(self.reach, self.error, out=np.full_like(slope, usual), where=stated)
        error, reach = (float(np.sqrt(max(x @ self.covariance @ x, 0.0))) for x in (slope[:k], (slope * ratio)[:k]))
        return (np.inf, np.inf) if reach > OPEN * FACTOR.get(type(transform), np.inf) else (error, reach)

    def _determines(self, slope: Float[np.ndarray, " p"]) -> bool:
        """True if the data determine a combination of numbers, which they need not determine one by one."""
        if self.equations is None:
            return False
        matrix = np.asarray(self.equations[1][2])
        scaled = slope @ values_per_element(self.controls) / column_norms(matrix)
        null = determined_inverse(matrix, self.free).null
        return not undetermined((scaled / np.linalg.norm(scaled))[None] @ null)[0]

    def _rows(self) -> list[tuple[str, str, float, str]]:
        """Name, unit, estimate and interval of the first elements."""
        ends = zip(self.free, self.error, self.low, self.high, strict=True)
        spans = [
            "not determined" if np.isinf(error) else interval(*two) if free else "at its bound"
            for free, error, *two in ends
        ]
        return list(zip(self.names, self.units, self.estimate.tolist(), spans, strict=True))[:_SHOWN]

    def z_score(self, theta: np.ndarray, truth: np.ndarray) -> np.ndarray:
        """Distance (theta - truth) in standard errors, (p,); NaN if the data determine nothing.

        **Arguments:**

        - `theta`, `truth`: estimate and truth in search space, (p,).
        """
        gap = self.at_points(theta - truth)
        known = np.where(
            self.error > 0, gap / np.where(self.error > 0, self.error, 1.0), np.where(gap == 0, 0.0, np.inf)
        )
        return np.where(np.isfinite(self.error), known, np.nan)

    def at_points(self, change: np.ndarray) -> np.ndarray:
        """A change of theta (p,) as a change of values at points, for controls with smoothing."""
        return at_points(self.controls, np.asarray(change)[None])[0]


def intervals(
    functional: AbstractObjective,
    theta: Float[Array, " p"],
    level: float = 0.95,
    *,
    sigma_stated: bool = False,
    equations: Equations | None = None,
) -> Intervals:
    """Confidence intervals at a least-squares estimate.

    If there are more segments than shared controls, the covariance is the sandwich A^-1 B A^-1 with A = J_r^T J_r and
    B the sum over segments of their score's outer product. A score is the gradient J_r^T r of one segment. So errors may
    be correlated within a segment and of unknown size. The scores are jackknifed (CR3), because few segments would
    otherwise give too short intervals. The quantile is taken from Student's t with S - 1 degrees of freedom for S
    segments. Free node states are marginalised over, and the gap at the end of a segment belongs to that segment.

    Otherwise the covariance is A^-1 times the residual variance, which assumes independent residuals. Priors and
    regularizers count with the variance they state. A control that the data do not determine has an infinite error, and
    does not enter the errors of the remaining controls. A control at its bound has no interval. The remaining intervals
    are conditional on its value there.

    **Arguments:**

    - `functional`: the objective.
    - `theta`: its minimum, (p,).
    - `level`: the confidence level; default 0.95.
    - `sigma_stated`: whether the standard deviations of the observations were known before the fit; default False.
      Residuals may then widen an interval, but never make it shorter than the normal interval of A^-1. The longer of the
      two is taken control by control, because a sandwich of few segments is too noisy for a comparison direction by
      direction.
    - `equations`: the normal equations at theta (`Fit.equations`); by default they are evaluated.

    Source: A. C. Cameron, D. L. Miller, J. Hum. Resour. 50:317 (2015), doi:10.3368/jhr.50.2.317.
    """
    controls = functional.controls
    if theta.size <= _MANY:
        found = covariance_of(functional, theta, equations)
    elif controls.tabulated.size and not controls.nodes:
        found = marginal_covariance(functional, theta)
    else:
        raise PdefitError(
            f"Intervals of {theta.size} controls are refused above {_MANY}; use fewer or longer segments, or fewer controls"
        )
    k, method = len(found.matrix), found.method
    points = values_per_element(controls if k == theta.size else controls.tabulated)
    covariance, inverse = points @ found.matrix @ points.T, points @ found.inverse
    known = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    half = scipy.special.stdtrit(found.degrees, (1 + level) / 2) * known
    if sigma_stated:
        stated = np.sqrt(np.maximum(np.diag(inverse[:, :k] @ points.T), 0.0))
        least = scipy.special.ndtri((1 + level) / 2) * stated
        method += ", at least what the stated sigma gives" if np.any(least > half) else ""
        half, wider = np.maximum(half, least), np.maximum(known, stated)
        covariance = _widened(covariance, known, wider)
        known = wider
    mixed = found.undetermined | (half > OPEN * changes_by_e(controls)[:k])
    known[mixed] = half[mixed] = np.inf
    free = controls.bounds.free(theta)
    known[~free[:k]] = half[~free[:k]] = np.nan
    if not free.all():
        method += f", {np.count_nonzero(~free)} of {free.size} unknowns held at their bounds"
    error, reach = np.full(theta.size, np.nan), np.full(theta.size, np.nan)
    error[:k], reach[:k] = known, half
    estimate, low, high = (np.asarray(moved(controls, theta, by)) for by in (np.zeros_like(reach), -reach, reach))
    return Intervals(
        method=method,
        covariance=covariance,
        error=error,
        reach=reach,
        estimate=estimate,
        low=low,
        high=high,
        degrees=found.degrees,
        inverse=inverse,
        gradient=found.gradient,
        unidentifiable=_vague(functional, error),
        names=tuple(controls.names()),
        units=controls.units(),
        controls=controls,
        free=free,
        equations=found.equations,
    )


def _widened(covariance: np.ndarray, errors: np.ndarray, wider: np.ndarray) -> np.ndarray:
    """Covariance with new standard errors and the same correlations; an error of zero stays zero."""
    factor = np.where(errors > 0, wider / np.where(errors > 0, errors, 1.0), 0.0)
    alone = np.where(errors > 0, 0.0, wider**2)
    return covariance * np.outer(factor, factor) + np.diag(alone)


def _vague(functional: AbstractObjective, error: np.ndarray) -> tuple[str, ...]:
    """Names of elements that the data do not determine, and of positive ones uncertain by more than a factor e."""
    unknown = np.isinf(error) | (error > changes_by_e(functional.controls))
    return tuple(name for name, u in zip(functional.controls.names(), unknown, strict=True) if u)


def changes_by_e(controls: Controls) -> np.ndarray:
    """Change of each search variable for a factor e of its positive value, (p,); infinite for either sign."""
    return np.concatenate([np.full(c.size, FACTOR.get(type(c.transform), np.inf) / c.scale) for c in controls.items])
