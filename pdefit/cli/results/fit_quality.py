"""Quality of a fit: chi2, whiteness, held-out frames and the verdict."""

import dataclasses
from typing import Any

from pdefit.analysis.goodness.holdout import heldout_score
from pdefit.analysis.goodness.quality import judge
from pdefit.analysis.goodness.verdict import FITTED, MISSES, STOPPED, Verdict
from pdefit.cli.experiment.experiment import Experiment
from pdefit.inverse.fit.fit import Fit

# an estimated sigma with a larger relative standard error is not taken for known
_KNOWN_TO = 0.1


def fit_quality(exp: Experiment, found: Fit) -> tuple[list[dict[str, Any]], Verdict]:
    """The section `fit` of summary.json for each recording, and the verdict, of many that on the worst.

    Priors and regularizers do not count in chi2.
    """
    judged = {n: _judged(o, f) for (n, o), f in zip(exp.each.items(), found.recordings, strict=True)}
    name, (_, worst) = max(judged.items(), key=lambda one: (FITTED, MISSES, STOPPED).index(one[1][1].word))
    if exp.recordings and worst.word == MISSES:
        worst = dataclasses.replace(worst, reason=f"recording {name}: {worst.reason}")
    if exp.recordings and worst.word == FITTED:
        chi2 = [section["chi2_per_value"] for section, _ in judged.values()]
        told = f"all {len(chi2)} recordings, with chi2 per value from {min(chi2):.3g} to {max(chi2):.3g}"
        worst = dataclasses.replace(worst, reason=told)
    return [section for section, _ in judged.values()], worst


def _judged(exp: Experiment, found: Fit) -> tuple[dict[str, Any], Verdict]:
    """The section `fit` of one recording, and the verdict on it."""
    window = exp.record.at(slice(0, exp.fitted))
    held = heldout_score(found.functional, found.theta, window, exp.held) if exp.held.size else None
    known = _sigma_known(exp, tuple(found.functional.observed))
    quality = judge(found, sigma_known=known, heldout=held)
    white = quality.whiteness
    section = {
        "chi2": quality.chi2,
        "values": quality.values,
        "chi2_per_value": quality.chi2_per_value,
        "whiteness": None
        if white is None
        else {name: {axis: dataclasses.asdict(c) for axis, c in axes.items()} for name, axes in white.items()},
        "heldout": None if held is None else {"chi2_per_value": held[0], "values": held[1], "frames": exp.held.size},
    }
    return section, quality.verdict


def sigma_stated(exp: Experiment) -> bool:
    """Whether the noise of every fitted variable was stated.

    It was not where sigma was estimated from the data, or where a twin has no noise and sigma is only a weight.
    """
    observed = exp.first.observed
    return not (_reweighted(exp) or exp.noiseless or any(name in (*exp.unstated, *exp.noise) for name in observed))


def distrust(exp: Experiment, verdict: Verdict) -> str:
    """Reason to distrust all intervals of a fit; empty without one."""
    if verdict.word == STOPPED:
        return "the fit has not converged"
    if verdict.word == MISSES:
        return "the model misses structure, so its residuals are not independent noise"
    if exp.noiseless:
        return "the data have no noise, so residuals are errors of the discretisation and of rounding"
    return ""


def _reweighted(exp: Experiment) -> bool:
    return any(stage.reweight is not None for stage in exp.stages)


def _sigma_known(exp: Experiment, observed: tuple[str, ...]) -> bool:
    """Whether sigma was stated, or well estimated, before the fit.

    A sigma made from residuals makes chi2 about 1, which proves nothing.
    """
    unidentifiable = [name for name, n in exp.noise.items() if n.error > _KNOWN_TO]
    return not _reweighted(exp) and not any(name in (*exp.unstated, *unidentifiable) for name in observed)
