"""Errors estimated from what a fit leaves over."""

import equinox as eqx
import numpy as np
from jaxtyping import Array

from pdefit.inverse.objective.abstract import Objective
from pdefit.inverse.objective.functional import Functional


class Reweight(eqx.Module):
    """Iteratively reweighted least squares: sigma is the root mean square residual of a group, or what was measured if that
    is more (residuals contain the noise, so the two are not added).

    A model that leaves something out misfits some observations more than their noise; this keeps them from dominating.
    Only observations are weighed again, jumps between segments keep their deviation.
    `axes` are the axes of a variable, after time, whose entries have a residual level of their own (e.g. the bodies);
    one level is shared along all others. Repeated until no sigma changes by more than `tolerance`, or `rounds` times.
    """

    axes: tuple[int, ...] = eqx.field(converter=tuple, default=())
    rounds: int = 10
    tolerance: float = 0.02

    def apply(self, functional: Objective, theta: Array) -> tuple[Objective, float]:
        """The objective with new sigma, of each recording by itself, and the largest relative change."""
        changes = []

        def one(part: Functional, own: Array) -> tuple[Functional, Array]:
            new, change = self._one(part, own)
            changes.append(change)
            return new, own

        return functional.each(one, theta)[0], max(changes)

    def _one(self, functional: Functional, theta: Array) -> tuple[Functional, float]:
        data = functional.observations
        unit = functional.reweighted({n: np.ones(()) for n in data.sigma})
        sums = eqx.filter_jit(Functional.squared_residuals)(unit, theta)
        new, change = {}, 0.0
        for name, squares in sums.items():
            seen = np.asarray(functional.fitted(name))
            pooled = tuple(a for a in range(squares.ndim) if a < 2 or a - 2 not in self.axes)
            level = np.asarray(squares).sum(axis=pooled, keepdims=True) / np.maximum(
                seen.sum(axis=pooled, keepdims=True), 1
            )
            level = level.reshape(level.shape[1:])
            old = np.asarray(data.sigma[name])
            measured = np.asarray(functional.measured_sigma[name])
            sigma = np.sqrt(np.maximum(measured**2, level))
            change = max(change, float(np.max(np.abs(sigma / old - 1))))
            new[name] = sigma
        return functional.reweighted(new), change
