"""The page report.html: all results of a run in one file. Its template is report.html.jinja."""

import base64
import math
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2

from pdefit._util.atomic import write_text
from pdefit._util.errors import PdefitError, printable, with_space
from pdefit._util.html import interval
from pdefit.data.readers.fields import open_film
from pdefit.output.store.runs import RunFiles
from pdefit.output.store.summary import IntervalsSection, Summary
from pdefit.output.store.tables import ParameterRow, in_lines, read_parameters, span

# bytes; a larger movie is linked and not embedded
_LARGEST_MOVIE = 20_000_000
_MOST_ROWS = 200
# shifts by the discretisation are shown from here on, in half widths of an interval
_NOTED = 0.5


def write_report(run: Path, largest_movie: int = _LARGEST_MOVIE) -> Path:
    """Write report.html from the files of a run, with a list of missing files at its top.

    **Arguments:**

    - `run`: the directory of the run.
    - `largest_movie`: a size in bytes; a larger movie is linked, a smaller one is embedded.
    """
    files = RunFiles(run)
    summary, made = files.summary, files.provenance
    name = str(summary.experiment or made.get("experiment") or run.name)
    rows = _parameters(files)
    plan = files.content("plan.json")
    page = template("report.html.jinja").render(
        name=name, files=files, summary=summary, made=made,
        plan=plan, certificate=files.content("certificate.json"),
        what={"fit": "Fit", "simulate": "Simulation"}.get(files.verb, files.verb),
        started=str(made.get("started", "")).replace("T", " "),
        lacking=files.lacking(), links=files.links(), failed=files.has("FAILED") or files.has("INTERRUPTED"),
        unknowns=[f"{k} ({n} unknowns)" if n > 1 else k for k, n in (plan.get("unknowns") or {}).items()],
        guesses=[(r.control, r.unit, r.scale, span([x.guess for x in g])) for r, g in in_lines(rows)[:_MOST_ROWS]],
        configuration=files.text(".hydra/config.yaml").strip(),
        result=_result(rows + _parameters(files, "derived.csv"), summary),
        figures=_figures(files), movie=_movie(files, largest_movie),
        data=_data(files), correlations=_correlations(summary), costs=_costs(files),
        versions=", ".join(f"{k} {v}" for k, v in (made.get("versions") or {}).items() if v),
        identified=_identified(files), profiles=_profiles(files), discovered=_discovered(files),
        commands=_commands(files, made),
    )  # fmt: skip
    write_text(run / "report.html", page)
    return run / "report.html"


def template(name: str) -> jinja2.Template:
    """A page template that escapes its values."""
    # summaries of unfinished runs may lack any entry at any depth; ChainableUndefined shows it as a dash
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("pdefit.output.pictures", ""), autoescape=True, undefined=jinja2.ChainableUndefined,
        trim_blocks=True, lstrip_blocks=True, finalize=lambda x: printable(x) if type(x) is str else x,
    )  # fmt: skip
    environment.filters.update(shown=as_text, with_space=with_space)
    return environment.get_template(name)


def as_text(x: object) -> str:
    """A value as text: numbers with five digits, unknown ones as a dash."""
    if x is None or x == "" or isinstance(x, jinja2.Undefined):
        return "\N{EN DASH}"
    if isinstance(x, bool):
        return "yes" if x else "no"
    return f"{x:.5g}".replace("-", "\N{MINUS SIGN}") if isinstance(x, float) else str(x)


def _parameters(files: RunFiles, name: str = "parameters.csv") -> list[ParameterRow]:
    try:
        return read_parameters(files.path(name))
    except PdefitError:
        return []


