"""What the data can tell: covariance, intervals and controls without influence."""

import dataclasses

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy import stats

from pdefit.errors import PdefitError
from pdefit.inverse.functional import Functional

# a column of the Jacobian below this fraction of the largest is zero to round-off
_ZERO = 1e-13
# a standard error of a log control, or relative to the control itself, above which it is called not identifiable
_VAGUE = 1.0


@dataclasses.dataclass(frozen=True)
class Intervals:
    """Uncertainty of every element of theta and of the physical values.

    `method` says how the covariance was made; `estimate`, `low`, `high` (p,) are physical, the interval being symmetric in
    search space; `error` (p,) the standard error of theta; `degrees` of freedom of Student's t; `vague` names what the data
    cannot tell.
    """

    method: str
    covariance: np.ndarray
    error: np.ndarray
    estimate: np.ndarray
    low: np.ndarray
    high: np.ndarray
    degrees: int
    vague: tuple[str, ...]

    def z_score(self, theta: np.ndarray, truth: np.ndarray) -> np.ndarray:
        """(theta - truth) in standard errors, both in search space."""
        return (theta - truth) / self.error


def intervals(functional: Functional, theta: Float[Array, " p"], level: float = 0.95) -> Intervals:
    """Confidence intervals at a least-squares estimate.

    With several segments: the sandwich A^-1 B A^-1 with A = J_r^T J_r and B the sum over segments of their score's outer
    product, so that errors may be correlated within a segment and of unknown size; t with S - 1 degrees of freedom.
    With one: A^-1 times the residual variance, which supposes independent residuals.

    Source: A. C. Cameron, D. L. Miller, J. Hum. Resour. 50:317 (2015), doi:10.3368/jhr.50.2.317.
    """
    r, jac = (np.asarray(x) for x in eqx.filter_jit(Functional.residuals_and_jacobian)(functional, theta))
    names, clusters = functional.controls.names(), functional.clusters()
    norms = np.linalg.norm(jac, axis=0)
    silent = tuple(name for name, norm in zip(names, norms, strict=True) if norm <= _ZERO * norms.max())
    if silent:
        raise PdefitError(
            f"The data say nothing about {', '.join(silent)} (a zero column of the Jacobian); "
            f"give a prior, observe more, or remove the control"
        )
    scaled = jac / norms
    inverse = np.linalg.pinv(scaled.T @ scaled, hermitian=True) / np.outer(norms, norms)
    segments, p = functional.layout.segments, theta.size
    groups = np.unique(clusters).size
    if segments > p:
        scores = np.zeros((groups, p))
        np.add.at(scores, np.unique(clusters, return_inverse=True)[1], jac * r[:, None])
        correction = groups / (groups - 1)
        covariance = correction * inverse @ (scores.T @ scores) @ inverse
        method, degrees = f"sandwich covariance, clustered by {segments} segments", groups - 1
    else:
        degrees = max(functional.observed_values - p, 1)
        covariance = inverse * float(r @ r) / degrees
        method = "Gauss-Newton covariance times the residual variance"
    error = np.sqrt(np.diag(covariance))
    reach = stats.t.ppf((1 + level) / 2, degrees) * error
    theta_np = np.asarray(theta)
    return Intervals(
        method=method,
        covariance=covariance,
        error=error,
        estimate=_physical(functional, theta_np),
        low=_physical(functional, theta_np - reach),
        high=_physical(functional, theta_np + reach),
        degrees=degrees,
        vague=_vague(functional, theta_np, error, names),
    )


def _physical(functional: Functional, theta: np.ndarray) -> np.ndarray:
    """All controls as one vector of physical values."""
    values = functional.controls.values(jnp.asarray(theta))
    return np.concatenate([np.ravel(np.asarray(v)) for v in values.values()])


def _vague(functional: Functional, theta: np.ndarray, error: np.ndarray, names: list[str]) -> tuple[str, ...]:
    """The elements whose standard error is as large as themselves."""
    x = _physical(functional, theta)
    spread = np.abs(_physical(functional, theta + error) - _physical(functional, theta - error)) / 2
    return tuple(name for name, s, v in zip(names, spread, x, strict=True) if s > _VAGUE * abs(v))
