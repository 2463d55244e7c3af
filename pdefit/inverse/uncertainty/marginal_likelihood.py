"""Marginal likelihood (evidence) of a fit by Laplace's approximation, and quantities for information criteria."""

import dataclasses
from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np
import scipy
from jaxtyping import Array, Float

from pdefit._util.program import Program
from pdefit.inverse.controls.priors import Measured
from pdefit.inverse.controls.transforms import Identity, Log, Log10, Scale
from pdefit.inverse.linear.determined_inverse import determined_inverse
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.objective.compiled import EQUATIONS, Equations, value_of
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.objective.variants import with_tangents
from pdefit.inverse.problem.instrument import AbstractObservationOperator, Compose
from pdefit.inverse.problem.logarithm import Logarithm

# beyond this many unknowns a dense matrix takes minutes
_MANY = 2000
# the words for the search variable in which a prior within bounds is uniform
_SEARCHED = {Identity: "", Scale: "", Log: "log ", Log10: "log "}


@dataclasses.dataclass(frozen=True)
class MarginalLikelihood:
    """Likelihoods of the data under a model: maximum likelihood, and marginal likelihood over the prior.

    For the choice between models of the same data. Not for the quality of one model, which the verdict judges.

    **Arguments:**

    - `values`, `chi2`: the number of fitted values, and the sum of their squared residuals in units of sigma.
    - `log_sigma`: the sum of ln sigma over these values.
    - `unknowns`: the number of fitted scalars, without those at a bound.
    - `effective_unknowns`: the number determined by the data, the trace of (A + P)^-1 A for the Gauss-Newton matrix A
      of the data and P of the priors. Without priors it is `unknowns`.
    - `log_evidence`: ln of the marginal likelihood with sigma as stated; None if `reason` is not empty.
    - `log_evidence_noise`: the same if sigma is stated up to one unknown factor, whose prior is uniform in its log.
    - `prior`: the prior of each control in words.
    - `reason`: the reason why there is no evidence; empty if there is.
    """

    values: int
    chi2: float
    log_sigma: float
    unknowns: int
    effective_unknowns: float
    log_evidence: float | None
    log_evidence_noise: float | None
    prior: dict[str, str]
    reason: str = ""

    def __str__(self) -> str:
        number = self.reason if self.log_evidence is None else f"ln evidence {self.log_evidence:.6g}"
        many = "" if self.unknowns == 1 else "s"
        return f"{self.values} values, chi2 {self.chi2:.6g}, {self.effective_unknowns:.4g} unknown{many}, {number}"


def marginal_likelihood(
    functional: AbstractObjective, theta: Float[Array, " p"], *, equations: Equations | None = None
) -> MarginalLikelihood:
    """The marginal likelihood at the minimum of an objective, by Laplace's approximation.

        ln Z = ln L(theta) + ln prior(theta) + p/2 ln 2 pi - 1/2 ln det(A + P)

    L is the normal density of the data, and A + P the Gauss-Newton matrix. The approximation is exact for linear models
    with normal priors. The prior of a control is its `prior`, or its smoothing with an amplitude. With neither it is
    uniform between its two bounds in its search variable: in ln x if the transform is `log`. Bounds in addition to a
    prior are assumed to contain all of it. Without any of these there is no evidence, since it would depend on an
    arbitrary volume.

    **Arguments:**

    - `functional`: the objective.
    - `theta`: its minimum, (p,).
    - `equations`: the normal equations at theta (`Fit.equations`); by default they are evaluated.

    Source: R. E. Kass, A. E. Raftery, J. Am. Stat. Assoc. 90:773 (1995), doi:10.1080/01621459.1995.10476572.
    """
    parts = functional.parts(theta)
    free = functional.controls.bounds.free(theta)
    values, p, fitted = functional.observed_values, theta.size, int(np.count_nonzero(free))
    log_sigma = sum(float(np.asarray(likelihood_sums(part))[:, 1].sum()) for part, _ in parts)
    if p > _MANY:
        # chi2 and the trace are those of another way of computing; the criteria take all unknowns
        reason = f"{p} unknowns are too many for the determinant of their matrix"
        chi2 = 2 * float(value_of(functional, theta) - functional.extra_value(theta))
        return MarginalLikelihood(values, chi2, log_sigma, fitted, float(fitted), None, None, {}, reason)
    found: Equations = EQUATIONS(with_tangents(functional), theta) if equations is None else equations
    groups, matrix = found[0].joined(), np.asarray(found[1][2])
    chi2 = 2 * float(np.sum(np.asarray(groups.half_square)))
    extra, jac = np.asarray(groups.extra), np.asarray(groups.extra_jac)
    known = jac.T @ jac
    data = matrix - known
    used = float(np.sum(determined_inverse(matrix, free).matrix * data))
    made = MarginalLikelihood(values, chi2, log_sigma, fitted, used, None, None, *_priors(functional, theta))
    if made.reason:
        return made
    normal = functional.controls.mask(lambda c: c.has_prior)
    low, high = functional.controls.bounds
    log_prior = _half_log_det(known[np.ix_(normal, normal)]) - np.sum(normal) / 2 * np.log(2 * np.pi)
    log_prior -= np.sum(extra**2) / 2 + np.sum(np.log((high - low)[~normal]))
    both = log_prior + p / 2 * np.log(2 * np.pi) - log_sigma - values / 2 * np.log(2 * np.pi)
    gradient, pull = np.asarray(found[1][1]), jac.T @ extra
    stated = both - chi2 / 2 + _below(matrix, gradient) - _half_log_det(matrix)
    # with an unknown factor s of sigma, of density 1/s, s is integrated first: Gamma(n/2) (chi2/2)^(-n/2) / 2
    factor = values / chi2
    averaged = both + scipy.special.gammaln(values / 2) - values / 2 * np.log(chi2 / 2) - np.log(2)
    other = factor * data + known
    averaged += _below(other, factor * (gradient - pull) + pull) - _half_log_det(other)
    if not np.isfinite(stated):
        return dataclasses.replace(made, reason="the data and the priors leave some unknowns undetermined")
    return dataclasses.replace(made, log_evidence=float(stated), log_evidence_noise=float(averaged))


