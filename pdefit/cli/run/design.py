"""The design of an experiment before there are data, as `pdefit design`."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pdefit._util.atomic import write_json
from pdefit._util.errors import PdefitError, unknown, with_space
from pdefit.analysis.design.design import design
from pdefit.analysis.design.result import LOST, Candidate, Design
from pdefit.cli.config.settings import Job
from pdefit.cli.run.build import build_experiment
from pdefit.cli.run.experiment import Experiment
from pdefit.cli.run.parameters import true_theta
from pdefit.inverse.shooting.formulation import Single
from pdefit.output.pictures.design import draw_design
from pdefit.output.store.tables import number, write_rows

# rows that are printed, and candidates of a kind among them
_SHOWN, _EACH = 40, {"frame": 1, "field": 6, "place": 1, "recording": 1}


def run_design(job: Job, options: dict[str, str]) -> None:
    """Tell what an experiment would tell before there are data; writes design.json, design.csv and a figure."""
    if job.settings.members:
        raise PdefitError("design works on one fit; set members=null, and data.path to one of the files")
    if (at := options["at"]) not in ("guess", "truth"):
        raise unknown("point (at)", at, ("guess", "truth"))
    if job.settings.twin is not None and job.settings.twin.noise == 0:
        raise _without_noise("the twin")
    exp, console = build_experiment(job.settings), job.console
    functional = exp.alone("design")
    if unstated := [name for name in exp.source.unstated if name in functional.observed]:
        raise _without_noise(", ".join(unstated))
    with console.status("one tangent solve with all that could be seen", spinner="line"):
        found = design(functional, _point(exp, at), target=options["for"] or None)
    unit = functional.problem.system.time_unit
    directory = job.directory
    rows = [_row("now", "as planned", found, found.half)]
    rows += [_row(c.kind + " 2" * c.is_second, c.words, found, c.half, c) for c in found.candidates]
    rows += [_row("cadence", f"every {c.every:g} frames", found, c.half) | {"frames": c.frames} for c in found.cadences]
    write_rows(directory / "design.csv", rows)
    write_json(directory / "design.json", _content(found, at, unit) | {"experiment": job.name})
    draw_design(directory / "figures" / "design.png", directory / "design.json")
    _print(found, at, console, unit)
    if not isinstance(functional.formulation, Single):
        console.print(
            "the record is taken as one trajectory from its start; a fit in segments learns less", highlight=False
        )
    if exp.source.noise:
        console.print(f"the noise of {', '.join(exp.source.noise)} was estimated from the data", highlight=False)
    console.print(
        f"written to {escape(str(directory / 'design.csv'))}, design.json and figures/design.png", highlight=False
    )
    console.print(f"[bold]{escape(found.sentence(_shown(unit)))}[/]", highlight=False, soft_wrap=True)


def _without_noise(what: str) -> PdefitError:
    return PdefitError(
        f"A design expects the noise of {what}; set noise=0.02 (a part of the range of each variable), or data.sigma"
    )


def _point(exp: Experiment, at: str) -> Any:
    if at == "guess":
        return exp.functional.theta0
    theta = true_theta(exp, exp.functional)
    if not np.all(np.isfinite(theta)):
        raise PdefitError("at=truth expects a twin with true values of all unknowns; leave it out for the guess")
    return jnp.asarray(theta)


def _shown(unit: str) -> str:
    return with_space(unit).strip()


def _row(kind: str, words: str, found: Design, half: np.ndarray, one: Candidate | None = None) -> dict[str, Any]:
    """Entries of one line of the table; infinite intervals are empty."""
    known = {} if one is None else {"variable": one.variable, "time": one.time}
    known |= (
        {} if one is None else {f"shrink {n}": number(x) for n, x in zip(found.names, found.shrink(one), strict=True)}
    )
    halves = {f"half {n}": number(x) for n, x in zip(found.names, half, strict=True)}
    return {"kind": kind, "what": words, "variable": "", "time": None, "frames": None, **halves} | known


def _content(found: Design, at: str, unit: str) -> dict[str, Any]:
    """The content of design.json, from which the figure is drawn."""
    intervals = zip(found.names, found.units, found.estimate, found.low, found.high, found.half, strict=True)
    columns = ("control", "unit", "value", "low", "high", "half")
    enough = found.enough
    return {
        "at": at,
        "target": found.names[found.target],
        "undetermined": found.undetermined,
        "sentence": found.sentence(_shown(unit)),
        "time_unit": unit,
        "times": found.ts.tolist(),
        "lost": LOST,
        "enough": None if enough is None else enough.every,
        "intervals": [
            dict(zip(columns, (*row[:2], *map(number, row[2:])), strict=True)) for row in intervals
        ],
        "candidates": [
            {
                "kind": c.kind,
                "what": c.words,
                "variable": c.variable,
                "time": c.time,
                "place": c.place,
                "axes": c.axes,
                "second": c.is_second,
                "half": [number(x) for x in c.half],
                "shrink": [number(x) for x in found.shrink(c)],
            }
            for c in found.candidates
        ],
        "cadences": [
            {"every": c.every, "frames": c.frames, "half": [*map(number, c.half)], "lost": [*map(number, c.lost)]}
            for c in found.cadences
        ],
    }  # fmt: skip


def _print(found: Design, at: str, console: Console, unit: str) -> None:
    table = Table(box=None, header_style="bold")
    for name in ("control", "value", "95 %", "unit"):
        table.add_column(name, justify="left" if name in ("control", "unit") else "right", no_wrap=True)
    for k, name in list(enumerate(found.names))[:_SHOWN]:
        width = found.width(k=k)
        cell = f"[yellow]{width}[/]" if width == "undetermined" else width
        table.add_row(escape(name), f"{found.estimate[k]:.5g}", cell, escape(found.units[k]))
    console.print(table)
    more = f"; {len(found.names) - _SHOWN} more in design.csv" if len(found.names) > _SHOWN else ""
    console.print(f"intervals to expect at the {at}, with the stated noise and priors{more}", highlight=False)
    name = found.names[found.target]
    table = Table(box=None, header_style="bold")
    for column in ("beside the record", name, "shrinks to", "others, at best"):
        table.add_column(column, justify="left" if column == "beside the record" else "right")
    others = np.arange(len(found.names)) != found.target
    for kind, most in _EACH.items():
        own = [c for c in found.candidates if c.kind == kind and not c.is_second][:most]
        for one in (*own, *filter(None, [found.best(kind, second=True)])):
            shrink = found.shrink(one)
            best = f"{shrink[others].min():.3f}" if others.any() else ""
            table.add_row(escape(one.words), found.width(one.half), f"{shrink[found.target]:.3f}", best)
    console.print(table)
    table = Table(box=None, header_style="bold")
    for column in ("cadence", "frames that tell", name, "beyond fewer values"):
        table.add_column(column, justify="left" if column == "cadence" else "right")
    for one in found.cadences:
        words = (
            "as planned" if one.every == 1 else f"every {one.every:g}" if one.every > 1 else f"{1 / one.every:g} times"
        )
        lost = float(np.max(one.lost))
        cell = f"[yellow]{lost:.2f}[/]" if lost > LOST else f"{lost:.2f}"
        table.add_row(words, str(one.frames), found.width(one.half), cell)
    console.print(table)
    enough = found.enough
    if enough is not None and enough is not [c for c in found.cadences if c.every >= 1][-1]:
        console.print(
            f"fewer frames than every {enough.every:g} would lose more than their number explains", highlight=False
        )
