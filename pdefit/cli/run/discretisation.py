"""Discretisation error of an estimate: its first-order shift in every run, and by one more fit where it is asked for."""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pdefit._util.errors import PdefitError
from pdefit.cli.run.experiment import Experiment
from pdefit.cli.run.plan import evaluation_cost
from pdefit.inverse.fit import fit as fitting
from pdefit.inverse.fit.fit import Fit
from pdefit.inverse.fit.unstable_steps import halved
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.uncertainty.control_values import moved
from pdefit.inverse.uncertainty.discretisation import finer_grid, first_order_shift, residual_changes
from pdefit.inverse.uncertainty.intervals import Intervals, intervals
from pdefit.systems.capabilities import AbstractRefinable

# shifts in half widths of an interval: those beyond the first are reported, those beyond the second spoil the interval
NOTED, DECIDES = 0.5, 1.0
# cost (values times steps) that a finer run may always have, and the fraction of the cost of the fit that is allowed beyond
_CHEAP, _SHARE = 2e7, 0.1


def finer_step(functional: Functional, theta: Array) -> Functional:
    """The functional with half of every step; adaptive steps are halved as they are, and not chosen anew."""
    half = halved(functional, theta)[0]
    return eqx.tree_at(lambda f: (f.dt, f.steps), half, (functional.dt / 2, None), is_leaf=lambda x: x is None)


# ways to refine a functional, by their names in files: how messages call it, and the function that does it
FINER: dict[str, tuple[str, Callable[[Functional, Array], Functional]]] = {
    "step": ("half the step", finer_step),
    "grid": ("half the cell width", finer_grid),
}


@dataclasses.dataclass(frozen=True)
class Discretisation:
    """Shifts of an estimate with finer steps and cells.

    **Arguments:**

    - `names` (p,): of the elements of theta.
    - `shifts`: by what is finer (`step`, `grid`), the shifts (p,) in half widths of the intervals; NaN where unknown.
    - `unchecked`: by what is finer, the reason why there is no shift.
    - `untested`: sentences about what could be finer and was not tried.
    - `changes`: by what is finer, the changes of the weighted residuals of every recording.
    - `limit`: sentence about the largest relative change of an estimate; empty where none is known.
    """

    names: list[str]
    shifts: dict[str, np.ndarray]
    unchecked: dict[str, str]
    untested: tuple[str, ...] = ()
    changes: dict[str, list[dict[str, np.ndarray]]] = dataclasses.field(default_factory=dict)
    limit: str = ""

    @property
    def worst(self) -> np.ndarray:
        """The larger shift of every element of theta; NaN where none is known."""
        if not self.shifts:
            return np.full(len(self.names), np.nan)
        each = np.stack(list(self.shifts.values()))
        at = np.argmax(np.where(np.isnan(each), -1.0, np.abs(each)), axis=0)
        return np.take_along_axis(each, at[None], axis=0)[0]

    @property
    def decides(self) -> bool:
        """Whether an estimate moves by more than its interval."""
        return bool(np.any(np.abs(self.worst) > DECIDES))

    def __str__(self) -> str:
        """Sentence about estimates that move by more than half a half width, the worst first; empty without any."""
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

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers and text, for summary.json."""
        found = {
            what: {n: float(x) for n, x in zip(self.names, shift, strict=True) if np.isfinite(x)}
            for what, shift in self.shifts.items()
        }
        return {**found, "unchecked": self.unchecked, "decides": self.decides, "says": str(self)}


def _times(shift: float) -> str:
    """Shift in words.

    Beyond a thousand half widths its digits mean nothing. This happens where data without noise leave intervals of
    round-off.
    """
    return f"{shift:+.2g}" if abs(shift) < 1000 else f"more than {np.sign(shift) * 1000:+.0f}"


def discretisation(exp: Experiment, found: Fit, known: Intervals | None, same_cells: bool = False) -> Discretisation:
    """Shifts of an estimate with half the step, and with half the cell width where that is cheap.

    Each costs one trajectory.

    **Arguments:**

    - `exp`, `found`: the experiment and its fit.
    - `known`: intervals, in whose half widths shifts are measured. Without them, and for data without noise, nothing is
      checked.
    - `same_cells`: whether the data are a twin's on the cells of the model: an estimate with finer ones would miss them.
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
            _refuse_dear(exp, found, finer)
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
        if exp.source.noiseless:
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
    """Sentence about the number that finer steps or cells move the most, relative to itself."""
    numbers = functional.controls.numbers
    k = min(shift.size, theta.size)
    usable = np.isfinite(shift[:k]) & np.isfinite(known.reach[:k]) & numbers[:k]
    by = np.zeros(theta.size)
    by[:k] = np.where(usable, shift[:k] * np.where(usable, known.reach[:k], 0.0), 0.0)
    now, then = (np.asarray(moved(functional.controls, theta, jnp.asarray(x))) for x in (0 * by, by))
    change = np.where(numbers & (now != 0), np.abs(then - now) / np.where(now != 0, np.abs(now), 1.0), 0.0)
    most = int(np.argmax(change))
    return (
        [f"{name} would move {functional.controls.names()[most]} by {change[most]:.1g} of itself"]
        if np.any(change)
        else []
    )


