"""The windows of a stage: those of the fit, or others that only prepare it."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from pdefit.inverse.objective.abstract import AbstractObjective, Objective
from pdefit.inverse.shooting.formulation import AbstractFormulation


def prepares(own: AbstractObjective, formulation: AbstractFormulation | None) -> bool:
    """Whether a stage with this formulation leaves the windows of the fit's own functional.

    Where states are controls such a stage is an initialiser. Windows that start from the data move only the other controls,
    and the states come back at their guesses; a free initial state moves along where fewer frames of one trajectory are
    fitted.
    """
    return formulation is not None and not (own.controls.states.items and formulation == own.formulation)


def keeps(own: AbstractObjective, before: AbstractFormulation | None) -> bool:
    """Whether a stage without a formulation goes on with that of the stage before: not where states come back, nor where a
    part of the record was left out."""
    return not own.controls.states.items and not (before is not None and before.partial)


def with_windows(own: Objective, formulation: AbstractFormulation | None) -> Objective:
    """The fit's functional with other windows, or itself."""
    if formulation is None or not prepares(own, formulation):
        return own
    return own.reformulated(formulation, own.theta0)


def resized(own: AbstractObjective, functional: AbstractObjective, theta: Float[Array, " p"]) -> Float[Array, " q"]:
    """theta of the stage before as a point of this stage's functional: states, which come last, are dropped, or come
    back at their guesses."""
    size = functional.controls.size
    return jnp.concatenate([theta[:size], own.theta0[theta.size : size]])