def _result(rows: list[ParameterRow], summary: Summary) -> dict[str, Any]:
    """Table of estimates, without empty columns."""
    lines = in_lines(rows)
    shown = [row for row, _ in lines[:_MOST_ROWS]]
    intervals = summary.intervals or IntervalsSection()
    doubted = any(r.interval_trusted is False and r.ci95_low is not None for r in rows)
    found = [estimate_and_interval(*line) for line in lines[:_MOST_ROWS]]
    columns: dict[str, list[Any]] = {
        "parameter": [r.control for r in shown],
        "unit": [r.unit for r in shown],
        "estimate": [estimate for estimate, _ in found],
        "95 % interval": [interval for _, interval in found],
    }
    if any(r.truth is not None for r in rows):
        columns["truth"] = [None if r.truth is None else f"{r.truth:.7g}" for r in shown]
        columns["error"] = [None if r.relative_error is None else f"{100 * r.relative_error:+.2g} %" for r in shown]
        columns["z"] = [_signed(r.z_score) for r in shown]
    shifted = any(abs(r.discretisation_shift or 0.0) > _NOTED for r in rows)
    if shifted:
        columns["shift"] = [_signed(r.discretisation_shift) for r in shown]
    if any(r.at_bound for r in rows):
        columns["note"] = ["at its bound" if r.at_bound else " " for r in shown]
    unidentifiable = ", ".join(map(str, intervals.not_identifiable))
    widened = [
        f"{r.control} {r.ci95_correlated_low:.4g} to {r.ci95_correlated_high:.4g}"
        for r in shown
        if r.ci95_correlated_low is not None and r.ci95_correlated_high is not None
    ]
    formulas = [f"{name} = {one.get('formula')}" for name, one in summary.derived.items()]
    doubt = intervals.doubt or "the discretisation moves the estimate by more than the interval"
    notes = {
        f"{len(lines) - _MOST_ROWS} more in parameters.csv": len(lines) > _MOST_ROWS,
        f"Derived: {', '.join(formulas)}.": formulas,
        f"Intervals: {intervals.method}.": intervals.method,
        f"Not identifiable from these data: {unidentifiable}.": unidentifiable,
        f"Intervals in brackets are not to be trusted: {doubt}.": doubted,
        f"Intervals that count the correlation of residuals (as good as {as_text(intervals.effective_values)} "
        f"independent values): {', '.join(widened)}.": widened,
        "Shift: change of the estimate with half the step or half the cell width, in half widths of the interval.": shifted,
    }
    errors = [("exact error", summary.exact_error), ("reference error", summary.reference_error)]
    drifts = [(f"drift of {k}".replace("_", " "), v) for k, v in summary.invariant_drift.items()]
    return {
        "header": list(columns), "rows": list(zip(*columns.values(), strict=True)), "errors": errors + drifts,
        "notes": [note for note, is_so in notes.items() if is_so],
    }  # fmt: skip


def _identified(files: RunFiles) -> dict[str, Any]:
    """Result of `pdefit identify`: the number of identifiable controls, and a row for each of the other controls."""
    found = files.content("identifiability.json")
    controls = found.get("controls") or []
    keys = ("control", "projection", "verdict", "moved_alone", "moved_compensated")
    vague = [tuple(c.get(key) for key in keys) for c in controls if c.get("word") != "identifiable"]
    known = len(controls) - len(vague)
    return {"total": len(controls), "known": known, "at": found.get("at"), "rows": vague[:_MOST_ROWS]}


def _profiles(files: RunFiles) -> list[tuple[Any, ...]]:
    """A row for each profiled scalar: its interval, the matrix interval, and the reason for an open end."""
    found = files.content("profiles.json").get("profiles") or []
    return [
        (
            one.get("control"),
            one.get("unit"),
            interval(one.get("low"), one.get("high")),
            interval(one.get("matrix_low"), one.get("matrix_high")),
            one.get("remark"),
        )
        for one in found[:_MOST_ROWS]
    ]


def _discovered(files: RunFiles) -> dict[str, Any]:
    """Result of `pdefit discover`: a row for each set of terms, and whether the data decide between them."""
    found = files.content("discovery.json")
    sets = found.get("sets") or []
    keys = ("formula", "terms", "chi2", "criterion", "held_out")
    rows = [tuple(one.get(key) for key in keys) for one in sets[:_MOST_ROWS]]
    return {"rows": rows, "values": found.get("values"), "rivals": found.get("rivals"), "misses": found.get("misses")}


def estimate_and_interval(row: ParameterRow, many: Sequence[ParameterRow] = ()) -> tuple[str, str]:
    """Estimate and interval, with two digits beyond the width of the interval; seven digits without an interval.

    An interval that is not trusted is in brackets. A line for many scalars states their range.
    """
    if len(many) > 1:
        return str(span([one.estimate for one in many])), "in parameters.csv"
    value, low, high = row.estimate, row.ci95_low, row.ci95_high
    if low is None or high is None or not high > low:
        # an end is infinite where the data determine nothing
        open_ended = row.interval_trusted is not None and high is None
        return f"{value:.7g}", "not determined" if open_ended else ""
    digits = min(max(2 + math.ceil(math.log10(max(abs(value), high - low) / (high - low))), 3), 15)
    interval = f"{low:.{digits}g} to {high:.{digits}g}"
    return f"{value:.{digits}g}", f"({interval})" if row.interval_trusted is False else interval


