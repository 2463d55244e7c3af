"""Discretisation error of an estimate: its first-order shift with finer steps and finer cells."""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array

from pdefit._util.errors import PdefitError
from pdefit.inverse.fit.result import Fit
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.uncertainty.control_values import moved
from pdefit.inverse.uncertainty.intervals import Intervals
from pdefit.inverse.uncertainty.shift_with_finer_steps import finer_grid, first_order_shift, residual_changes
from pdefit.systems.capabilities import AbstractRefinable

# shifts in half widths of an interval: those beyond the first are reported, those beyond the second spoil the interval
NOTED, DECIDES = 0.5, 1.0
# cost (values times steps) that a finer run may always have, and the fraction of the cost of the fit that is allowed beyond
_CHEAP, _SHARE = 2e7, 0.1


def finer_step(functional: Functional, theta: Array) -> Functional:
    """The functional with every step halved; adaptive steps are halved too, not chosen anew."""
    half = functional.halved()
    return eqx.tree_at(lambda f: (f.dt, f.steps), half, (functional.dt / 2, None), is_leaf=lambda x: x is None)


# ways to refine a functional, by their names in files: how messages call it, and the function that does it
FINER: dict[str, tuple[str, Callable[[Functional, Array], Functional]]] = {
    "step": ("half the step", finer_step),
    "grid": ("half the cell width", finer_grid),
}


@dataclasses.dataclass(frozen=True)
class Discretisation:
    """Changes of an estimate if the step or the grid is refined.

    **Arguments:**

    - `names` (p,): the names of the elements of theta.
    - `shifts`: the shifts (p,) in half widths of the intervals, by refinement (`step`, `grid`); NaN if unknown.
    - `unchecked`: the reason why there is no shift, by refinement.
    - `untested`: sentences about possible refinements that were not tried.
    - `changes`: the changes of the weighted residuals of every recording, by refinement.
    - `limit`: a message about the largest relative change of an estimate; empty if it is unknown.
    """

    names: list[str]
    shifts: dict[str, np.ndarray]
    unchecked: dict[str, str]
    untested: tuple[str, ...] = ()
    changes: dict[str, list[dict[str, np.ndarray]]] = dataclasses.field(default_factory=dict)
    limit: str = ""

    @property
    def worst(self) -> np.ndarray:
        """The larger shift of every element of theta; NaN if neither is known."""
        if not self.shifts:
            return np.full(len(self.names), np.nan)
        each = np.stack(list(self.shifts.values()))
        at = np.argmax(np.where(np.isnan(each), -1.0, np.abs(each)), axis=0)
        return np.take_along_axis(each, at[None], axis=0)[0]

    @property
    def decides(self) -> bool:
        """True if an estimate moves by more than its interval."""
        return bool(np.any(np.abs(self.worst) > DECIDES))

    def __str__(self) -> str:
        """Sentence about estimates that move by more than half a half width, the worst first; empty if there are none."""
        parts = []
        for what, shift in self.shifts.items():
            order = [i for i in np.argsort(-np.nan_to_num(np.abs(shift))) if abs(shift[i]) > NOTED]
            if order:
                listed = ", ".join(f"{self.names[i]} by {_times(float(shift[i]))}" for i in order[:3])
                more = f" and {len(order) - 3} others" if len(order) > 3 else ""
                parts.append(f"{FINER[what][0]} would move {listed}{more}")
        if not parts:
            return ""
        end = ": there the discretisation decides, and intervals are not to be trusted" if self.decides else ""
        return f"{'; '.join(parts)} half widths of the 95 % intervals{end}"

    def record(self) -> dict[str, Any]:
        """Entries of summary.json."""
        found = {
            what: {n: float(x) for n, x in zip(self.names, shift, strict=True) if np.isfinite(x)}
            for what, shift in self.shifts.items()
        }
        return {**found, "unchecked": self.unchecked, "decides": self.decides, "says": str(self)}


def _times(shift: float) -> str:
    """A shift in words.

    Beyond a thousand half widths the digits are meaningless, since the intervals of noiseless data are mere round-off.
    """
    return f"{shift:+.2g}" if abs(shift) < 1000 else f"more than {np.sign(shift) * 1000:+.0f}"