def _refuse_dear(exp: Experiment, found: Fit, finer: AbstractObjective) -> None:
    """Refuse a trajectory that costs a large part of what the fit has cost."""
    before, after = (_work(f) for f in (found.functional, finer))
    each = evaluation_cost(found.functional, exp.stages[-1])
    # half the step takes twice the steps, which is always allowed
    if after > max(_CHEAP, _SHARE * found.iterations * each * before, 2.5 * before):
        raise PdefitError(
            f"it takes {after / before:.0f} times a forward run; pdefit certify RUN discretisation=true takes them"
        )


def steps_of(objective: AbstractObjective) -> int:
    """The number of steps of the longest trajectory, of all recordings."""
    return max(part.layout.time_grid.steps for part, _ in objective.parts(objective.theta0))


def _work(objective: AbstractObjective) -> float:
    """Cost of all trajectories: number of values times number of steps."""
    parts = [part for part, _ in objective.parts(objective.theta0)]
    return sum(float(sum(x.size for x in jax.tree.leaves(f.problem.y0))) * f.layout.time_grid.steps for f in parts)


def refit_finer(exp: Experiment, functional: AbstractObjective, theta: Array, console: Console) -> dict[str, Any]:
    """Fit again with half the step and, where the grid can be refined, with half the cell width.

    Prints a table for each fit, and returns the content of discretisation.json.

    **Arguments:**

    - `exp`: the experiment.
    - `functional`, `theta` (p,): objective of the last stage, and the estimate.
    """
    if not functional.controls.tabulated.items:
        raise PdefitError(
            "No unknown of this run is a number with an interval, so there is nothing to measure a shift by"
        )
    if exp.stages[-1].stop is not None:
        raise PdefitError("This fit may end before its minimum (stop), so that one more fit measures nothing")
    known, found = intervals(functional, theta, sigma_stated=exp.sigma_stated), {}
    states = [c.path for c in functional.controls.states.items]
    for what, (name, finer_of) in FINER.items():
        try:
            if what == "grid" and states:
                raise PdefitError(f"the unknown {', '.join(states)} would have to be refined, too")
            # the fit starts at the estimate
            start = functional.each(lambda part, own, of=finer_of: (_at_estimate(exp, of(part, own), own), own), theta)[
                0
            ]
        except PdefitError as error:
            found[what] = {"unchecked": str(error)}
            console.print(f"{name}: not tried ({escape(str(error))})", highlight=False)
            continue
        console.print(f"one more fit with {name}: {steps_of(start)} steps, compiling ...", highlight=False)
        last = exp.stages[-1]
        again = fitting.fit(start, [fitting.Stage(last.optimizer, last.max_iterations)], driver=exp.driver)
        found[what] = _compared(functional, known, theta, again, what, console)
    return found


def _at_estimate(exp: Experiment, finer: Functional, theta: Array) -> Functional:
    return exp.driver.resolve_for(eqx.tree_at(lambda f: f.problem, finer, finer.at(theta)))


def _compared(
    functional: AbstractObjective, known: Intervals, theta: Array, again: fitting.Fit, what: str, console: Console
) -> dict[str, Any]:
    """Table of one fit, printed, and its content."""
    name, names = FINER[what][0], functional.controls.tabulated.names()
    usable = np.isfinite(known.reach) & (known.reach > 0)
    shift = np.where(
        usable, known.at_points(np.asarray(again.theta - theta)) / np.where(usable, known.reach, 1.0), np.nan
    )
    recorded = again.functional.controls.tabulated
    values = recorded.values(again.theta[: recorded.size])
    finer = np.concatenate([np.zeros(0), *(np.ravel(np.asarray(v)) for v in values.values())])
    table = Table("control", "estimate", f"with {name}", "shift / half width of 95 %", box=None, header_style="bold")
    rows = list(zip(names, known.estimate, finer, shift, strict=False))
    for control, estimate, value, by in rows:
        table.add_row(control, f"{estimate:.7g}", f"{value:.7g}", f"{by:+.2g}" if np.isfinite(by) else "unknown")
    console.print(table)
    shifted = Discretisation(names, {what: shift[: len(names)]}, {})
    console.print(
        escape(str(shifted)) or f"{name} moves no estimate by more than half of a half width", highlight=False
    )
    if not again.converged:
        console.print(f"[yellow]the fit with {name} has not converged, so shifts may be larger[/]", highlight=False)
    return {
        "finer": name,
        "steps": steps_of(again.functional),
        "converged": again.converged,
        "iterations": again.iterations,
        "decides": shifted.decides,
        "controls": {
            control: {
                "estimate": float(estimate),
                "finer": float(value),
                "shift": float(by) if np.isfinite(by) else None,
            }
            for control, estimate, value, by in rows
        },
    }