def _signed(x: float | None) -> str | None:
    return None if x is None else f"{x:+.2g}"


def _figures(files: RunFiles) -> list[dict[str, Any]]:
    """Figures by name; the first word of a name is the kind."""
    found = sorted((files.directory / "figures").glob("[!.]*.png"))
    return [
        {"kind": kind, "part": part.replace("_", " ").strip(), "source": embedded(path, "image/png")}
        for path in found
        if files.has(f"figures/{path.name}")
        for kind, _, part in [path.stem.partition("_")]
    ]


def _movie(files: RunFiles, largest: int) -> dict[str, Any] | None:
    for file, kind in (("movie.mp4", "video/mp4"), ("movie.gif", "image/gif")):
        if files.has(file):
            path = files.directory / file
            size = path.stat().st_size
            if size <= largest:
                return {"file": file, "kind": "movie", "source": embedded(path, kind)}
            return {"file": file, "megabytes": size / 1e6}
    return None


def embedded(path: Path, kind: str) -> str:
    """A file encoded as the source of an embedded picture."""
    return f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode('ascii')}"


def _data(files: RunFiles) -> dict[str, Any]:
    """Fields of fields.h5, its times, and the noise of the observations."""
    rows, told = [], []
    try:
        with open_film(files.path("fields.h5")) as film:
            for f in film.fields.values():
                where = ", ".join(f"{f.coords[d].size} {d} ({f.coord_units[d]})" for d in f.dims) or "a number"
                rows.append((f.name, f.long_name, f.unit, where, ", ".join(f.kinds)))
            if film.ts.size:
                unit, last = with_space(film.time_unit), film.ts[-1]
                told.append(f"{film.ts.size} of {film.total} frames, from {film.ts[0]:.6g} to {last:.6g}{unit}")
                if 0 < film.forecast < film.ts.size:
                    told.append(f"fitted until {film.ts[film.forecast - 1]:.6g}{unit}, forecast beyond")
    except PdefitError as error:
        # of many recordings there is none
        told += [] if files.summary.recordings else [f"fields.h5 cannot be shown: {error}"]
    noise: list[tuple[str, Any]] = [("observed values", files.summary.fit.values)]
    for field, found in files.summary.sigma.items():
        noise.append((f"sigma of {field}", ", ".join(f"{x:.4g}" for x in found[:6] if x is not None)))
    return {"rows": rows, "told": "; ".join(told), "noise": noise}


def _correlations(summary: Summary) -> list[tuple[str, str]]:
    rows = [
        (
            f"correlation of residuals of {field} along {axis}",
            f"{found.value:.3f} ± {found.spread or math.nan:.3f}",
        )
        for field, along in (summary.fit.whiteness or {}).items()
        for axis, found in along.items()
        if found.value is not None
    ]
    tests = [t for t in summary.fit.structure or [] if t.excess is not None]
    return rows + [(f"residuals of {t.variable} {t.where}", f"{t.excess:+.1f} standard deviations") for t in tests[:3]]


def _costs(files: RunFiles) -> list[tuple[str, Any, Any]]:
    """Predicted and measured costs of an evaluation and of the run."""
    planned, seconds = files.content("plan.json"), files.summary.seconds
    evaluation, peak = planned.get("evaluation") or {}, files.summary.memory.get("peak_bytes")
    megabytes = [x / 1e6 if x else None for x in (planned.get("process_bytes"), peak)]
    rows = [
        ("time of an evaluation (s)", evaluation.get("seconds"), seconds.get("gradient")),
        ("time of a forward run (s)", evaluation.get("seconds_forward"), seconds.get("forward")),
        ("memory of the process (MB)", *megabytes),
        ("evaluations", planned.get("most_evaluations"), files.summary.iterations),
        ("the whole run (s)", None, seconds.get("total")),
    ]
    return [row for row in rows if row[1:] != (None, None)]


def _commands(files: RunFiles, made: dict[str, Any]) -> list[str]:
    """Commands of the run, of its resumptions, and for its certification."""
    command = made.get("command")
    if not command:
        return []
    resumed = [r.get("command") or [] for r in made.get("resumed") or []]
    lines = [shlex.join(words) for words in (command, *resumed)]
    if files.verb == "fit":
        equations = made.get("equations")
        named = [str(equations.get("path"))] if equations else []
        again = shlex.join(["pdefit", "certify", str(files.directory), *named])
        lines.append(f"{again}    # tests the gradient on this machine")
    return lines
