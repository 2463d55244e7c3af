"""Smooth tangents of hard residuals: does each lead where the residuals go?"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pdefit.inverse.checks import Check, at_most, over
from pdefit.inverse.compiled import NORMAL, RESIDUALS
from pdefit.inverse.functional import Functional
from pdefit.inverse.objective import AbstractObjective

# degrees between the tangent of a control and differences of the residuals
_ALIKE = 60.0
# the relative step of those differences: many switches are crossed within it
_ACROSS = 1e-2


def smooth_checks(objective: AbstractObjective, theta: Float[Array, " p"]) -> list[Check]:
    """The angle between the smooth tangent of every element of theta and the change of the residuals as they are.

    Smooth tangents are no derivatives of hard residuals, so they cannot agree with differences to a small error. They must
    point the same way, though: a wrong sign anywhere in the smooth twin turns some of them.
    """
    worst, culprit = 0.0, ""
    for functional, own in objective.parts(theta):
        names = functional.controls.names()
        for k, angle in enumerate(_angles(functional, own)):
            if angle > worst:
                worst, culprit = angle, names[k]
    remedy = (
        f"the smooth twin does not move with {culprit} as the hard equations do: compare smoothed() with them, or make its "
        f"switches narrower"
    )
    return [at_most("degrees between smooth tangents and differences", worst, _ALIKE, remedy)]


def _angles(functional: Functional, theta: Float[Array, " p"]) -> np.ndarray:
    """(p,) degrees."""
    _, base, matrix = NORMAL(functional, theta)
    steps = _ACROSS * functional.controls.sizes(theta)
    found = []
    for k in range(theta.size):
        e = jnp.zeros(theta.size).at[k].set(steps[k])
        change = _measured(functional, RESIDUALS(functional, theta + e) - RESIDUALS(functional, theta - e))
        size = float(jnp.linalg.norm(change))
        # <J e_k, change> is how much the gradient grows when the change is added to the residuals
        slope = NORMAL(_with_residuals_added(functional, change), theta)[1][k] - base[k]
        cosine = over(float(slope), size * float(jnp.sqrt(matrix[k, k])))
        found.append(np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0))) if np.isfinite(cosine) else 90.0)
    return np.asarray(found)


def _measured(functional: Functional, r: Float[Array, " m"]) -> Float[Array, "S I n"]:
    """The part of a residual vector that belongs to observations, of all variables one after the other."""
    segments, times = functional.layout.index.shape
    seen = sum(x.size for x in functional.observed.values())
    between = sum(c.size // c.shape[0] for c in functional.controls.nodes)
    inside = r[: segments * (times * seen + between)].reshape(segments, -1)
    return inside[:, : times * seen].reshape(segments, times, seen)


def _with_residuals_added(functional: Functional, change: Float[Array, "S I n"]) -> Functional:
    """The functional with its data moved so that its residuals grow by this."""
    data, values, first = functional.observations, {}, 0
    for name, like in functional.observed.items():
        part = change[..., first : first + like.size].reshape(*change.shape[:2], *like.shape)
        sigma = jnp.broadcast_to(data.sigma[name], data.values[name].shape)[functional.layout.index]
        moved = jnp.where(functional.fitted(name), sigma * part, 0.0).astype(data.values[name].dtype)
        values[name] = data.values[name].at[functional.layout.index].add(-moved)
        first += like.size
    return eqx.tree_at(lambda f: f.observations.values, functional, values)
