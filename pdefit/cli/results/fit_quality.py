"""Quality of a fit: chi2, whiteness, held-out frames and the verdict."""

import dataclasses
from typing import Any

from pdefit.analysis.goodness.holdout import heldout_score
from pdefit.analysis.goodness.quality import judge
from pdefit.analysis.goodness.verdict import FITTED, Evidence, Quality, Verdict, decide, distrust
from pdefit.cli.experiment.experiment import Experiment
from pdefit.cli.runs.discretisation_check import Discretisation
from pdefit.inverse.fit.fit import Fit

# an estimated sigma with a larger relative standard error is not taken for known
_KNOWN_TO = 0.1


def fit_quality(exp: Experiment, found: Fit, moved: Discretisation) -> tuple[list[dict[str, Any]], Verdict]:
    """The section `fit` of summary.json for each recording, and the verdict on all.

    Priors and regularizers do not count in chi2.

    **Arguments:**

    - `exp`, `found`: the experiment and its fit.
    - `moved`: shifts of the estimate with finer steps and cells.
    """
    judged = {n: _judged(o, f) for (n, o), f in zip(exp.each.items(), found.recordings, strict=True)}
    numbers = any(not (c.is_field or c.is_node) for c in found.functional.controls.items)
    evidence = Evidence(
        {name: quality for name, (_, quality) in judged.items()},
        shift=str(moved) if moved.decides else "",
        doubt=distrust(FITTED, exp.source.noiseless) if numbers else "",
    )
    return [section for section, _ in judged.values()], decide(evidence)


def _judged(exp: Experiment, found: Fit) -> tuple[dict[str, Any], Quality]:
    """The section `fit` of one recording, and its quality."""
    window = exp.source.record.at(slice(0, exp.fitted))
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
    return section, quality


def sigma_stated(exp: Experiment) -> bool:
    """Whether the noise of every fitted variable was stated.

    It was not where sigma was estimated from the data, or where a twin has no noise and sigma is only a weight.
    """
    source = exp.source
    unsure = any(name in (*source.unstated, *source.noise) for name in exp.first.observed)
    return not (_reweighted(exp) or source.noiseless or unsure)


def _reweighted(exp: Experiment) -> bool:
    return any(stage.reweight is not None for stage in exp.stages)


def _sigma_known(exp: Experiment, observed: tuple[str, ...]) -> bool:
    """Whether sigma was stated, or well estimated, before the fit.

    A sigma made from residuals makes chi2 about 1, which proves nothing.
    """
    unidentifiable = [name for name, n in exp.source.noise.items() if n.error > _KNOWN_TO]
    return not _reweighted(exp) and not any(name in (*exp.source.unstated, *unidentifiable) for name in observed)