def discretisation(
    found: Fit, known: Intervals | None, *, same_cells: bool = False, noiseless: bool = False
) -> Discretisation:
    """Shifts of an estimate with half the step, and with half the cell width if that is affordable.

    Each costs one trajectory.

    **Arguments:**

    - `found`: the fit.
    - `known`: its intervals, in whose half widths shifts are measured; without them no shift is computed.
    - `same_cells`, `noiseless`: facts about the data, as in `Known`; default False. Without noise no shift is measured.
    """
    functional, theta = found.functional, found.theta
    shifts, by_far = dict[str, np.ndarray](), list[str]()
    changes: dict[str, list[dict[str, np.ndarray]]] = {}
    unchecked: dict[str, str] = {}
    untested: list[str] = []
    for what, (name, finer_of) in FINER.items():
        if known is None:
            unchecked[what] = "there are no intervals to measure a shift by"
            continue
        if what == "grid" and same_cells:
            unchecked[what] = "the twin has the cells of the model, so that its true values belong to these cells"
            continue
        try:
            finer = functional.each(lambda part, own, of=finer_of: (of(part, own), own), theta)[0]
            _refuse_dear(found, finer)
            change = residual_changes(finer, theta, [one.residuals for one in found.recordings])
            shift = first_order_shift(functional, finer, theta, known, change)
        except PdefitError as error:
            unchecked[what] = str(error)
            if what != "grid" or isinstance(functional.problem.system, AbstractRefinable):
                untested.append(f"{name} was not tried, so whether it would move the estimate is unknown: {error}")
            continue
        if np.all(np.isnan(shift)):
            unchecked[what] = f"the trajectory with {name} is not finite, or no interval is known"
            continue
        changes[what] = change
        by_far += _largest_change(functional, theta, known, shift, name)
        if noiseless:
            # without noise the width of an interval is itself an error of the discretisation
            unchecked[what] = "without noise there are no intervals to measure a shift by"
            continue
        shifts[what] = np.full(theta.size, np.nan)
        # node states have no rows in tables, and no shifts
        few = min(functional.controls.tabulated.size, shift.size)
        shifts[what][:few] = shift[:few]
    names = functional.controls.names()
    return Discretisation(names, shifts, unchecked, tuple(untested), changes, "; ".join(by_far))


def _largest_change(
    functional: AbstractObjective, theta: Array, known: Intervals, shift: np.ndarray, name: str
) -> list[str]:
    """Sentence about the scalar with the largest relative change under finer steps or cells."""
    numbers = functional.controls.numbers
    k = min(shift.size, theta.size)
    usable = np.isfinite(shift[:k]) & np.isfinite(known.reach[:k]) & numbers[:k]
    by = np.zeros(theta.size)
    by[:k] = np.where(usable, shift[:k] * np.where(usable, known.reach[:k], 0.0), 0.0)
    now, then = (np.asarray(moved(functional.controls, theta, x)) for x in (0 * by, by))
    change = np.where(numbers & (now != 0), np.abs(then - now) / np.where(now != 0, np.abs(now), 1.0), 0.0)
    most = int(np.argmax(change))
    return (
        [f"{name} would move {functional.controls.names()[most]} by {change[most]:.1g} of itself"]
        if np.any(change)
        else []
    )


def _refuse_dear(found: Fit, finer: AbstractObjective) -> None:
    """Refuse a trajectory that costs a large fraction of the fit."""
    before, after = (_work(f) for f in (found.functional, finer))
    # half the step takes twice the steps, which is always allowed
    if after > max(_CHEAP, _SHARE * found.iterations * found.cost * before, 2.5 * before):
        raise PdefitError(
            f"it takes {after / before:.0f} times a forward run; pdefit certify RUN discretisation=true takes them"
        )


def _work(objective: AbstractObjective) -> float:
    """Cost of all trajectories: number of values times number of steps."""
    parts = [part for part, _ in objective.parts(objective.theta0)]
    return sum(float(sum(x.size for x in jax.tree.leaves(f.problem.y0))) * f.layout.time_grid.steps for f in parts)
