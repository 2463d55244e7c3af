"""Identifiability of the unknowns of an experiment, or of a run, as `pdefit identify`."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pdefit._util.atomic import write_json
from pdefit._util.errors import PdefitError
from pdefit.analysis.identifiability.compensation import Compensation, compensation, traces
from pdefit.analysis.identifiability.identify import THRESHOLDS, Identifiability, identify
from pdefit.analysis.identifiability.verdict import ControlIdentifiability
from pdefit.cli.config.settings import Job
from pdefit.cli.run.build import build_experiment
from pdefit.cli.run.experiment import Experiment
from pdefit.cli.run.recorded import at_best, open_run
from pdefit.cli.runtime.terminal import RunsProgress
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.objective.compiled import sum_of_squares, weighted
from pdefit.output.pictures.identifiability import draw_identifiability
from pdefit.output.pictures.report import write_report
from pdefit.output.store.runs import RunFiles
from pdefit.output.store.tables import number, number_in, rows_of, write_rows

# the change of a control, as a part of its size, whose effect is shown; and the most numbers that are changed
_CHANGE, _MOST = 0.1, 30
# noise as a part of the range of the data, where none is stated
_UNSTATED = 1e-3
# starts whose J is above the best by at most this many times the variance are as good: the 95 % limit of one unknown
_AS_GOOD = 1.92
# a change that can be seen in a figure, in units of the noise
_VISIBLE = 1e-3
# rows that are printed
_SHOWN = 40


def run_identify(job: Job) -> None:
    """Tell what the data can tell where a fit would start; writes identifiability.json, csv and a figure."""
    exp = _built(job)
    _answer(exp, exp.functional, exp.functional.theta0, "guess", job)


def run_identify_on_a_run(arguments: list[str], console: Console) -> None:
    """Tell what the data can tell at the best point of the run that the arguments name."""
    job, saved = open_run(arguments, "identify", console)
    exp = _built(job)
    if saved is None:
        raise PdefitError(
            f"'{job.directory}' has no estimate yet; pdefit resume it first, or pdefit identify experiment=..."
        )
    _answer(exp, *at_best(exp, saved), "estimate", job)
    if RunFiles(job.directory).has("report.html"):
        write_report(job.directory)


def _built(job: Job) -> Experiment:
    if job.settings.members:
        raise PdefitError("identify works on one fit; set members=null, and data.path to one of the files")
    return build_experiment(job.settings)


def _answer(exp: Experiment, objective: AbstractObjective, theta: Array, at: str, job: Job) -> None:
    """Compute, write, draw and print."""
    directory, console, theta = job.directory, job.console, jnp.asarray(theta)
    noise = _noise(exp, objective, theta, at)
    with RunsProgress(console) as bar:
        found = identify(objective, theta, noise=noise, said=bar)
    moved = _moved(objective, theta, found, noise, console)
    spread = _spread(RunFiles(directory), noise)
    rows = [_row(one, moved.get(one.control), spread.get(one.control)) for one in found.controls]
    content = {
        "experiment": job.name,
        "at": at,
        "by_products": found.by_products,
        "eps": found.eps,
        "delta": found.controls[0].delta,
        "noise": noise,
        "thresholds": THRESHOLDS.tolist(),
        "eigenvalues": None if found.eigenvalues is None else found.eigenvalues.tolist(),
        "time_unit": exp.first.problem.system.time_unit,
        "controls": [
            row | {"components": one.components, "curve": one.curve.tolist(), "partners": one.partners}
            for row, one in zip(rows, found.controls, strict=True)
        ],
        "compensated": _drawn(objective, theta, found, moved),
    }
    write_json(directory / "identifiability.json", content)
    write_rows(directory / "identifiability.csv", rows)
    curves = {one.control: one.curve for one in found.controls}
    write_rows(
        directory / "identifiability_curve.csv",
        [{"eps": float(e)} | {name: float(c[i]) for name, c in curves.items()} for i, e in enumerate(THRESHOLDS)],
    )
    draw_identifiability(directory / "figures" / "identifiability.png", directory / "identifiability.json")
    _print(rows, found, at, noise, console)
    console.print(
        f"written to {escape(str(directory / 'identifiability.csv'))}, identifiability_curve.csv, identifiability.json and "
        f"figures/identifiability.png",
        highlight=False,
    )


def _noise(exp: Experiment, objective: AbstractObjective, theta: Array, at: str) -> float:
    """The size of the noise in units of sigma: as stated at a guess, and of the residuals at an estimate."""
    known = exp.sigma_stated
    least = 1.0 if known else _UNSTATED
    if at == "guess":
        return 1.0 if known or exp.source.noise else least
    squares = sum(sum_of_squares(weighted(*part)) for part in objective.parts(theta))
    values = objective.observed_values
    # unknowns that the data do not determine take no part of the freedom
    used = min(objective.controls.tabulated.size, values // 2)
    return max(float(np.sqrt(squares / (values - used))), least)


def _moved(
    objective: AbstractObjective, theta: Array, found: Identifiability, noise: float, console: Console
) -> dict[str, Compensation]:
    """The effects of changes of numbers by name, of those that are least determined first."""
    if objective.controls.nodes:
        return {}
    numbers = sorted((c for c in found.controls if c.elements.size == 1), key=lambda c: -c.projection)[:_MOST]
    moved = {}
    with RunsProgress(console) as bar:
        for done, one in enumerate(numbers):
            bar(done, len(numbers), f"{one.control} by {_CHANGE:.0%}")
            moved[one.control] = compensation(objective, theta, found, one, by=_CHANGE, noise=noise)
    return moved


def _drawn(
    objective: AbstractObjective, theta: Array, found: Identifiability, moved: dict[str, Compensation]
) -> dict[str, Any] | None:
    """The courses of observed values with a change of the control whose compensation hides most; None without one."""
    hidden = [moved[c.control] for c in found.controls if c.partners and c.control in moved]
    seen = [
        m for m in hidden if np.isfinite([m.alone, m.together]).all() and m.alone > _VISIBLE and m.together < m.alone
    ]
    if not seen:
        return None
    one = max(seen, key=lambda m: m.alone / max(m.together, 1e-12 * m.alone))
    each = traces(objective, theta, (one.change, one.adjusted))
    courses = [
        {"name": t.name, "times": t.ts.tolist(), "values": [[number(x) for x in row] for row in t.values]} for t in each
    ]
    return {"control": one.control, "change": _CHANGE, "traces": courses}


def _spread(files: RunFiles, noise: float) -> dict[str, float]:
    """The range of every number over the starts that are as good as the best, as a part of its size there; by name."""
    if not files.has("starts.csv"):
        return {}
    with rows_of(files.path("starts.csv")) as every:
        rows = [row for row in every if row["loss"]]
        losses = np.asarray([number_in(row, "loss") for row in rows])
        good = [row for row, loss in zip(rows, losses, strict=True) if loss <= losses.min() + _AS_GOOD * noise**2]
        ends = {name.removesuffix(" start"): name for name in (good[0] if good else {}) if name.endswith(" start")}
        values = {name: np.asarray([number_in(row, name) for row in good]) for name in ends}
    return {name: float(np.ptp(x) / np.max(np.abs(x))) for name, x in values.items() if np.any(x)}


def _row(one: ControlIdentifiability, moved: Compensation | None, spread: float | None) -> dict[str, Any]:
    """Entries of one control in a file; infinite ones are empty."""
    return {
        "control": one.control,
        "unknowns": int(one.elements.size),
        "word": one.word,
        "verdict": one.verdict,
        "projection": one.projection,
        "projection_at_most": one.projection_at_most,
        "known_to": number(one.known_to),
        "known_to_at_most": number(one.known_to_at_most),
        "lengthened": number(one.lengthened),
        "partners_share": "; ".join(f"{name} {part:.2f}" for name, part in one.partners.items()),
        "moved_alone": None if moved is None else number(moved.alone),
        "moved_compensated": None if moved is None else number(moved.together),
        "spread_over_starts": spread,
    }


def _print(rows: list[dict[str, Any]], found: Identifiability, at: str, noise: float, console: Console) -> None:
    table = Table(box=None, header_style="bold")
    spread = any(row["spread_over_starts"] is not None for row in rows)
    columns = ("control", "unseen", "known to", "alone", "adjusted", *(["starts"] if spread else []))
    for name in columns:
        table.add_column(name, justify="left" if name == "control" else "right", no_wrap=True)
    table.add_column("verdict")
    both = list(zip(rows, found.controls, strict=True))
    # what is not determined is told first, where there are many
    both = both if len(both) <= _SHOWN else sorted(both, key=lambda r: r[1].word == "identifiable")[:_SHOWN]
    for row, one in both:
        many = f" ({row['unknowns']})" if row["unknowns"] > 1 else ""
        cells = [_shown(row[key]) for key in ("moved_alone", "moved_compensated")]
        cells += ["" if row["spread_over_starts"] is None else f"{100 * row['spread_over_starts']:.2g} %"] * spread
        color = "green" if row["word"] == "identifiable" else "yellow"
        verdict = f"[{color}]{escape(row['verdict'])}[/]"
        table.add_row(escape(row["control"]) + many, f"{row['projection']:.3f}", one.known, *cells, verdict)
    console.print(table)
    few = f"; {len(rows) - _SHOWN} more in identifiability.csv" if len(rows) > _SHOWN else ""
    console.print(
        f"at the {at}, by the data alone, without priors. unseen: squared projection on directions that change the data by "
        f"less than eigenvalue {found.eps:g}{', smooth, by products' if found.by_products else ''}. alone, adjusted: rms "
        f"change of the data, in units of the noise ({noise:.2g} sigma), by a change of {_CHANGE:.0%}, without and with the "
        f"others adjusted{few}",
        highlight=False,
    )


def _shown(effect: float | None) -> str:
    return "" if effect is None else f"{effect:.2g}"
