"""Checks of smooth tangents of hard residuals: agreement in direction and length with the change of the residuals."""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pdefit.inverse.certify._record import Check, at_most, over
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.objective.compiled import PARTS, normal_equations
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.uncertainty.shift_with_finer_steps import with_residuals_moved

# cosine between the tangent of an unknown and the change of the residuals, and the ratio of their lengths
_ALIKE, _AS_LONG = 0.5, 1.5
# where the changes ahead and back agree less than this, they define no direction (the first) or no length (the second)
_ROUGH, _MEASURED = 0.1, 0.5
# the relative step of a change: many switches are crossed within it
_ACROSS = 1e-2


class _Pair(NamedTuple):
    """The smooth tangent of an unknown compared with the change of the residuals.

    The fields are the name of the unknown, the cosine between the two, the ratio of their lengths, and the largest
    cosine that the roughness of the change allows.
    """

    name: str
    cosine: float
    ratio: float
    reliability: float

    @property
    def factor(self) -> float:
        """Factor by which the tangent is too long or too short.

        Noise lengthens a rough change; this is corrected.
        """
        ratio = self.ratio / max(self.reliability, 1e-300)
        return max(ratio, 1 / ratio) if ratio > 0 and np.isfinite(ratio) else float("inf")

    @property
    def degrees(self) -> float:
        """Angle between tangent and change in degrees, corrected for roughness."""
        return float(np.degrees(np.arccos(np.clip(self.cosine / self.reliability, -1.0, 1.0))))


def smooth_checks(objective: AbstractObjective, theta: Float[Array, " p"]) -> list[Check]:
    """Checks of the smooth tangent of every unknown against the change of the residuals: direction and length.

    Smooth tangents are no derivatives of hard residuals, so they cannot agree with differences to a small error. But
    they must have about the same direction and length. A wrong sign anywhere in the smooth twin turns some of them, and
    a wrong length makes intervals wrong.

    A forward and a backward step cross different switches. If their changes disagree, the unknown acts only through
    single switches, and no statement is possible.

    **Arguments:**

    - `objective`: the objective with smooth tangents.
    - `theta`: the point, (p,).
    """
    pairs = [pair for functional, own in objective.parts(theta) for pair in _pairs(functional, own)]
    smooth, long = ([p for p in pairs if p.reliability >= r] for r in (_ROUGH, _MEASURED))
    rough = list(dict.fromkeys(p.name for p in pairs if p.reliability < _ROUGH))
    checks = []
    if smooth:
        worst = max(smooth, key=lambda p: p.degrees)
        name, limit = "degrees between smooth tangents and differences", float(np.degrees(np.arccos(_ALIKE)))
        check = at_most(name, worst.degrees, limit, _remedy(worst))
        note = f"too rough to be compared: {', '.join(rough)}" if rough else ""
        checks.append(dataclasses.replace(check, note=note))
    if long:
        worst = max(long, key=lambda p: p.factor)
        checks.append(at_most("length of smooth tangents to differences", worst.factor, _AS_LONG, _remedy(worst)))
    return checks


def _remedy(pair: _Pair) -> str:
    return (
        f"the smooth twin does not move with {pair.name} as the hard equations do: compare smoothed() with them, or make its "
        f"switches narrower"
    )


def _pairs(functional: Functional, theta: Float[Array, " p"]) -> list[_Pair]:
    """Comparisons for every element of theta."""
    _, base, matrix = normal_equations(functional, theta)
    steps, here = _ACROSS * functional.controls.sizes(theta), PARTS(functional, theta).observed
    pairs = []
    for k, name in enumerate(functional.controls.names()):
        e = jnp.zeros(theta.size).at[k].set(steps[k])
        ahead = _less(PARTS(functional, theta + e).observed, here)
        back = _less(here, PARTS(functional, theta - e).observed)
        change = jax.tree.map(jnp.add, ahead, back)
        # <J e_k, change> is how much the gradient grows when the change is added to the residuals
        slope = float(normal_equations(with_residuals_moved(functional, change), theta)[1][k] - base[k])
        length, tangent = _norm(change), float(jnp.sqrt(matrix[k, k]))
        alike = over(_dot(ahead, back), _norm(ahead) * _norm(back))
        # the mean of two noisy directions is this near the true one (C. Spearman, Br. J. Psychol. 3:271 (1910))
        reliability = float(np.sqrt(max(2 * alike / (1 + alike), 0.0))) if np.isfinite(alike) and alike > -1 else 0.0
        cosine, ratio = over(slope, length * tangent), over(2 * float(steps[k]) * tangent, length)
        pairs.append(_Pair(name, cosine if np.isfinite(cosine) else 0.0, ratio, reliability))
    return pairs


def _less(a: dict[str, Array], b: dict[str, Array]) -> dict[str, Array]:
    return jax.tree.map(jnp.subtract, a, b)


def _dot(a: dict[str, Array], b: dict[str, Array]) -> float:
    return sum(float(jnp.vdot(a[name], b[name])) for name in a)


def _norm(a: dict[str, Array]) -> float:
    return _dot(a, a) ** 0.5
