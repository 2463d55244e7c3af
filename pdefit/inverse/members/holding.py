"""Fits of one objective that each hold some of its unknowns."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from pdefit.inverse.fit.stages import Stage
from pdefit.inverse.members._run import MemberProgress, MemberRun
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
    run = run_holding(functional, theta0, held, Stage(optimizer, max_iterations))
    run.minimise()
    return run.theta, run.loss


def run_holding(
    functional: AbstractObjective,
    theta0: Float[np.ndarray, "E p"],
    held: Int[np.ndarray, "E h"],
    stage: Stage,
    devices: tuple[Any, ...] = (),
    callback: Callable[[MemberProgress], None] | None = None,
) -> MemberRun:
    """The bookkeeping of such fits, before they begin.

    **Arguments:** as of `fits_holding`, and `stage`, `devices`, `callback` as of `MemberRun`.
    """
    members = Members.from_points(functional, jnp.asarray(theta0)).holding(held)
    return MemberRun(members, [stage], len(theta0), devices, callback)
