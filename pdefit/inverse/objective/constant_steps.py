"""The same objective with other constant steps."""

import diffrax
import equinox as eqx

from pdefit.integrate.loop.stable_step import MARGIN, steps_for
from pdefit.inverse.objective.abstract import Objective
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.objective.residuals import Sweep


def with_dt(functional: Functional, dt: float, solver: diffrax.AbstractSolver | None = None) -> Functional:
    """The functional with another constant step, which counts as chosen, not as given."""
    plan = functional.formulation.layout(functional.observations.ts, dt).plan
    sweep = Sweep(solver or functional.sweep.solver, functional.sweep.adjoint, functional.sweep.batch)
    sweep = sweep.settled(functional.controls.extremes(functional.problem), plan)
    return eqx.tree_at(lambda f: (f.dt, f.sweep, f.layout.plan), functional, (dt, sweep, plan))


def stepped(objective: Objective, stable: float | None) -> Objective:
    """The objective with steps for systems whose largest stable step of explicit Euler is `stable`, the same in all
    recordings, as far as the step or the number of stages was left open."""
    solver, dt = steps_for(stable, objective.asked_dt, objective.asked_solver, MARGIN)
    return objective.each(lambda part, own: (with_dt(part, dt, solver), own), objective.theta0)[0]
