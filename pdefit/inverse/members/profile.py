"""Profile likelihoods: a scalar is held at other values, and the remaining unknowns are fitted again."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from pdefit._util.errors import unknown
from pdefit._util.run_state import RunState
from pdefit.inverse.fit.refused_combinations import Choices, refuse
from pdefit.inverse.members._advance_profiles import Profile as Profile
from pdefit.inverse.members._advance_profiles import ProfileRun
from pdefit.inverse.members.member_state import MemberProgress
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.optimizers.base import AbstractOptimizer
from pdefit.inverse.uncertainty.control_values import moved_each
from pdefit.inverse.uncertainty.intervals import Intervals, intervals

# what is said of a side that no rise ends
_WORDS = {
    "bound": "the bound",
    "flat": "the data do not bound it",
    "blown up": "the model blows up beyond",
    "endless": "not followed to its end",
}


@dataclasses.dataclass(frozen=True)
class Profiles(Sequence[Profile]):
    """Profiles of several scalars, with the intervals of the matrix; a sequence of `Profile`.

    **Arguments:**

    - `found`: the profiles.
    - `matrix`: the intervals of all scalars from the Gauss-Newton matrix.
    - `theta`: the estimate, (p,).
    """

    found: tuple[Profile, ...]
    matrix: Intervals
    theta: Float[Array, " p"]

    def __len__(self) -> int:
        return len(self.found)

    def __getitem__(self, i: Any) -> Any:
        return self.found[i]

    def rows(self) -> list[dict[str, Any]]:
        """Table rows, one for each point of each profile."""
        return [
            {"control": one.control, "value": x, "rise": r, "limit": one.limit}
            for one in self.found
            for x, r in zip(one.values.tolist(), one.rise.tolist(), strict=True)
        ]

    def record(self) -> dict[str, Any]:
        """The content of profiles.json: intervals, profiles and parabolas of the matrix, in units of the limit."""
        return {"profiles": [self._entry(one, self.matrix.names.index(one.control)) for one in self.found]}

    def _entry(self, one: Profile, k: int) -> dict[str, Any]:
        sides = zip(("below", "above"), one.ends, strict=True)
        part = np.linspace(-1.5, 1.5, 61)
        changes = np.zeros((part.size, self.theta.size))
        changes[:, k] = part * float(self.matrix.reach[k])
        values = moved_each(self.matrix.controls, np.broadcast_to(self.theta, changes.shape), changes)[:, k]
        return {
            "control": one.control,
            "unit": self.matrix.units[k],
            "estimate": self.matrix.estimate[k],
            "low": one.low,
            "high": one.high,
            "ends": one.ends,
            "matrix_low": self.matrix.low[k],
            "matrix_high": self.matrix.high[k],
            "remark": "; ".join(f"{side}: {_WORDS[end]}" for side, end in sides if end in _WORDS),
            "values": one.values,
            "rise": one.rise / one.limit,
            "matrix_values": np.asarray(values),
            "matrix_rise": part**2,
        }


def check_profile(functional: AbstractObjective) -> None:
    """Refuse a fit whose scalars cannot be profiled."""
    refuse(Choices.of(functional, (), "profile"))


def profiles(
    functional: AbstractObjective,
    theta: Float[Array, " p"],
    names: Sequence[str] | None = None,
    *,
    level: float = 0.95,
    sigma_stated: bool = False,
    optimizer: AbstractOptimizer | None = None,
    devices: Sequence[Any] = (),
    callback: Callable[[MemberProgress], None] | None = None,
    resume: RunState | None = None,
) -> Profiles:
    """Profiles of scalars, with intervals whose ends are where noise no longer explains the increase of J.

    For scalars whose Gauss-Newton intervals are doubtful: wide intervals, products, bounds, scalars that data limit on
    one side only. Not if those intervals are narrow: they agree with the profile, and cost nothing.

    Weights are those of the fit. If the noise follows the prediction, as for counts, Gauss-Newton intervals are closer
    to the likelihood.

    Both sides of all scalars advance together, one point at a time, in one program. Steps adapt to the increase of J.

    **Arguments:**

    - `functional`, `theta`: the fit and its estimate, (p,).
    - `names`: the names of scalars or of whole controls; default all scalars.
    - `level`: the confidence level; default 0.95.
    - `sigma_stated`: whether sigma was known before the fit, so that residuals can only widen intervals.
    - `optimizer`: the optimizer of the remaining unknowns; by default Levenberg-Marquardt, for many unknowns
      Gauss-Newton with conjugate gradients.
    - `devices`: devices that share the work.
    - `callback`: a function called after every few evaluations.
    - `resume`: a state that a callback saved in an earlier call with the same arguments.

    **Errors:** PdefitError for names that are not scalars, and if the record is cut into segments.

    Source: S. A. Murphy, A. W. van der Vaart, J. Am. Stat. Assoc. 95:449 (2000), doi:10.1080/01621459.2000.10474219.
    """
    check_profile(functional)
    run = ProfileRun(functional, np.asarray(theta), elements(functional, names), optimizer, tuple(devices), callback)
    limit = run.limit(level, sigma_stated)
    if resume is not None:
        run.restore(resume)
    while run.active.any() or run.inner is not None:
        run.advance(limit)
    matrix = intervals(functional, theta, level, sigma_stated=sigma_stated)
    return Profiles(tuple(run.profile(i, limit) for i in range(len(run.numbers))), matrix, jnp.asarray(theta))


def elements(functional: AbstractObjective, names: Sequence[str] | None) -> Int[np.ndarray, " k"]:
    """Indices in theta of named scalars, or of whole controls; by default of all scalars.

    **Arguments:** `functional`, `names`: as in `profiles`.
    """
    known, numbers = functional.controls.names(), functional.controls.numbers
    if names is None:
        return np.flatnonzero(numbers)
    found = list[int]()
    for name in names:
        here = [i for i, n in enumerate(known) if numbers[i] and (n == name or n.startswith((f"{name}.", f"{name}[")))]
        if not here:
            raise unknown("number", name, [n for i, n in enumerate(known) if numbers[i]])
        found += here
    return np.array([*dict.fromkeys(found)])
