"""Inputs in time that the constant steps of an objective do not resolve."""

from jaxtyping import Array, Float

from pdefit.integrate.loop.bends import Passed, passed_over
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.shooting.trajectories import inputs_of


def passed_inputs(objective: AbstractObjective, theta: Float[Array, " p"]) -> tuple[str, ...]:
    """Remarks on the input that constant steps resolve worst, over all recordings.

    **Arguments:**

    - `objective`: the objective.
    - `theta`: the unknowns, (p,).
    """
    found = [Passed()]
    for functional, own in objective.parts(theta) if objective.steps is None else ():
        inputs = inputs_of(functional.at(own), functional.observations.ts)
        found += [passed_over(ends, inputs) for ends in functional.layout.time_grid.ends()] if inputs else []
    return max(found).remarks
