"""The fit: stages of optimizers over one functional, with the best point kept and every evaluation recorded."""

import dataclasses
from collections.abc import Callable, Sequence

import jax
import numpy as np
from jaxtyping import Array, Float

from pdefit._util import interrupts
from pdefit._util.errors import PdefitError
from pdefit._util.run_state import RunState
from pdefit.inverse.fit._fit_run import FitRun
from pdefit.inverse.fit.choose_stages import choose_stages
from pdefit.inverse.fit.drivers import AbstractDriver, Traced
from pdefit.inverse.fit.refused_combinations import Choices, refuse
from pdefit.inverse.fit.result import Fit as Fit
from pdefit.inverse.fit.result import Progress as Progress
from pdefit.inverse.fit.result import Record as Record
from pdefit.inverse.fit.stages import Stage as Stage
from pdefit.inverse.fit.stages import evaluation_cost, with_windows
from pdefit.inverse.fit.stop import Noise
from pdefit.inverse.objective.abstract import Objective
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.optimizers.base import AbstractOptimizer


def fit(
    functional: Objective,
    stages: Sequence[Stage | AbstractOptimizer] | None = None,
    *,
    theta: Float[Array, " p"] | np.ndarray | None = None,
    max_iterations: int | None = None,
    callback: Callable[[Progress], None] | None = None,
    resume: RunState | None = None,
    driver: AbstractDriver | None = None,
) -> Fit[Objective]:
    """Fit a functional stage by stage; each stage starts from the best point of the previous one.

    **Arguments:**

    - `functional`: the objective, a `Functional` or `Recordings`.
    - `stages`: optimizers, or stages with windows and weights of their own; by default the stages of `choose_stages`.
    - `theta`: the start of the fit in search space, (p,); default the guess of the functional. A start outside the bounds
      is moved onto them. A fit from another start compiles nothing new.
    - `max_iterations`: a bound on the evaluations of all stages together; default unlimited.
    - `callback`: a function called after every chunk of about a second. If it raises `KeyboardInterrupt`, or at Ctrl-C,
      the fit ends with the best point so far.
    - `resume`: a state that a callback saved in an earlier call with the same functional and stages, to continue from.
    - `driver`: the evaluation of the functional, `Traced()` (the default) or `Hosted()`.

    **Errors:** PdefitError if the loss is not finite at the first guess.
    """
    if stages is None:
        if not isinstance(functional, Functional):
            raise PdefitError(
                "A fit of many recordings expects its stages, e.g. [pdefit.optimizers.LevenbergMarquardt()]"
            )
        stages = choose_stages(functional).stages
    plan = [s if isinstance(s, Stage) else Stage(s) for s in stages]
    if not plan:
        raise PdefitError("A fit expects at least one stage, e.g. stages=levenberg_marquardt")
    if any(s.reweight is not None for s in plan) and any(isinstance(s.stop, Noise) for s in plan):
        raise PdefitError("Stopping at the noise level expects measured sigma, not that of residuals; remove reweight")
    if max_iterations is not None and max_iterations < 1:
        raise PdefitError(f"max_iterations expects 1 or more, but got {max_iterations}; leave it out for no bound")
    refuse(Choices.of(functional, plan, driver=driver or Traced()))
    if theta is not None:
        if np.shape(theta) != functional.theta0.shape:
            size, came = functional.theta0.size, np.shape(theta)
            raise PdefitError(f"A fit expects a start theta of {size} values, but got an array of shape {came}")
        functional = functional.guessing(jax.device_put(np.clip(theta, *functional.controls.bounds)))
    run = FitRun(functional, plan, driver or Traced(), callback, max_iterations)
    if resume is not None:
        run.restore(resume)
    status = "done"
    try:
        run.minimise()
    except KeyboardInterrupt:
        # a process that signals end has no time for a result; a saved state goes on later
        if not run.iterations or interrupts.received():
            raise
        status = "interrupted"
    found, rules = run.result(status), [s.reweight for s in plan if s.reweight is not None]
    names = found.functional.observations.sigma
    estimated = tuple(n for n in names if any(r.estimates(n) for r in rules))
    return dataclasses.replace(found, estimated=estimated, cost=evaluation_cost(found.functional, plan[-1]))


def first_functional(functional: Objective, stages: Sequence[Stage]) -> Objective:
    """The functional of the first stage."""
    return with_windows(functional, stages[0].formulation)


def restored(functional: Objective, stages: Sequence[Stage], state: RunState) -> tuple[Objective, Float[Array, " p"]]:
    """The last functional of a saved fit, and its best point.

    **Arguments:**

    - `functional`, `stages`: as in `fit`.
    - `state`: the saved state.
    """
    run = FitRun(functional, stages, Traced())
    run.restore(state)
    return run.functional, run.theta
