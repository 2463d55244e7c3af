"""Variables without a stated sigma: one sigma for each, which residuals decide."""

import dataclasses

import numpy as np

from pdefit.cli.run.experiment import Experiment
from pdefit.inverse.fit.likelihoods import PredictedVariance
from pdefit.inverse.fit.reweight import ByPrediction, Reweight
from pdefit.inverse.uncertainty.marginal_likelihood import logarithms


def with_estimated_sigma(exp: Experiment, refused: str = "") -> Experiment:
    """The experiment with an estimated sigma of each variable that was given none.

    A fit begins with the spread of each variable for its sigma, and residuals decide between the rounds of the last stage.
    All recordings share the sigma of a variable. A single variable needs no sigma. Several keep sigma 1, and a line says so,
    if residuals cannot tell the sigma of each of them.

    **Arguments:**

    - `exp`: the experiment.
    - `refused`: why the stages of the fit cannot be repeated; empty if they can.
    """
    observed = exp.first.observed
    unstated = [n for n in observed if all(n in one.source.unstated for one in exp.each.values())]
    if len(observed) < 2 or not unstated:
        return exp
    data = [part.observations for part, _ in exp.functional.parts(exp.functional.theta0)]
    known = {n: np.concatenate([np.asarray(x.values[n])[np.asarray(x.mask[n])] for x in data]) for n in unstated}
    fewest, unknowns = min(x.size for x in known.values()), exp.functional.controls.size
    reasons = {
        refused: bool(refused),
        "logarithms have one scale": logarithms(exp.first.problem.observe) >= {*observed},
        "a stage has reweight": any(isinstance(stage.reweight, Reweight) for stage in exp.stages),
        f"{fewest} values of one of them cannot tell it beside {unknowns} unknowns": fewest <= unknowns,
    }
    if refused := next((reason for reason, holds in reasons.items() if holds), ""):
        line = f"one sigma for all variables ({', '.join(unstated)}): {refused}; data.sigma can state one for each"
        return dataclasses.replace(exp, choices=(*exp.choices, line))
    spreads = {n: float(np.std(x)) or 1.0 for n, x in known.items()}
    functional, _ = exp.functional.each(lambda part, own: (part.reweighted(spreads), own), exp.functional.theta0)
    *before, last = exp.stages
    stated = dict(last.reweight.variables) if isinstance(last.reweight, ByPrediction) else {}
    variables = stated | dict.fromkeys(unstated, PredictedVariance(constant=None))
    stages = [*before, dataclasses.replace(last, reweight=ByPrediction(variables=variables, shared=unstated))]
    choices = (*exp.choices, f"no sigma is stated of {', '.join(unstated)}: residuals decide one for each")
    return dataclasses.replace(exp, functional=functional, stages=stages, choices=choices)
