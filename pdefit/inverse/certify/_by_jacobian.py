"""Residuals of a small objective near a point, with the Jacobian from its fit."""

from collections.abc import Iterator, Sequence

import jax
import numpy as np
from jaxtyping import Array, Float

from pdefit.inverse.certify._sketch import Sketch, few_sums
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.objective.compiled import EQUATIONS, PARTS, half_square, kinds
from pdefit.inverse.objective.recording_equations import RecordingEquations
from pdefit.inverse.objective.segment_jacobian import ResidualParts, SegmentNormalEquations
from pdefit.inverse.objective.spread import at_points


class ByJacobian:
    """Sketches of residuals and of products with the Jacobian, by the two programs of a small fit.

    For fits by normal equations of a `small` objective. All other residuals use `Sketched`.
    """

    def signs(self, objective: AbstractObjective) -> dict[str, np.ndarray]:
        """The random signs of the residuals of one observation, by variable."""
        data, random = objective.observations, np.random.default_rng(0)
        return {n: random.choice([-1.0, 1.0], data.values[n].shape[data.ts.ndim :]) for n in sorted(data.values)}

    def at(self, objective: AbstractObjective, theta: Array) -> Sketch:
        """Sketch of the residuals at theta."""
        return self._sketch(objective, PARTS(objective, theta))

    def each(self, objective: AbstractObjective, points: Sequence[Array]) -> Iterator[Sketch]:
        """Sketches at several points, on cores that trajectories leave idle."""
        return (self._sketch(objective, parts) for parts in at_points(PARTS, objective, points))

    def push(self, objective: AbstractObjective, theta: Array, v: Array) -> tuple[Sketch, Sketch]:
        """Sketch at theta and its derivative along v, from the Jacobian of the fit."""
        here, moved = _along(jax.device_get(EQUATIONS(objective, theta)[0]), np.asarray(v))
        first, change = self._sketch(objective, here), self._sketch(objective, moved)
        slope = sum(float(np.vdot(r, dr)) for r, dr in zip(kinds(here), kinds(moved), strict=True))
        return first, change._replace(half_square=np.asarray(slope), change=2 * change.half_square)

    def _sketch(self, objective: AbstractObjective, parts: ResidualParts) -> Sketch:
        drawn, (*observed, between) = self.signs(objective), kinds(parts._replace(extra=[]))
        sums = [few_sums(r * drawn[n], r.ndim - drawn[n].ndim) for n, r in zip(parts.observed, observed, strict=True)]
        sizes = [c.size // c.shape[0] for c in objective.controls.nodes]
        gaps = np.split(between, np.cumsum(sizes)[:-1], axis=-1) if sizes else []
        square = np.asarray(half_square(parts))
        return Sketch(tuple(np.ravel(k) for k in [*sums, *gaps, *parts.extra]), square, square)


def _along(
    groups: SegmentNormalEquations | RecordingEquations, v: Float[np.ndarray, " p"]
) -> tuple[ResidualParts, ResidualParts]:
    """Residuals, and their derivatives along v, by the Jacobian in the normal equations."""
    if isinstance(groups, SegmentNormalEquations):
        return _of_record(groups, v)
    # nothing moves what is held
    padded = np.append(v, np.zeros(int(np.max(groups.columns)) + 1))
    each = [jax.tree.map(lambda x, e=e: x[e], groups.each) for e in range(len(groups.columns))]
    pairs = [_of_record(one, padded[mine]) for one, mine in zip(each, groups.columns, strict=True)]
    here, moved = jax.tree.map(lambda *x: np.stack(x), *pairs)
    # every recording has an equal part of what belongs to shared unknowns alone, behind its own residuals
    own, scale = sum(x.shape[1] for x in here.extra), np.sqrt(len(each))
    r, dr = each[0].extra[own:] * scale, each[0].extra_jac[own:] @ padded[groups.columns[0]] * scale
    ends = np.append(r, groups.sum_residuals), np.append(dr, groups.sums @ v)
    return tuple(x._replace(extra=[*x.extra, end]) for x, end in zip((here, moved), ends, strict=True))


def _of_record(groups: SegmentNormalEquations, v: Float[np.ndarray, " p"]) -> tuple[ResidualParts, ResidualParts]:
    """`_along` for one record."""
    assert groups.held is not None
    here, moved = groups.held
    own = v[groups.columns[:, : len(moved.ends)]]
    change = jax.tree.map(lambda x: np.einsum("ks...,sk->s...", x, own), moved[:3])
    extra = np.split(groups.extra_jac @ v, np.cumsum([x.size for x in here.extra])[:-1]) if here.extra else []
    return here, ResidualParts(change[0], change[1], change[2], extra)
