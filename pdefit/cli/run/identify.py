"""Identifiability of the unknowns of an experiment, or of a run, as `pdefit identify`."""

import dataclasses

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from rich.console import Console
from rich.markup import escape

from pdefit._util.atomic import plain
from pdefit._util.errors import PdefitError
from pdefit.analysis.identifiability.compensation import with_compensations
from pdefit.analysis.identifiability.identify import Identifiability, identify
from pdefit.cli.config.settings import Job
from pdefit.cli.run.build import build_experiment
from pdefit.cli.run.experiment import Experiment
from pdefit.cli.run.recorded import at_best, open_fit
from pdefit.cli.run.write import write
from pdefit.cli.runtime.terminal import RunsProgress, say, show_table
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.objective.compiled import sum_of_squares, weighted
from pdefit.output.pictures.identifiability import IDENTIFIABILITY
from pdefit.output.store.fit_checkpoint import Saved
from pdefit.output.store.runs import RunFiles
from pdefit.output.store.tables import number, number_in, rows_of, write_rows

# the change of a control, as a part of its size, whose effect is shown
_CHANGE = 0.1
_CURVE = "identifiability_curve.csv"
# noise as a part of the range of the data, where none is stated
_UNSTATED = 1e-3
# starts whose J is above the best by at most this many times the variance are as good: the 95 % limit of one unknown
_AS_GOOD = 1.92
# rows that are printed
_SHOWN = 40


def run_identify(job: Job, saved: Saved | None = None) -> None:
    """Analyse identifiability at the guess or at the estimate; writes identifiability.json, csv and a figure.

    **Arguments:** `job`, `saved`: the experiment and its run, and the checkpoint of its fit.
    """
    if job.settings.members:
        raise PdefitError("identify works on one fit; set members=null, and data.path to one of the files")
    exp, console, at = build_experiment(job.settings), job.console, "guess" if saved is None else "estimate"
    objective, theta = at_best(exp, saved)
    theta = jnp.asarray(theta)
    noise = _noise(exp, objective, theta, at)
    with RunsProgress(console) as bar:
        found = identify(objective, theta, noise=noise, said=bar)
    with RunsProgress(console) as bar:
        found = with_compensations(objective, theta, found, by=_CHANGE, said=bar)
    found = dataclasses.replace(found, spread=_spread(RunFiles(job.directory), noise))
    _print(found, at, console)
    write_rows(job.directory / _CURVE, plain(found.curves()))
    files = ("identifiability.csv", "identifiability.json", "figures/identifiability.png")
    about = {"experiment": job.name, "at": at}
    write(found, job, files, IDENTIFIABILITY, about=about, more=f", the ranks to {_CURVE}")


def run_identify_on_a_run(arguments: list[str], console: Console) -> None:
    """Analyse identifiability at the best point of a run."""
    run_identify(*open_fit(arguments, "identify", console, ", or pdefit identify experiment=..."))


def _noise(exp: Experiment, objective: AbstractObjective, theta: Array, at: str) -> float:
    """Size of the noise in units of sigma: at an estimate the root mean square residual, at a guess 1 if noise is known.

    It is at least 1 if sigma is stated, and a small number otherwise.
    """
    known = exp.sigma_stated
    least = 1.0 if known else _UNSTATED
    if at == "guess":
        return 1.0 if known or exp.source.noise else least
    squares = sum(sum_of_squares(weighted(*part)) for part in objective.parts(theta))
    values = objective.observed_values
    # unknowns that the data do not determine take no part of the freedom
    used = min(objective.controls.tabulated.size, values // 2)
    return max(float(np.sqrt(squares / (values - used))), least)


def _spread(files: RunFiles, noise: float) -> dict[str, float]:
    """Range of every scalar over the starts as good as the best, relative to its size there; by name."""
    if not files.has("starts.csv"):
        return {}
    with rows_of(files.path("starts.csv")) as every:
        rows = [row for row in every if row["loss"]]
        losses = np.asarray([number_in(row, "loss") for row in rows])
        good = [row for row, loss in zip(rows, losses, strict=True) if loss <= losses.min() + _AS_GOOD * noise**2]
        ends = {name.removesuffix(" start"): name for name in (good[0] if good else {}) if name.endswith(" start")}
        values = {name: np.asarray([number_in(row, name) for row in good]) for name in ends}
    return {name: float(np.ptp(x) / np.max(np.abs(x))) for name, x in values.items() if np.any(x)}


def _print(found: Identifiability, at: str, console: Console) -> None:
    both = list(zip(found.rows(), found.controls, strict=True))
    starts = any(row["spread_over_starts"] is not None for row, _ in both)
    columns = ("control", ">unseen", ">known to", ">alone", ">adjusted", *([">starts"] if starts else []), "verdict")
    # what is not determined is told first, where there are many
    both = both if len(both) <= _SHOWN else sorted(both, key=lambda r: r[1].word == "identifiable")[:_SHOWN]
    lines = []
    for row, one in both:
        many = f" ({row['unknowns']})" if row["unknowns"] > 1 else ""
        cells = [_shown(row[key]) for key in ("moved_alone", "moved_compensated")]
        if starts:
            cells.append("" if row["spread_over_starts"] is None else f"{100 * row['spread_over_starts']:.2g} %")
        color = "green" if row["word"] == "identifiable" else "yellow"
        verdict = f"[{color}]{escape(row['verdict'])}[/]"
        lines.append((escape(row["control"]) + many, f"{row['projection']:.3f}", one.known, *cells, verdict))
    show_table(console, columns, lines)
    more = len(found.controls) - _SHOWN
    few = f"; {more} more in identifiability.csv" if more > 0 else ""
    say(
        console,
        f"at the {at}, by the data alone, without priors. unseen: squared projection on directions that change the data by "
        f"less than eigenvalue {found.eps:g}{', smooth, by products' if found.by_products else ''}. alone, adjusted: rms "
        f"change of the data, in units of the noise ({found.noise:.2g} sigma), by a change of {_CHANGE:.0%}, without and "
        f"with the others adjusted{few}",
    )


def _shown(effect: float | None) -> str:
    return "" if number(effect) is None else f"{effect:.2g}"
