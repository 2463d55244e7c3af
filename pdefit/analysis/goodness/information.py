"""Model selection on the same data: information criteria, evidence, and a sentence on their strength."""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pdefit.analysis.goodness.evidence import LARGEST_CHI2
from pdefit.analysis.goodness.verdict import MISSES, STOPPED_AND_MISSES
from pdefit.inverse.uncertainty.marginal_likelihood import MarginalLikelihood

# differences of BIC, or of twice the ln of evidence, that are worth no mention, positive, and strong (Kass and Raftery)
_NOTHING, _POSITIVE, _STRONG = 2.0, 6.0, 10.0
# standard errors beyond which a difference of held-out misfits is no chance
_CLEAR = 2.0
# residuals so much smaller than sigma say that it is too large
_SMALLEST_CHI2 = 1 / LARGEST_CHI2


@dataclasses.dataclass(frozen=True)
class Candidate:
    """One fitted model in a comparison of models.

    **Arguments:**

    - `name`: the name of the run.
    - `chi2`, `values`: the sum of squared residuals in units of sigma, and their number.
    - `unknowns`: the number of scalars that the data determine; fields with a prior count by the data's share.
    - `verdict`: the word of the verdict on the fit.
    - `sigma_stated`: whether the noise was known before the fit.
    - `log_evidence`, `log_evidence_noise`: as in `MarginalLikelihood`; None without.
    - `effective_values`: the number of independent values with as much information, if residuals are correlated.
    - `log_sigma`: the sum of ln sigma over all values; None if unknown, and then taken as equal for all models.
    """

    name: str
    chi2: float
    values: int
    unknowns: int | float
    verdict: str = ""
    sigma_stated: bool = True
    log_evidence: float | None = None
    log_evidence_noise: float | None = None
    effective_values: int | float | None = None
    log_sigma: float | None = None

    @classmethod
    def of(cls, name: str, likelihood: MarginalLikelihood, verdict: str, **options: Any) -> "Candidate":
        """The candidate of a fit, from its marginal likelihood and the word of its verdict; `options` as in the class."""
        found = {key: getattr(likelihood, key) for key in ("log_evidence", "log_evidence_noise", "log_sigma")}
        sizes = likelihood.chi2, likelihood.values, likelihood.effective_unknowns
        return cls(name, *sizes, verdict, **found, **options)

    @property
    def misses(self) -> bool:
        """True if the verdict is that the model misses structure."""
        return self.verdict in (MISSES, STOPPED_AND_MISSES)


class Criteria(NamedTuple):
    """Information criteria of one model, up to a constant that all models of the same data share; lower is better."""

    aic: float
    aicc: float
    bic: float


class HeldOut(NamedTuple):
    """Misfits of all models at frames that no model was fitted to.

    **Arguments:**

    - `mean_square`: the mean square of each model, in a common unit.
    - `error`: the standard error of the difference between each model and the best; 0 for the best.
    """

    mean_square: np.ndarray
    error: np.ndarray


def criteria(
    chi2: float,
    values: int,
    unknowns: int | float,
    *,
    sigma_known: bool = True,
    effective_values: int | float | None = None,
    log_sigma: float = 0.0,
) -> Criteria:
    """AIC, AICc and BIC of a least-squares fit, up to a constant of the data.

    -2 ln L is chi2 + 2 sum ln sigma if sigma is known. Otherwise a common factor of sigma is estimated too: n
    ln(chi2/n) replaces chi2, with one unknown more. If residuals are correlated, n is replaced by the
    `effective_values` with as much information.

    **Arguments:**

    - `chi2`, `values`: the sum of squared residuals in units of sigma, and their number n.
    - `unknowns`: the number of fitted numbers.
    - `sigma_known`: whether sigma is as stated; default True.
    - `effective_values`: at most n; default n.
    - `log_sigma`: the sum of ln sigma, which counts if the models differ in it; default 0.

    Sources: H. Akaike, IEEE Trans. Autom. Control 19:716 (1974), doi:10.1109/TAC.1974.1100705; C. M. Hurvich, C.-L. Tsai,
    Biometrika 76:297 (1989), doi:10.1093/biomet/76.2.297; G. Schwarz, Ann. Stat. 6:461 (1978),
    doi:10.1214/aos/1176344136.
    """
    n = min(effective_values or values, values)
    k = unknowns if sigma_known else unknowns + 1
    misfit = chi2 * n / values if sigma_known else n * float(np.log(chi2 / values))
    misfit += 2 * log_sigma * n / values
    aic, left = misfit + 2 * k, n - k - 1
    return Criteria(aic, aic + 2 * k * (k + 1) / left if left > 0 else float("inf"), misfit + k * float(np.log(n)))


def criteria_of(candidates: Sequence[Candidate]) -> list[Criteria]:
    """Information criteria of models of the same data, with one rule for sigma and for correlated residuals."""
    known, fewer = sigma_is_known(candidates), independent_values(candidates)
    logs = [one.log_sigma for one in candidates]
    logs = [0.0 if x is None or None in logs else x for x in logs]
    return [
        criteria(one.chi2, one.values, one.unknowns, sigma_known=known, effective_values=fewer, log_sigma=log)
        for one, log in zip(candidates, logs, strict=True)
    ]


