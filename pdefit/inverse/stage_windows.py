"""The windows of a stage: those of the fit, or others that only prepare it."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from pdefit.inverse.formulation import AbstractFormulation
from pdefit.inverse.functional import Functional


def with_windows(
    own: Functional, current: Functional, formulation: AbstractFormulation | None, theta: Float[Array, " p"]
) -> tuple[Functional, Float[Array, " q"]]:
    """The functional of a stage, and the point at which it starts.

    **Arguments:** `own` the fit's functional at its guesses; `current` that of the stage before, which ended at `theta`;
    `formulation` the stage's, None for that of the stage before.

    Where node states are controls, a stage with other windows is an initialiser: its windows start from the data, and only
    the shared controls move. The node states come back at their guesses with the fit's own windows, which is what a stage
    without a formulation has then.
    """
    if not own.controls.nodes:
        return (current if formulation is None else current.reformulated(formulation, theta)), theta
    if formulation is not None and formulation != own.formulation:
        return current.reformulated(formulation, theta), theta[: own.controls.shared_size]
    if current.controls.nodes:
        return current, theta
    # weights may have been re-estimated on the way
    back = own.reweighted(current.observations.sigma)
    return back, jnp.concatenate([theta, own.theta0[own.controls.shared_size :]])
