"""The results of many fits: estimates and their uncertainty."""

import dataclasses
import functools
from typing import NamedTuple

import jax
import numpy as np
import scipy
from jaxtyping import Bool, Float, Int

from pdefit._util.program import Program
from pdefit.data.known import Known
from pdefit.inverse.controls.bounds import Bounds
from pdefit.inverse.linear.determined_inverse import standard_errors
from pdefit.inverse.members import _batch
from pdefit.inverse.members.members import Members
from pdefit.inverse.uncertainty.control_values import moved_each
from pdefit.inverse.uncertainty.intervals import OPEN, changes_by_e

# J of two ends that are one minimum are equal to this part
_SAME = 1e-3
_VALUES = Program(lambda controls, thetas: jax.vmap(controls.values)(thetas))


class MemberIntervals(NamedTuple):
    """Uncertainty of the unknowns of every member.

    **Arguments:**

    - `error`: standard errors in search space, (E, p); infinite if the data determine nothing, NaN at a bound.
    - `estimate`, `low`, `high`: physical values with the ends of their intervals, (E, p).
    - `reach`: half widths of the intervals in search space, (E, p).
    - `degrees`: the degrees of freedom of each member, (E,).
    """

    error: Float[np.ndarray, "E p"]
    estimate: Float[np.ndarray, "E p"]
    low: Float[np.ndarray, "E p"]
    high: Float[np.ndarray, "E p"]
    reach: Float[np.ndarray, "E p"]
    degrees: Int[np.ndarray, " E"]


@dataclasses.dataclass(frozen=True)
class MemberFits:
    """Result of many fits.

    **Arguments:**

    - `members`: the objectives, with the windows of the last stage.
    - `theta`: the best point of each member, (E, p).
    - `loss`: J there, (E,); infinite if the model blew up.
    - `converged`: whether the optimizer found a minimum, for each member.
    - `evaluations`: the number of evaluations in all stages, for each member.
    - `gradient`, `matrix`: J_r^T r and J_r^T J_r there, (E, p) and (E, p, p); the matrix is None for many unknowns.
    - `start`: the index of the start of each member's result, (E,); 0 is its guess.
    - `known`: facts about the data of each, for the verdicts; default `Known()`.
    """

    members: Members
    theta: Float[np.ndarray, "E p"]
    loss: Float[np.ndarray, " E"]
    converged: Bool[np.ndarray, " E"]
    evaluations: Int[np.ndarray, " E"]
    gradient: Float[np.ndarray, "E p"]
    matrix: Float[np.ndarray, "E p p"] | None
    start: Int[np.ndarray, " E"]
    known: Known = Known()

    def improved(self, which: Int[np.ndarray, " k"], again: "MemberFits") -> "MemberFits":
        """The fits, with some members replaced by fits from other starts that ended lower, or in the minimum nearby.

        **Arguments:**

        - `which`: the indices of those members.
        - `again`: their fits, the same number for each, member after member.
        """
        each = again.loss.size // which.size
        number = np.argmin(again.loss.reshape(-1, each), axis=1)
        best = np.arange(which.size) * each + number
        lower = again.loss[best] < self.loss[which]
        settled = again.converged[best] & ~self.converged[which] & (again.loss[best] <= (1 + _SAME) * self.loss[which])
        taken = lower | settled
        parts = {"theta": again.theta, "loss": again.loss, "converged": again.converged, "gradient": again.gradient}
        parts |= {} if again.matrix is None else {"matrix": again.matrix}
        changed = {name: np.array(getattr(self, name)) for name in (*parts, "evaluations", "start")}
        for name, x in parts.items():
            changed[name][which[taken]] = x[best[taken]]
        changed["start"][which[taken]] = number[taken] + 1
        changed["evaluations"][which] += again.evaluations.reshape(-1, each).sum(axis=1)
        return dataclasses.replace(self, **changed)

    @property
    def values(self) -> dict[str, np.ndarray]:
        """The estimate of every control by path, with a leading axis of the members."""
        found = _VALUES(self.members.controls, self.theta)
        return {path: np.asarray(x) for path, x in found.items()}

    @functools.cached_property
    def residuals(self) -> dict[str, np.ndarray]:
        """Weighted residuals of the data of each member at its estimate, by variable, (E, S, I, ...)."""
        return {name: np.asarray(x) for name, x in _batch.residuals(self.members, self.theta).items()}

    @functools.cached_property
    def chi2(self) -> Float[np.ndarray, " E"]:
        """Sum of squared weighted residuals of the data of each member, without priors and regularizers."""
        return 2 * (self.loss - self._counts[1])

    @functools.cached_property
    def observed_values(self) -> Int[np.ndarray, " E"]:
        """Number of measured values of each member."""
        return self._counts[0]

    @functools.cached_property
    def _counts(self) -> tuple[np.ndarray, np.ndarray]:
        """The number of measured values, and the part of J from priors and regularizers, of each member."""
        count, extra = _batch.counts(self.members, self.theta)
        return np.asarray(count), np.asarray(extra)

    @functools.cached_property
    def free(self) -> Bool[np.ndarray, "E p"]:
        """Mask of the elements of theta of every member that are at no bound."""
        return Bounds(*self.members.boxes).free(self.theta)

    @property
    def blown_up(self) -> Bool[np.ndarray, " E"]:
        """Mask of the members without a finite evaluation."""
        return ~np.isfinite(self.loss)

    def intervals(self, level: float = 0.95, *, sigma_stated: bool = False) -> MemberIntervals:
        """Intervals of every member from its Gauss-Newton matrix, as in `pdefit.intervals` for one trajectory.

        **Arguments:**

        - `level`: the probability of an interval; default 0.95.
        - `sigma_stated`: whether sigma was known before the fit, so that residuals may widen intervals only.
        """
        degrees = np.maximum(self.observed_values - self.free.sum(axis=1), 1)
        variance = self.chi2 / degrees
        half, error = np.full((2, *self.theta.shape), np.nan)
        if self.matrix is not None:
            known = standard_errors(self.matrix, self.free)
            unknown = ~np.isfinite(known)
            known[unknown] = 0.0
            quantile = scipy.special.stdtrit(degrees, (1 + level) / 2)
            error = known * np.sqrt(np.where(np.isfinite(variance), variance, 0.0))[:, None]
            half = error * quantile[:, None]
            if sigma_stated:
                error = np.maximum(error, known)
                half = np.maximum(half, scipy.special.ndtri((1 + level) / 2) * known)
            unknown |= half > OPEN * changes_by_e(self.members.controls)
            error[unknown] = half[unknown] = np.inf
            none = self.blown_up[:, None] | ~self.free
            error[none] = half[none] = np.nan
        ends = (moved_each(self.members.controls, self.theta, by) for by in (0 * self.theta, -half, half))
        estimate, low, high = map(np.asarray, ends)
        return MemberIntervals(error, estimate, low, high, half, degrees)
