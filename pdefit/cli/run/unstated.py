"""Variables without a stated sigma: one sigma for each, estimated from its residuals."""

import dataclasses

import numpy as np

from pdefit._util.errors import PdefitError
from pdefit.cli.run.experiment import Experiment
from pdefit.inverse.fit.likelihoods import PredictedVariance
from pdefit.inverse.fit.reweight import ByPrediction, Reweight
from pdefit.inverse.uncertainty.marginal_likelihood import logarithms


def with_estimated_sigma(exp: Experiment, refused: str = "") -> Experiment:
    """The experiment with an estimated sigma for each variable that has none.

    A fit begins with each variable's spread as its sigma, and residuals update it between the rounds of the last stage.
    All recordings share the sigma of a variable. A single variable needs no sigma, unless gaps between windows are
    weighed against it. If residuals cannot determine the sigma of each of several variables, all keep sigma 1, with a
    message; with gaps such a fit is refused.

    **Arguments:**

    - `exp`: the experiment.
    - `refused`: the reason why the stages of the fit cannot be repeated; empty if they can.
    """
    observed = exp.first.observed
    unstated = [n for n in observed if all(n in one.source.unstated for one in exp.each.values())]
    weighed = exp.functional.continuity_values > 0
    if not unstated or (len(observed) < 2 and not weighed):
        return exp
    data = [part.observations for part, _ in exp.functional.parts(exp.functional.theta0)]
    known = {n: np.concatenate([np.asarray(x.values[n])[np.asarray(x.mask[n])] for x in data]) for n in unstated}
    # node states that gaps tie count once
    unknowns = exp.functional.tangents if weighed else exp.functional.controls.size
    fewest, reweighted = min(x.size for x in known.values()), any(isinstance(s.reweight, Reweight) for s in exp.stages)
    reasons = {
        refused: bool(refused),
        "logarithms have one scale": not weighed and logarithms(exp.first.problem.observe) >= {*observed},
        "a stage has reweight": reweighted,
        f"{fewest} values of a variable cannot tell it beside {unknowns} unknowns": fewest <= unknowns,
    }
    if refused := next((reason for reason, holds in reasons.items() if holds), ""):
        if weighed and not reweighted:
            raise PdefitError(
                f"Gaps between windows are weighed against the noise of {', '.join(unstated)}, whose sigma nobody stated and "
                f"residuals cannot tell, because {refused}; state data.sigma"
            )
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
