"""Whether a growing adjoint is the fault of the time step."""

import math
from collections.abc import Callable

from jaxtyping import Array, Float

from pdefit._util.errors import PdefitError, with_space
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.objective.functional import Functional

# adjoints of a converged step agree better than this, in powers of ten
_ALIKE = 0.1


def explain_growth(
    functional: AbstractObjective,
    theta: Float[Array, " p"],
    growth: float,
    watched: Callable[[AbstractObjective, Array], tuple[Array, Array, Array]],
) -> str:
    """Why the adjoint grows by this factor, from the `watched` gradient of the same functional with half the step: an error
    that names dt where the two differ, else a sentence about a trajectory that is as sensitive as that."""
    finer = float(watched(functional.each(halved, theta)[0], theta)[2])
    unit = with_space(functional.problem.system.time_unit)
    if not (math.isfinite(growth) or math.isfinite(finer)):
        raise PdefitError(
            "The loss or its gradient is not finite where the fit is, with half the step neither; ask `pdefit doctor` for the "
            "first step, field and term that fail"
        )
    if not math.isfinite(growth) or abs(_decades(finer) - _decades(growth)) > _ALIKE * _decades(growth):
        found = f"The adjoint grows by {growth:.0e} over the record, but by {finer:.0e} with half the step: "
        if functional.steps is not None:
            raise PdefitError(
                f"{found}adaptive steps are too large for the linearised equations; set rtol, atol smaller"
            )
        raise PdefitError(
            f"{found}dt = {functional.dt:.3g}{unit} is too large for the linearised equations; set "
            f"dt={functional.dt / 2:.2g} or less"
        )
    return (
        f"the adjoint grows by {growth:.0e} over the record, whatever the step: the end hardly tells of the beginning; "
        f"cut the record into shorter segments (formulation=segments)"
    )


def halved(functional: Functional, theta: Array) -> tuple[Functional, Array]:
    """The functional with half the step."""
    return functional.with_plan(functional.layout.plan.halved()), theta


def _decades(growth: float) -> float:
    return math.log10(max(growth, 1.0)) if math.isfinite(growth) else math.inf
