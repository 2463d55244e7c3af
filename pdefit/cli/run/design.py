"""Experimental design before there are data, as `pdefit design`."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.markup import escape

from pdefit._util.errors import PdefitError, unknown
from pdefit.analysis.design.design import design
from pdefit.analysis.design.result import LOST, Design
from pdefit.cli.config.settings import Job
from pdefit.cli.run.build import build_experiment
from pdefit.cli.run.experiment import Experiment
from pdefit.cli.run.source import true_theta
from pdefit.cli.run.write import write
from pdefit.cli.runtime.terminal import say, show_table
from pdefit.inverse.shooting.formulation import Single
from pdefit.output.pictures.design import DESIGN

# rows that are printed, and candidates of a kind among them
_SHOWN, _EACH = 40, {"frame": 1, "field": 6, "place": 1, "recording": 1}


def run_design(job: Job, options: dict[str, str]) -> None:
    """Predict the intervals of an experiment before there are data; writes design.json, design.csv and a figure."""
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
    _print(found, at, console)
    if not isinstance(functional.formulation, Single):
        say(console, "the record is taken as one trajectory from its start; a fit in segments learns less")
    if exp.source.noise:
        say(console, f"the noise of {', '.join(exp.source.noise)} was estimated from the data")
    files = ("design.csv", "design.json", "figures/design.png")
    write(found, job, files, DESIGN, about={"experiment": job.name, "at": at})
    console.print(f"[bold]{escape(found.sentence())}[/]", highlight=False, soft_wrap=True)


def _without_noise(what: str) -> PdefitError:
    return PdefitError(
        f"A design expects the noise of {what}; set noise=0.02 (a part of the range of each variable), or data.sigma"
    )


def _point(exp: Experiment, at: str) -> Any:
    if at == "guess":
        return exp.functional.theta0
    theta = true_theta(exp.functional.controls, exp.true_value)
    if not np.all(np.isfinite(theta)):
        raise PdefitError("at=truth expects a twin with true values of all unknowns; leave it out for the guess")
    return jnp.asarray(theta)


def _print(found: Design, at: str, console: Console) -> None:
    each = [(name, found.estimate[k], found.width(k=k), found.units[k]) for k, name in enumerate(found.names)][:_SHOWN]
    rows = [(escape(n), f"{x:.5g}", _marked(width, width == "undetermined"), escape(u)) for n, x, width, u in each]
    show_table(console, ("control", ">value", ">95 %", "unit"), rows)
    more = f"; {len(found.names) - _SHOWN} more in design.csv" if len(found.names) > _SHOWN else ""
    say(console, f"intervals to expect at the {at}, with the stated noise and priors{more}")
    name, others, rows = found.names[found.target], np.arange(len(found.names)) != found.target, []
    for kind, most in _EACH.items():
        own = [c for c in found.candidates if c.kind == kind and not c.is_second][:most]
        for one in (*own, *filter(None, [found.best(kind, second=True)])):
            shrink = found.shrink(one)
            best = f"{shrink[others].min():.3f}" if others.any() else ""
            rows.append((escape(one.words), found.width(one.half), f"{shrink[found.target]:.3f}", best))
    show_table(console, ("beside the record", f">{name}", ">shrinks to", ">others, at best"), rows)
    rows = []
    for one in found.cadences:
        words = (
            "as planned" if one.every == 1 else f"every {one.every:g}" if one.every > 1 else f"{1 / one.every:g} times"
        )
        lost = float(np.max(one.lost))
        rows.append((words, str(one.frames), found.width(one.half), _marked(f"{lost:.2f}", lost > LOST)))
    show_table(console, ("cadence", ">frames that tell", f">{name}", ">beyond fewer values"), rows)
    enough = found.enough
    if enough is not None and enough is not [c for c in found.cadences if c.every >= 1][-1]:
        say(console, f"fewer frames than every {enough.every:g} would lose more than their number explains")


def _marked(text: str, is_doubtful: bool) -> str:
    return f"[yellow]{text}[/]" if is_doubtful else text
