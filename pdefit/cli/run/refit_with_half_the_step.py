"""Discretisation error of an estimate, by one refit with finer steps and one with finer cells."""

from typing import Any

import numpy as np
from jaxtyping import Array
from rich.console import Console
from rich.markup import escape

from pdefit._util.errors import PdefitError
from pdefit.analysis.goodness.discretisation import FINER, Discretisation
from pdefit.cli.run.experiment import Experiment
from pdefit.cli.runtime.terminal import show_table
from pdefit.inverse.fit import fit as fitting
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.uncertainty.intervals import Intervals, intervals


def steps_of(objective: AbstractObjective) -> int:
    """Number of steps of the longest trajectory of all recordings."""
    return max(part.layout.time_grid.steps for part, _ in objective.parts(objective.theta0))


def refit_finer(exp: Experiment, functional: AbstractObjective, theta: Array, console: Console) -> dict[str, Any]:
    """Fit again with half the step and, if the grid can be refined, with half the cell width.

    Prints a table for each fit, and returns the content of discretisation.json.

    **Arguments:**

    - `exp`: the experiment.
    - `functional`, `theta` (p,): the objective of the last stage, and the estimate.
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
            finer, _ = functional.each(
                lambda part, own, of=finer_of: (exp.driver.resolve_for(of(part, own)), own), theta
            )
            start = finer.guessing(theta)
        except PdefitError as error:
            found[what] = {"unchecked": str(error)}
            console.print(f"{name}: not tried ({escape(str(error))})", highlight=False)
            continue
        console.print(f"one more fit with {name}: {steps_of(start)} steps, compiling ...", highlight=False)
        last = exp.stages[-1]
        again = fitting.fit(start, [fitting.Stage(last.optimizer, last.max_iterations)], driver=exp.driver)
        found[what] = _compared(functional, known, theta, again, what, console)
    return found


def _compared(
    functional: AbstractObjective, known: Intervals, theta: Array, again: fitting.Fit, what: str, console: Console
) -> dict[str, Any]:
    """Print the table of one refit, and return its content."""
    name, names = FINER[what][0], functional.controls.tabulated.names()
    usable = np.isfinite(known.reach) & (known.reach > 0)
    shift = np.where(
        usable, known.at_points(np.asarray(again.theta - theta)) / np.where(usable, known.reach, 1.0), np.nan
    )
    recorded = again.functional.controls.tabulated
    values = recorded.values(again.theta[: recorded.size])
    finer = np.concatenate([np.zeros(0), *(np.ravel(np.asarray(v)) for v in values.values())])
    rows = list(zip(names, known.estimate, finer, shift, strict=False))
    cells = ((c, f"{x:.7g}", f"{y:.7g}", f"{by:+.2g}" if np.isfinite(by) else "unknown") for c, x, y, by in rows)
    show_table(console, ("control", "estimate", f"with {name}", "shift / half width of 95 %"), cells)
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
