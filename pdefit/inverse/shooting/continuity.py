"""Standard deviations of continuity residuals, the gaps between the segments of multiple shooting."""

from collections.abc import Sequence

import jax.numpy as jnp
from jaxtyping import Array

from pdefit._util.trees import named_fields
from pdefit.inverse.controls.vector import BoundControl
from pdefit.inverse.problem.problem import Problem
from pdefit.inverse.shooting.formulation import AbstractFormulation
from pdefit.inverse.shooting.nodes import node_path
from pdefit.systems.capabilities import AbstractGridded


def continuity_sigma(
    problem: Problem, free: Sequence[BoundControl], formulation: AbstractFormulation
) -> dict[str, Array]:
    """The standard deviation of the gap between segments for every free node state, (1, ...), at the guess.

    **Arguments:**

    - `problem`: the problem with its node states.
    - `free`: the controls that are node states.
    - `formulation`: how the record is cut.
    """
    system = problem.system
    coords = system.coords() if isinstance(system, AbstractGridded) else {}
    fields = {node_path(problem, n): n for n in named_fields(problem.y0)}
    found = {
        c.path: formulation.continuity_sigma(fields[c.path], c.where(problem), coords.get(fields[c.path])) for c in free
    }
    return {c.path: jnp.broadcast_to(found[c.path], (1, *c.shape[1:])) for c in free}
