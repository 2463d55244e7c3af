"""Fits of one objective that each hold some of its unknowns."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from pdefit.inverse.fit.stages import Stage
from pdefit.inverse.members._run import MemberRun
from pdefit.inverse.members.members import Members
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.optimizers.base import AbstractOptimizer


def fits_holding(
    functional: AbstractObjective,
    theta0: Float[np.ndarray, "E p"],
    held: Int[np.ndarray, "E h"],
    optimizer: AbstractOptimizer,
    max_iterations: int,
) -> tuple[Float[np.ndarray, "E p"], Float[np.ndarray, " E"]]:
    """The points at which fits end, and J there: infinite where the model blows up. All advance in one program.

    **Arguments:**

    - `functional`: the objective.
    - `theta0`: where each begins.
    - `held`: the elements that each keeps; one may stand there twice.
    - `optimizer`, `max_iterations`: of each fit.
    """
    members = Members.from_points(functional, jnp.asarray(theta0)).holding(held)
    run = MemberRun(members, [Stage(optimizer, max_iterations)], len(theta0), (), None)
    run.minimise()
    return run.theta, run.loss
