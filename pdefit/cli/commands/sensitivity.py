"""pdefit sensitivity: the effect of each parameter on what is observed."""

from pathlib import Path
from typing import Any

import equinox as eqx
import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pdefit._util.atomic import write_json
from pdefit._util.errors import PdefitError, with_space
from pdefit.analysis.sensitivity import Effect, sensitivity
from pdefit.cli.config.settings import Settings
from pdefit.cli.experiment.build import build_experiment
from pdefit.cli.runtime.progress import RunsProgress
from pdefit.inverse.problem.instrument import ObserveAll
from pdefit.output.pictures.studies import draw_sensitivity
from pdefit.output.store.tables import write_rows

FACTOR = 1.5


def run_sensitivity(settings: Settings, directory: Path, name: str, console: Console) -> None:
    """Rank the parameters of an experiment; writes sensitivity.json, sensitivity.csv and a figure.

    Parameters change around the truth, or around the guess where the truth is unknown, over the fitted frames.

    **Arguments:**

    - `settings`, `name`: the experiment, and its name for tables and files.
    - `directory`: of the run.
    """
    exp = build_experiment(settings)
    functional, ts = exp.alone("sensitivity"), exp.source.record.ts[: exp.fitted]
    problem = functional.problem if exp.truth is None else exp.truth
    if problem.observe.lacks_points:
        # fields are compared where nothing moves
        problem = eqx.tree_at(lambda p: p.observe, problem, ObserveAll())
    with RunsProgress(console) as bar:
        effects = sensitivity(
            problem,
            ts,
            factor=FACTOR,
            solver=functional.runner.solver,
            dt=functional.dt,
            steps=functional.steps,
            said=bar,
        )
    if all(e.left_out for e in effects):
        told = ", ".join(f"{e.parameter}: {e.left_out}" for e in effects)
        raise PdefitError(
            f"{type(problem.system).__name__} has no parameter that is one nonzero number ({told}), so there is "
            f"nothing to scale; choose another experiment"
        )
    paths = [c.path for c in functional.controls.items]
    controls = {path.split(".")[0] for path in paths} | {*paths}
    rows = [_row(k, effect, effect.parameter in controls) for k, effect in enumerate(effects)]
    at = "guess" if exp.truth is None else "truth"
    found = {"experiment": name, "factor": FACTOR, "at": at, "frames": int(ts.size), "parameters": rows}
    write_json(directory / "sensitivity.json", found)
    write_rows(directory / "sensitivity.csv", rows)
    console.print(_table(effects, controls))
    _notes(effects, at, ts, with_space(problem.system.time_unit), console)
    draw_sensitivity(directory / "figures" / "sensitivity.png", directory / "sensitivity.json")
    console.print(
        f"written to {escape(str(directory / 'sensitivity.json'))}, sensitivity.csv and figures/sensitivity.png",
        highlight=False,
    )


def _row(k: int, effect: Effect, is_control: bool) -> dict[str, Any]:
    """Entries of one parameter in a file. An infinite effect is null, as JSON has none; `blows_up` is then true."""
    done = not effect.left_out
    return {
        "rank": k + 1 if done else None,
        "parameter": effect.parameter,
        "unit": effect.unit,
        "value": effect.value,
        "effect_larger": effect.larger,
        "effect_smaller": effect.smaller,
        "blows_up": done and not np.isfinite(effect.size),
        "control": is_control,
        "left_out": effect.left_out,
    }


def _table(effects: list[Effect], controls: set[str]) -> Table:
    table = Table(box=None, header_style="bold")
    for column in ("rank", "parameter", "value", "unit", f"x {FACTOR:g}", f"/ {FACTOR:g}", ""):
        numeric = column not in ("parameter", "unit", "")
        table.add_column(column, justify="right" if numeric else "left", no_wrap=column != "")
    for k, e in enumerate(e for e in effects if not e.left_out):
        values = (f"{e.value:.4g}", escape(e.unit), _shown(e.larger), _shown(e.smaller))
        table.add_row(str(k + 1), e.parameter, *values, "control" if e.parameter in controls else "")
    return table


def _notes(effects: list[Effect], at: str, ts: np.ndarray, unit: str, console: Console) -> None:
    console.print(
        f"effects: rms difference of what is observed, in units of each field's range, around the {at}, over {ts.size} "
        f"frames from {ts[0]:g} to {ts[-1]:g}{unit}",
        highlight=False,
    )
    left_out = [f"{e.parameter} ({e.left_out})" for e in effects if e.left_out]
    if left_out:
        console.print(escape(f"left out: {', '.join(left_out)}"), highlight=False)


def _shown(effect: float | None) -> str:
    if effect is None:
        return ""
    return f"{effect:.2e}" if np.isfinite(effect) else "blows up"
