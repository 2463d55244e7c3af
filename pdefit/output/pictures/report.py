"""report.html: everything a run found, in one page that needs nothing else."""

import math
import shlex
from importlib import resources
from pathlib import Path
from typing import Any

from pdefit._util.atomic import write_text
from pdefit._util.errors import PdefitError, with_space
from pdefit.data.readers.fields import open_film
from pdefit.output.pictures import html
from pdefit.output.pictures.captions import caption_of
from pdefit.output.pictures.html import element, folded, pairs, paragraph, section, table, text
from pdefit.output.store.parameters import read_parameters
from pdefit.output.store.runs import RunFiles

# a movie that takes more is linked
_LARGEST_MOVIE = 20_000_000
_MOST_ROWS = 200
# half widths of an interval: smaller shifts by the discretisation are not shown
_NOTED = 0.5
_FIRST = ("parameters", "fields", "traces", "forecast", "convergence", "residuals")
_GOOD = "fitted to the noise"

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
<main>
{body}</main>
</body>
</html>
"""

# a browser that shows the page asks for nothing else, whatever a label may hold
_POLICY = "default-src 'none'; img-src data:; media-src data:; style-src 'unsafe-inline'"


def write_report(run: Path, largest_movie: int = _LARGEST_MOVIE) -> Path:
    """Write report.html from what the run directory holds: figures, the movie (inside the page up to `largest_movie` bytes),
    tables and provenance. What is not there yet is named at the top."""
    files = RunFiles(run)
    summary, made = files.content("summary.json"), files.content("provenance.json")
    name = str(summary.get("experiment") or made.get("experiment") or run.name)
    parts = [
        _head(files, name, summary, made),
        section("Question", _question(files, summary)),
        section("Result", _result(files, summary)),
        section("Figures", _figures(files, name)),
        section("Movie", _movie(files, name, largest_movie)),
        section("Data", _data(files, summary)),
        section("How well it fits", _quality(summary)),
        section("Certificate of the gradient", _certificate(files, summary)),
        section("Plan and measurement", _plan(files, summary)),
        section("Provenance", _provenance(made)),
        section("Run it again", _again(files, made)),
    ]
    style = (resources.files("pdefit.output.pictures") / "report.css").read_text(encoding="utf-8")
    page = _PAGE.format(policy=_POLICY, title=text(f"{name}: pdefit"), style=style, body="".join(parts))
    write_text(run / "report.html", page)
    return run / "report.html"


def _head(files: RunFiles, name: str, summary: dict[str, Any], made: dict[str, Any]) -> str:
    what = {"fit": "Fit", "simulate": "Simulation"}.get(files.verb, files.verb)
    started = str(made.get("started", "")).replace("T", " ")
    told = ", ".join(x for x in (what, str(summary.get("variant") or ""), started) if x)
    found = [paragraph(text(told), class_="soft"), element("h1", text(name)) + "\n"]
    verdict = summary.get("verdict")
    if verdict:
        look = "verdict good" if verdict == _GOOD else "verdict bad"
        line = f"{element('strong', text(verdict))}<br>{text(summary.get('verdict_reason'))}"
        found.append(element("div", line, class_=look, role="status") + "\n")
    lacking = files.lacking()
    links = files.links()
    if lacking or links or files.has("FAILED") or files.has("INTERRUPTED"):
        missing = f" Not there: {', '.join(lacking)}." if lacking else ""
        missing += f" Links that lead out of the run, which are not followed: {', '.join(links)}." if links else ""
        line = element("strong", text(files.state)) + text(missing)
        found.append(element("div", line, class_="verdict bad", role="status") + "\n")
    return "".join(found)


def _question(files: RunFiles, summary: dict[str, Any]) -> str:
    rows = _parameters(files)
    controls = [(r.control, r.unit, r.scale, r.guess) for r in rows[:_MOST_ROWS]]
    fields = summary.get("fields")
    others = list(fields) if isinstance(fields, dict) else []
    seen = (summary.get("fit") or {}).get("values"), ", ".join(summary.get("sigma") or {})
    found = []
    if rows or others:
        names = ", ".join([*(r.control for r in rows[:12]), *(["..."] if len(rows) > 12 else []), *others])
        from_what = f" from {seen[0]} observed values of {seen[1]}" if seen[0] and seen[1] else ""
        found.append(paragraph(f"To be inferred{from_what and text(from_what)}: {text(names)}."))
    found.append(table(("unknown", "unit", "scale", "first guess"), controls, words=(1, 2)))
    found.append(folded("The whole configuration", html.code(files.text(".hydra/config.yaml").strip())))
    return "".join(part for part in found if "<code></code>" not in part)


def _result(files: RunFiles, summary: dict[str, Any]) -> str:
    rows = _parameters(files)
    known = any(r.truth is not None for r in rows)
    bounded = any(r.at_bound for r in rows)
    doubted = any(r.interval_trusted is False and r.ci95_low is not None for r in rows)
    shifted = any(abs(r.discretisation_shift or 0.0) > _NOTED for r in rows)
    header = ["parameter", "unit", "estimate", "95 % interval", *(["truth", "error", "z"] if known else [])]
    body = []
    for r in rows[:_MOST_ROWS]:
        estimate, interval = _estimate(r.estimate, r.ci95_low, r.ci95_high)
        line: list[Any] = [
            r.control,
            r.unit,
            estimate,
            f"({interval})" if interval and r.interval_trusted is False else interval,
        ]
        if known:
            line += [None if r.truth is None else f"{r.truth:.7g}", _signed(r.relative_error, "%"), _signed(r.z_score)]
        line += [_signed(r.discretisation_shift)] if shifted else []
        body.append([*line, "at its bound" if r.at_bound else " "] if bounded else line)
    more = f"{len(rows) - _MOST_ROWS} more in parameters.csv" if len(rows) > _MOST_ROWS else ""
    intervals = summary.get("intervals") or {}
    method = intervals.get("method")
    unidentifiable = intervals.get("not_identifiable")
    notes = [more, f"Intervals: {method}." if method else ""]
    notes.append(f"Not identifiable from these data: {', '.join(map(str, unidentifiable))}." if unidentifiable else "")
    if doubted:
        why = intervals.get("doubt") or "the discretisation moves the estimate by more than the interval"
        notes.append(f"Intervals in brackets are not to be trusted: {why}.")
    if shifted:
        notes.append("Shift: what half the step or half the cell width would do, in half widths of the interval.")
    events = [paragraph(text(str(event)), class_="soft") for event in summary.get("events") or []]
    errors = [(k, v) for k, v in summary.items() if k.endswith("_error") and v is not None]
    errors += [(f"drift of {k}", v) for k, v in (summary.get("invariant_drift") or {}).items()]
    told = "".join(paragraph(text(n), class_="soft") for n in notes if n)
    header += (["shift"] if shifted else []) + (["note"] if bounded else [])
    return (
        table(header, body, words=(1,))
        + pairs((k.replace("_", " "), v) for k, v in errors)
        + told
        + folded("What happened on the way", *events)
    )


def _estimate(value: float, low: float | None, high: float | None) -> tuple[str, str | None]:
    """As many digits as the interval leaves, and three more for none."""
    if low is None or high is None or not high > low:
        return f"{value:.7g}", None
    digits = 2 + max(0, math.ceil(math.log10(max(abs(value), high - low) / (high - low))))
    digits = min(max(digits, 3), 15)
    return f"{value:.{digits}g}", f"{low:.{digits}g} to {high:.{digits}g}"


def _signed(x: float | None, form: str = "") -> str | None:
    if x is None:
        return None
    return f"{x:+.2g}" if not form else f"{100 * x:+.2g} %"


def _figures(files: RunFiles, name: str) -> str:
    found = sorted((files.directory / "figures").glob("*.png"), key=lambda p: (_rank(p.stem), p.stem))
    parts = []
    for path in found:
        if not path.name.startswith(".") and files.has(f"figures/{path.name}"):
            caption, alternative = caption_of(path.stem)
            parts.append(html.picture(path, f"{name}: {alternative}", caption))
    return "".join(parts)


def _rank(stem: str) -> int:
    return next((i for i, first in enumerate(_FIRST) if stem.startswith(first)), len(_FIRST))


def _movie(files: RunFiles, name: str, largest: int) -> str:
    for path in (files.directory / "movie.mp4", files.directory / "movie.gif"):
        if files.has(path.name):
            caption, alternative = caption_of("movie")
            return html.movie(path, f"{name}: {alternative}", caption, largest)
    return ""


def _data(files: RunFiles, summary: dict[str, Any]) -> str:
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
        told.append(f"fields.h5 cannot be shown: {error}")
    fit = summary.get("fit") or {}
    values = [("observed values", fit.get("values"))]
    for field, found in (summary.get("sigma") or {}).items():
        shown = ", ".join(f"{x:.4g}" for x in found[:6]) if isinstance(found, list) else str(found)
        values.append((f"sigma of {field}", shown))
    return (
        table(("field", "meaning", "unit", "where", "kinds in fields.h5"), rows, words=(1, 2, 3, 4), wide=(3, 4))
        + paragraph(text("; ".join(told) + "."))
        + pairs(values)
    )


def _quality(summary: dict[str, Any]) -> str:
    fit, forecast = summary.get("fit") or {}, summary.get("forecast") or {}
    rows: list[tuple[str, Any]] = [
        ("loss at the guess", summary.get("loss_initial")),
        ("loss at the estimate", summary.get("loss_final")),
        ("evaluations", summary.get("iterations")),
        ("converged", summary.get("converged")),
        ("chi2 per value", fit.get("chi2_per_value")),
    ]
    for field, along in (fit.get("whiteness") or {}).items():
        for axis, found in along.items():
            if isinstance(found, dict) and isinstance(found.get("value"), float):
                told = f"{found['value']:.3f} ± {found.get('spread') or math.nan:.3f}"
                rows.append((f"correlation of residuals of {field} along {axis}", told))
    if forecast:
        baseline = forecast.get("baseline") or {}
        unit = with_space(str(summary.get("time_unit", "")))
        rows += [
            ("forecast over", f"{forecast.get('horizon')}{unit}"),
            ("relative error at its end", forecast.get("relative_l2_at_end")),
            (f"the same of {baseline.get('name', 'the baseline')}", baseline.get("relative_l2_at_end")),
            ("valid for", f"{forecast.get('valid_time')}{unit}"),
        ]
    return pairs(rows)


def _certificate(files: RunFiles, summary: dict[str, Any]) -> str:
    whole = files.content("certificate.json")
    found = []
    for key, where in (("start", "at the guess"), ("end", "at the estimate")):
        part = whole.get(key)
        if not isinstance(part, dict):
            continue
        passed, scope = part.get("passed"), part.get("scope") or {}
        word = element("span", "passed" if passed else "failed", class_="good" if passed else "bad")
        on = f" on {scope.get('observations')} of {scope.get('of')} times" if scope else ""
        told = f"{text(where).capitalize()}: {word}{on and text(on)}. {text(part.get('reason') or ' ')}"
        found.append(paragraph(told))
        checks = [
            (
                c.get("name"),
                c.get("error"),
                c.get("limit"),
                "passed" if c.get("passed") else f"failed: {c.get('remedy')}",
            )
            for c in part.get("checks") or []
            if isinstance(c, dict)
        ]
        found.append(
            folded(f"{len(checks)} checks {where}", table(("check", "error", "limit", ""), checks, wide=(0, 3)))
        )
    return "".join(found)


def _plan(files: RunFiles, summary: dict[str, Any]) -> str:
    planned, memory = files.content("plan.json"), summary.get("memory") or {}
    evaluation, seconds = planned.get("evaluation") or {}, summary.get("seconds") or {}
    rows = [
        ("time of an evaluation (s)", evaluation.get("seconds"), seconds.get("gradient")),
        ("time of a forward run (s)", evaluation.get("seconds_forward"), seconds.get("forward")),
        ("memory of an evaluation (MB)", _mega(evaluation.get("planned_bytes")), _mega(memory.get("peak_bytes"))),
        ("evaluations", planned.get("most_evaluations"), summary.get("iterations")),
        ("the whole run (s)", None, seconds.get("total")),
    ]
    compared = table(("", "planned", "measured"), [r for r in rows if r[1] is not None or r[2] is not None])
    return (paragraph(text(planned["text"])) if planned.get("text") else "") + compared


def _mega(x: Any) -> float | None:
    return x / 1e6 if isinstance(x, int | float) else None


def _provenance(made: dict[str, Any]) -> str:
    device = made.get("device") or {}
    rows = [
        ("started", made.get("started")),
        ("commit", made.get("git_commit")),
        ("device", device.get("kind") and f"{device.get('kind')}, {device.get('count')}"),
        ("machine", made.get("machine") and f"{made.get('machine')}, {made.get('cpus')} CPUs"),
        ("precision", made.get("dtype")),
        ("seed", made.get("seed")),
        ("compiler flags", made.get("xla_flags") or None),
        ("versions", ", ".join(f"{k} {v}" for k, v in (made.get("versions") or {}).items() if v) or None),
        ("resumed", ", ".join(str(r.get("started")) for r in made.get("resumed") or []) or None),
    ]
    return pairs(rows)


def _again(files: RunFiles, made: dict[str, Any]) -> str:
    command = made.get("command")
    if not isinstance(command, list) or not command:
        return ""
    lines = [shlex.join(str(word) for word in command)]
    lines += [
        shlex.join(str(w) for w in r.get("command") or []) for r in made.get("resumed") or [] if isinstance(r, dict)
    ]
    if files.verb == "fit":
        lines.append(f"pdefit certify {shlex.quote(str(files.directory))}    # is the gradient right here, too?")
    return html.code("\n".join(lines))


def _parameters(files: RunFiles) -> list[Any]:
    try:
        return read_parameters(files.path("parameters.csv"))
    except (PdefitError, OSError, ValueError, KeyError):
        return []
