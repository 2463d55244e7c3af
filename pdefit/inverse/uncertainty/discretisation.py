"""The shift of an estimate, to first order, when steps or cells become finer."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.objective.compiled import GRADIENT, normal_equations, weighted
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.objective.variants import with_tangents
from pdefit.inverse.uncertainty.intervals import Intervals, intervals


def first_order_shift(
    functional: AbstractObjective,
    finer: AbstractObjective,
    theta: Float[Array, " p"],
    known: Intervals,
    residuals: Sequence[dict[str, np.ndarray]],
) -> Float[np.ndarray, " k"]:
    """The shift of an estimate by finer steps or cells, in half widths of its interval; NaN where there is no interval.

    It is -(J_r^T J_r)^-1 J_r^T (r' - r), with r' the residuals with finer steps or cells. It costs one run of the finer
    trajectory, and the normal equations once more; no Jacobian is held. Beside unknown fields it costs a gradient
    instead.

    With free node states the continuity residuals are stiff, and no change of the data can represent them. The shift is
    then the Gauss-Newton step of the finer problem, less that of the functional itself.

    **Arguments:**

    - `functional`: the objective of the fit.
    - `finer`: the same with finer steps or cells.
    - `theta`: the estimate, (p,).
    - `known`: its intervals.
    - `residuals`: for each recording its weighted residuals, by variable (S, I, ...).
    """
    theta = jnp.asarray(theta)
    pairs = iter(zip(finer.parts(theta), residuals, strict=True))

    def moved(part: Functional, own: Array) -> tuple[Functional, Array]:
        then, now = next(pairs)
        return with_residuals_moved(part, {name: x - now[name] for name, x in weighted(*then).items()}), own

    if functional.controls.nodes:
        own = intervals(finer, theta)
        shift = known.inverse @ known.gradient - own.inverse @ own.gradient
    else:
        shift = -known.inverse @ (_pulled(functional.each(moved, theta)[0], theta, known) - known.gradient)
    reach = known.reach[: shift.size]
    usable = np.isfinite(reach) & (reach > 0)
    return np.where(usable, shift / np.where(usable, reach, 1.0), np.nan)


def _pulled(functional: AbstractObjective, theta: Float[Array, " p"], known: Intervals) -> np.ndarray:
    """The gradient J_r^T r."""
    if len(known.inverse) < theta.size:
        return np.asarray(GRADIENT(functional, theta)[1])
    return np.asarray(normal_equations(with_tangents(functional), theta)[1])


def with_residuals_moved(functional: Functional, moved: dict[str, Any]) -> Functional:
    """The functional with data such that its residuals are larger by given amounts. It needs no new compiled program.

    **Arguments:**

    - `functional`: the functional.
    - `moved`: for each variable the change of its weighted residuals, (S, I, ...).
    """
    layout, data, values = functional.layout, functional.observations, {}
    for name, change in moved.items():
        by = np.zeros(data.values[name].shape)
        by[layout.index[layout.counts]] = np.asarray(change)[layout.counts]
        values[name] = jnp.asarray(data.values[name] - data.sigma[name] * by, data.values[name].dtype)
    return eqx.tree_at(lambda f: f.observations.values, functional, {**data.values, **values})
