"""Fits of many members, each with some of its unknowns held."""

import numpy as np
from jaxtyping import Float, Int

from pdefit.inverse.fit.stages import Stage
from pdefit.inverse.members import _batch
from pdefit.inverse.members._member_run import MemberRun
from pdefit.inverse.members.fit_members import AT_ONCE
from pdefit.inverse.members.members import Members
from pdefit.inverse.optimizers.base import AbstractOptimizer


def fits_holding(
    members: Members, held: Int[np.ndarray, "E h"], optimizer: AbstractOptimizer, max_iterations: int
) -> tuple[Float[np.ndarray, "E p"], Float[np.ndarray, " E"]]:
    """End points of fits, and J there, infinite if the model blows up. All fits advance in one program.

    **Arguments:**

    - `members`: the objectives and their starts.
    - `held`: the held elements of each member; repetitions are allowed.
    - `optimizer`, `max_iterations`: the optimizer and its bound, for each fit.
    """
    run = MemberRun(members.holding(held), [Stage(optimizer, max_iterations)], AT_ONCE, (), None)
    run.minimise()
    return run.now.theta, run.now.loss


def equations_of(
    members: Members,
) -> tuple[Float[np.ndarray, " E"], Float[np.ndarray, "E p"], Float[np.ndarray, "E p p"]]:
    """J, its gradient and the Gauss-Newton matrix of every member at its start.

    **Arguments:** `members`: the objectives and their points.
    """
    return MemberRun(members, [], AT_ONCE, (), None).evaluated(_batch.equations)  # type: ignore[return-value]
