"""The same objective with another sensitivity algorithm."""

import equinox as eqx

from pdefit.adjoints.base import AbstractAdjoint, Checkpointed
from pdefit.inverse.objective.abstract import Objective
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.objective.residuals import Sweep


def with_adjoint(functional: Functional, adjoint: AbstractAdjoint) -> Functional:
    """The functional with this algorithm, settled for its problem."""
    sweep = Sweep(functional.sweep.solver, adjoint, functional.sweep.batch)
    sweep = sweep.settled(functional.controls.extremes(functional.problem), functional.layout.plan)
    return eqx.tree_at(lambda f: f.sweep, functional, sweep)


def with_tangents(objective: Objective) -> Objective:
    """The objective with an algorithm that has tangents: its own, or the discrete adjoint. Tangents, unlike gradients, are
    the same whatever the algorithm."""
    if objective.sweep.adjoint.has_tangents:
        return objective
    return eqx.tree_at(lambda f: f.sweep.adjoint, objective, Checkpointed())