def evidences(candidates: Sequence[Candidate]) -> list[float | None]:
    """Log evidence of models of the same data, with sigma as stated or with its factor unknown in all of them."""
    known = sigma_is_known(candidates)
    return [one.log_evidence if known else one.log_evidence_noise for one in candidates]


def akaike_weights(aic: Sequence[float]) -> np.ndarray:
    """Relative likelihoods of models by AIC, which sum to 1."""
    likely = np.exp(-(np.asarray(aic) - np.min(aic)) / 2)
    return likely / np.sum(likely)


def sigma_is_known(candidates: Sequence[Candidate]) -> bool:
    """True if the stated noise agrees with the best residuals; otherwise sigma is estimated with the parameters."""
    best = min(one.chi2 / one.values for one in candidates)
    return all(one.sigma_stated for one in candidates) and _SMALLEST_CHI2 <= best <= LARGEST_CHI2


def independent_values(candidates: Sequence[Candidate]) -> int | float | None:
    """Smallest effective sample size of all models; None if no residuals are correlated."""
    return min((one.effective_values for one in candidates if one.effective_values is not None), default=None)


def held_out(squares: Sequence[np.ndarray], share: float = 1.0) -> HeldOut:
    """Misfits at frames that no model was fitted to, with standard errors of their paired differences.

    **Arguments:**

    - `squares`: the squared residuals of each model at the same values, (n,).
    - `share`: independent values as a fraction of all; default 1.
    """
    means = np.asarray([np.mean(x) for x in squares])
    best = squares[int(np.argmin(means))]
    errors = [np.std(x - best) / np.sqrt(max(share * x.size - 1, 1)) for x in squares]
    return HeldOut(means, np.asarray(errors))


def conclusion(candidates: Sequence[Candidate], comparable: bool = True, held: HeldOut | None = None) -> list[str]:
    """Sentences on the preferred model and the strength of the evidence: held-out frames first, then evidence or BIC.

    **Arguments:**

    - `candidates`: the models.
    - `comparable`: whether all fitted the same values, which evidence and BIC require.
    - `held`: misfits at held-out frames; None without such frames.
    """
    lines, lead = list[str](), ""
    if all(one.misses for one in candidates):
        lines.append("None of these explains the data: every run misses structure")
        lead = "Of them, "
    if held is not None:
        lines.append(lead + _by_held_out(candidates, held))
    if not comparable:
        return [*lines, "Evidence and information criteria need fits of the same values, which these are not"]
    return [*lines, (lead if held is None else "By what they fitted, ") + _by_criteria(candidates)]


def _by_held_out(candidates: Sequence[Candidate], held: HeldOut) -> str:
    order = np.argsort(held.mean_square)
    best, second = candidates[order[0]].name, candidates[order[1]].name
    more = float(np.sqrt(held.mean_square[order[1]] / max(held.mean_square[order[0]], np.finfo(float).tiny)) - 1)
    gap, error = held.mean_square[order[1]] - held.mean_square[order[0]], held.error[order[1]]
    if not gap > _CLEAR * error:
        alike = [
            candidates[i].name
            for i in order
            if held.mean_square[i] - held.mean_square[order[0]] <= _CLEAR * held.error[i]
        ]
        return f"held-out frames cannot tell {_listed(alike)} apart"
    sure = f"{gap / error:.2g} standard errors" if error > 0 else "without any scatter"
    return f"{best} predicts held-out frames best: the misfit of {second} is {more:.1%} larger ({sure})"


def _by_criteria(candidates: Sequence[Candidate]) -> str:
    fewer, chosen = independent_values(candidates), evidences(candidates)
    found = [x for x in chosen if x is not None]
    # the evidence supposes independent residuals, and no correction of it is known here
    if fewer is None and len(found) == len(chosen):
        size, unit = -2 * np.asarray(found), "twice the ln of evidence"
    else:
        size, unit = np.asarray([one.bic for one in criteria_of(candidates)]), "BIC"
    unknown = ", as if residuals were independent" if any(one.misses for one in candidates) else ""
    counted = (
        unknown if fewer is None else f", counting that residuals are correlated (as {fewer:.3g} independent values)"
    )
    order = np.argsort(size)
    gap, best, second = float(size[order[1]] - size[order[0]]), candidates[order[0]].name, candidates[order[1]].name
    if gap < _NOTHING:
        alike = [candidates[i].name for i in order if size[i] - size[order[0]] < _NOTHING]
        return f"the data cannot tell {_listed(alike)} apart ({gap:.2g} units of {unit}{counted})"
    how = "weakly" if gap < _POSITIVE else "strongly" if gap < _STRONG else "very strongly"
    return f"{best} is {how} preferred over {second}, by {gap:.3g} units of {unit}{counted}"


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
