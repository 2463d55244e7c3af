"""Smooth tangents of hard residuals: does each lead where the residuals go?"""

import dataclasses

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pdefit.inverse.checks import Check, at_most, over
from pdefit.inverse.compiled import NORMAL, RESIDUALS
from pdefit.inverse.functional import Functional
from pdefit.inverse.objective import AbstractObjective

# cosine between the tangent of an unknown and the change of the residuals, of what their roughness allows
_ALIKE = 0.5
# changes that agree less with each other than this have no direction
_ROUGH = 0.1
# the relative step of a change: many switches are crossed within it
_ACROSS = 1e-2


def smooth_checks(objective: AbstractObjective, theta: Float[Array, " p"]) -> list[Check]:
    """The cosine between the smooth tangent of every unknown and the change of the residuals as they are.

    Smooth tangents are no derivatives of hard residuals, so they cannot agree with differences to a small error. They must
    point the same way, though: a wrong sign anywhere in the smooth twin turns some of them. The changes from a step ahead and
    from a step back cross other switches. Where these two do not agree, the unknown acts through single switches only, and
    nothing can be said.
    """
    worst, culprit, rough = np.inf, "", []
    for functional, own in objective.parts(theta):
        for name, (cosine, reliability) in zip(functional.controls.names(), _cosines(functional, own), strict=True):
            if reliability < _ROUGH:
                rough.append(name)
            elif cosine / reliability < worst:
                worst, culprit = cosine / reliability, name
    if not culprit:
        return []
    remedy = (
        f"the smooth twin does not move with {culprit} as the hard equations do: compare smoothed() with them, or make its "
        f"switches narrower"
    )
    angle, limit = (float(np.degrees(np.arccos(np.clip(c, -1.0, 1.0)))) for c in (worst, _ALIKE))
    found = at_most("degrees between smooth tangents and differences", angle, limit, remedy)
    note = f"too rough to be compared: {', '.join(dict.fromkeys(rough))}" if rough else ""
    return [dataclasses.replace(found, note=note)]


def _cosines(functional: Functional, theta: Float[Array, " p"]) -> list[tuple[float, float]]:
    """For every element of theta the cosine between smooth tangent and change, and what it could be at most."""
    _, base, matrix = NORMAL(functional, theta)
    steps, here = _ACROSS * functional.controls.sizes(theta), RESIDUALS(functional, theta)
    found = []
    for k in range(theta.size):
        e = jnp.zeros(theta.size).at[k].set(steps[k])
        ahead = _measured(functional, RESIDUALS(functional, theta + e) - here)
        back = _measured(functional, here - RESIDUALS(functional, theta - e))
        change = ahead + back
        # <J e_k, change> is how much the gradient grows when the change is added to the residuals
        slope = NORMAL(_with_residuals_added(functional, change), theta)[1][k] - base[k]
        size = float(jnp.linalg.norm(change)) * float(jnp.sqrt(matrix[k, k]))
        alike = over(float(jnp.vdot(ahead, back)), float(jnp.linalg.norm(ahead) * jnp.linalg.norm(back)))
        # the mean of two noisy directions is this near the true one (C. Spearman, Br. J. Psychol. 3:271 (1910))
        reliability = np.sqrt(max(2 * alike / (1 + alike), 0.0)) if np.isfinite(alike) and alike > -1 else 0.0
        cosine = over(float(slope), size)
        found.append((cosine if np.isfinite(cosine) else 0.0, float(reliability)))
    return found


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