def _below(matrix: np.ndarray, gradient: np.ndarray) -> float:
    """Decrease of J to its minimum, if an optimizer stopped early, or if priors have another weight."""
    return float(gradient @ np.linalg.lstsq(matrix, gradient)[0]) / 2


def _half_log_det(matrix: np.ndarray) -> float:
    """Half ln det of a symmetric matrix; -inf or NaN if it is not positive definite."""
    sign, log_det = np.linalg.slogdet(matrix)
    return float(log_det) / 2 if sign > 0 else float("nan")


def logarithms(operator: AbstractObservationOperator) -> frozenset[str]:
    """The fields whose logarithms an operator observes."""
    parts = operator.operators if isinstance(operator, Compose) else (operator,)
    return frozenset(name for part in parts if isinstance(part, Logarithm) for name in part.fields)


@Program
def likelihood_sums(functional: Functional) -> Float[Array, "V 3"]:
    """For each variable of one record the number of fitted values, and the sums of ln sigma and of ln x over them.

    The last sum is for values x whose logarithms are compared, and 0 for other variables.
    """
    data, rows = functional.observations, []
    for name in functional.observed:
        sigma = jnp.broadcast_to(data.sigma[name], data.values[name].shape)
        logs = data.values[name] * (name in logarithms(functional.problem.observe))
        terms = jnp.stack([jnp.ones_like(sigma), jnp.log(sigma), logs], -1)[functional.layout.index]
        rows.append(jnp.where(functional.fitted(name)[..., None], terms, 0.0).reshape(-1, 3).sum(0, jnp.float64))
    return jnp.stack(rows)


def log_likelihoods(
    squares: Float[np.ndarray, "E V"], sums: Float[np.ndarray, "E V 3"], estimated: Mapping[int, bool]
) -> Float[np.ndarray, " E"]:
    """Log of the normal density of all fitted values of each recording, constants included.

        ln L = -1/2 sum (r^2 / s^2 + ln(2 pi s^2 sigma^2))

    r is a residual over its sigma. s is 1 if sigma was stated. If residuals determine the sigma of a variable, s^2 is
    the mean of its r^2: the maximum likelihood factor, which divides by the number of values, not by the degrees of
    freedom. The density of counts (`Poisson`) is the normal density with their variance. If logarithms are compared, it
    is the log-normal density of the values themselves. Priors do not count.

    **Arguments:**

    - `squares`: the sum of squared weighted residuals, by recording and variable.
    - `sums`: the sums of each recording, as in `likelihood_sums`.
    - `estimated`: the indices of the variables whose sigma residuals determine, and whether all recordings share it.
    """
    values, logs, factor = sums[..., 0], sums[..., 1:].sum(axis=2), np.ones_like(squares)
    for k, shared in estimated.items():
        both = (x.sum() if shared else x for x in (squares[:, k], values[:, k]))
        factor[:, k] = np.maximum(np.divide(*both), np.finfo(float).tiny)
    return -np.sum((squares / factor + values * np.log(2 * np.pi * factor)) / 2 + logs, axis=1)


def _priors(functional: AbstractObjective, theta: Float[Array, " p"]) -> tuple[dict[str, str], str]:
    """The prior of every control in words, and the reason why there is no evidence; empty if there is."""
    words, lacking = dict[str, str](), list[str]()
    at_bound = functional.controls.bounds.at(theta)
    for control, span in functional.controls.spans:
        (low, high), roughness = control.bounds, control.parametrization.roughness
        kind = next((word for of, word in _SEARCHED.items() if type(control.transform) is of), "search variable of ")
        if control.is_node:
            lacking.append(f"the states at the starts of windows ({control.name}) have no prior")
        elif np.any(at_bound[span]):
            lacking.append(f"{control.name} stands at a bound")
        elif isinstance(control.prior, Measured) or (control.prior is not None and roughness is not None):
            lacking.append(f"the prior of {control.name} is no density of its own")
        elif roughness is not None and not np.all(np.asarray(roughness) > 0):
            lacking.append(f"some modes of {control.name} have no prior")
        elif control.prior is not None:
            words[control.name] = type(control.prior).__name__.lower()
        elif roughness is not None:
            chosen = ", whose size the data chose" if control.parametrization.open else ""
            words[control.name] = f"smoothness with an amplitude{chosen}"
        elif not np.all(np.isfinite(low) & np.isfinite(high)):
            lacking.append(f"{control.name} has neither a prior nor two bounds")
        else:
            ends = np.asarray(control.to_physical(jnp.asarray(low))), np.asarray(control.to_physical(jnp.asarray(high)))
            words[control.name] = f"uniform in {kind}{control.name} from {np.min(ends[0]):.4g} to {np.max(ends[1]):.4g}"
    if getattr(functional, "regularizers", ()):
        lacking.append("regularizers are no densities")
    if len(getattr(functional, "sums", ())):
        lacking.append("a gauge holds differences only")
    few = [*dict.fromkeys(lacking)]
    more = f"; and {len(few) - 3} more" if len(few) > 3 else ""
    return words, "; ".join(few[:3]) + more
