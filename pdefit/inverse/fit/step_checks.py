"""Checks of whether the steps of a fit are small enough for the adjoint, by its growth with half the step."""

import math
from collections.abc import Callable

from jaxtyping import Array, Float

from pdefit._util.errors import PdefitError, with_space
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.objective.variants import is_adaptive

# with a converged step and half of it, the growth agrees better than this part of its decades
_ALIKE = 0.1


def explain_growth(
    functional: AbstractObjective,
    theta: Float[Array, " p"],
    growth: float,
    watched: Callable[[AbstractObjective, Array], tuple[Array, Array, Array]],
) -> str:
    """The reason why the adjoint grows by a large factor, from a gradient with half the step.

    **Arguments:**

    - `functional`: the objective.
    - `theta`: the point, (p,).
    - `growth`: the factor, with the steps of the functional.
    - `watched`: computes the value, the gradient and the growth of the adjoint.

    **Returns:** a sentence about a trajectory that is as sensitive as that.

    **Errors:** PdefitError that names the step, where half the step gives another growth.
    """
    finer = float(watched(functional.each(halved, theta)[0], theta)[2])
    unit = with_space(functional.problem.system.time_unit)
    if not (math.isfinite(growth) or math.isfinite(finer)):
        raise PdefitError(
            "The loss or its gradient is not finite where the fit is, with half the step neither; ask `pdefit doctor` for the "
            "first step, field and term that fail"
        )
    if not math.isfinite(growth) or abs(_decades(finer) - _decades(growth)) > _ALIKE * _decades(growth):
        found = f"The adjoint grows by {growth:.0e} over the record, but by {finer:.0e} with half the step: "
        if is_adaptive(functional):
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
    """The functional with every step cut in two, and the same point."""
    return functional.with_time_grid(functional.layout.time_grid.halved()), theta


def _decades(growth: float) -> float:
    return math.log10(max(growth, 1.0)) if math.isfinite(growth) else math.inf
