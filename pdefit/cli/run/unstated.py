"""Variables without a stated sigma: one sigma for each, which residuals decide."""

import dataclasses

import numpy as np

from pdefit.cli.run.experiment import Experiment
from pdefit.inverse.fit.likelihoods import PredictedVariance
from pdefit.inverse.fit.reweight import ByPrediction, Reweight
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.uncertainty.log_likelihood import logarithms


def with_estimated_sigma(exp: Experiment, refused: str = "") -> Experiment:
    """The experiment with an estimated sigma of each variable that was given none.

    A fit begins with the spread of each variable for its sigma, and residuals decide between the rounds of the last stage.
    All recordings share the sigma of a variable. A single variable needs no sigma. Several keep sigma 1, and a line says so,
    if residuals cannot tell the sigma of each of them.

    **Arguments:**

    - `exp`: the experiment.
    - `refused`: why the stages of the fit cannot be repeated; empty if they can.
    """
    names, sources = exp.first.observed, [one.source for one in exp.each.values()]
    unstated = [n for n in names if all(n in source.unstated for source in sources)]
    if len(names) < 2 or not unstated:
        return exp
    parts = exp.functional.parts(exp.functional.theta0)
    known = [[_known(part, n) for part, _ in parts] for n in unstated]
    values, unknowns = min(sum(x.size for x in of) for of in known), exp.functional.controls.size
    if logarithms(exp.first.problem.observe) >= {*names}:
        refused = "logarithms have one scale"
    elif any(isinstance(stage.reweight, Reweight) for stage in exp.stages):
        refused = "a stage has reweight"
    elif values <= unknowns:
        refused = f"{values} values of one of them cannot tell it beside {unknowns} unknowns"
    if refused:
        line = f"one sigma for all variables ({', '.join(unstated)}): {refused}; data.sigma can state one for each"
        return dataclasses.replace(exp, choices=(*exp.choices, line))
    sizes = {n: max(float(np.std(x)) for x in of if x.size) or 1.0 for n, of in zip(unstated, known, strict=True)}
    functional, _ = exp.functional.each(lambda part, own: (part.reweighted(sizes), own), exp.functional.theta0)
    before = exp.stages[-1].reweight
    variances = dict(before.variables) if isinstance(before, ByPrediction) else {}
    rule = ByPrediction(
        variables=variances | dict.fromkeys(unstated, PredictedVariance(constant=None)), shared=unstated
    )
    found = [part for part, _ in functional.parts(functional.theta0)]
    return dataclasses.replace(
        exp,
        functional=functional,
        stages=[*exp.stages[:-1], dataclasses.replace(exp.stages[-1], reweight=rule)],
        choices=(*exp.choices, f"no sigma is stated of {', '.join(unstated)}: residuals decide one for each"),
        recordings={
            n: dataclasses.replace(o, functional=f) for (n, o), f in zip(exp.recordings.items(), found, strict=False)
        },
    )


def _known(functional: Functional, name: str) -> np.ndarray:
    """The measured values of a variable, (n,)."""
    data = functional.observations
    return np.asarray(data.values[name])[np.asarray(data.mask[name])]
