"""A word about constant steps that are hardly stable."""

from jaxtyping import Array, Float

from pdefit.errors import with_space
from pdefit.integrate.step_size import stability_limit
from pdefit.inverse.objective import AbstractObjective


def near_stability(functional: AbstractObjective, theta: Float[Array, " p"]) -> list[str]:
    """What to say when the step is hardly stable at the estimate: rejected steps may have kept the fit from going on."""
    for part, own in functional.parts(theta):
        problem = part.at(own)
        limit = stability_limit(problem.system, problem.y0, part.sweep.solver)
        if part.steps is None and limit is not None and part.dt > 0.8 * limit:
            unit = with_space(problem.system.time_unit)
            return [
                f"dt = {part.dt:.3g}{unit} is close to the stability limit {limit:.3g}{unit} at the estimate; "
                f"set dt, or bounds of the controls that it depends on"
            ]
    return []
