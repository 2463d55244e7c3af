"""Estimates of a fit: rows for files and summaries, and the table on the terminal."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from rich.table import Table

from pdefit.analysis.derive import DerivedQuantity
from pdefit.analysis.goodness.discretisation import DECIDES, NOTED
from pdefit.cli.run.experiment import Experiment
from pdefit.cli.run.source import true_theta
from pdefit.inverse.controls.paths import PARTS
from pdefit.inverse.fit.fit import Fit
from pdefit.inverse.uncertainty.control_values import moved
from pdefit.inverse.uncertainty.intervals import Intervals
from pdefit.inverse.uncertainty.marginal_likelihood import marginal_likelihood
from pdefit.output.store.summary import LikelihoodSection
from pdefit.output.store.tables import ParameterRow, in_lines, number, span

# an estimate is in the middle of its interval up to this part of half its width
_MIDDLE = 0.05


def parameter_rows(
    exp: Experiment,
    found: Fit,
    intervals: Intervals | None,
    shift: np.ndarray,
    trusted: bool,
    widened: Mapping[str, tuple[float, float]],
) -> list[ParameterRow]:
    """One row for each element of every control, except fields and node states.

    **Arguments:**

    - `exp`, `found`: the experiment and its fit.
    - `intervals`: the intervals of the fit; None without intervals.
    - `shift` (p,): the shift of the estimate by finer steps or cells, in half widths of the intervals.
    - `trusted`: whether intervals are trusted if their shift is small.
    - `widened`: interval ends that allow for correlated residuals, by name.
    """
    functional = found.functional
    theta, truth = np.asarray(found.theta), true_theta(functional.controls, exp.true_value)
    guess = np.asarray(exp.functional.theta0)[: theta.size]
    at_bound = functional.controls.bounds.at(theta)
    score = intervals.z_score(theta, truth) if intervals else np.full_like(theta, np.nan)
    # guess, estimate and truth
    values = [np.asarray(moved(functional.controls, x, np.zeros_like(theta))) for x in (guess, theta, truth)]
    names, rows = functional.controls.names(), []
    for control, place in functional.controls.spans:
        if not control.is_number:
            continue
        root, _, inside = control.path.partition(".")
        # arrays of a network are one thing, and a number is its own
        part_of = root if inside and control.shape and root not in PARTS else control.path
        physical = [x[place] for x in values]
        for k, i in enumerate(range(place.start, place.stop)):
            known = None if intervals is None or np.isnan(intervals.reach[i]) else True
            estimate, true = float(physical[1][k]), number(physical[2][k])
            rows.append(
                ParameterRow(
                    control=names[i],
                    unit=control.unit,
                    scale=type(control.transform).__name__.lower(),
                    guess=float(physical[0][k]),
                    estimate=estimate,
                    truth=true,
                    relative_error=estimate / true - 1 if true else None,
                    ci95_low=number(intervals.low[i]) if intervals else None,
                    ci95_high=number(intervals.high[i]) if intervals else None,
                    z_score=number(score[i]),
                    at_bound=bool(at_bound[i]),
                    discretisation_shift=number(shift[i]),
                    interval_trusted=known and trusted and not abs(shift[i]) > DECIDES,
                    ci95_correlated_low=widened.get(names[i], (None, None))[0],
                    ci95_correlated_high=widened.get(names[i], (None, None))[1],
                    part_of=part_of,
                )
            )
    return rows


def derived_row(one: DerivedQuantity) -> ParameterRow:
    """The row of a derived quantity in derived.csv. Its fields have the order of the columns of parameters.csv."""
    name, unit, scale, guess, estimate, *known = dataclasses.astuple(one)[:-1]
    cells: list[Any] = [number(x) if isinstance(x, float) else x for x in known]
    return ParameterRow(name, unit, scale, guess, estimate, *cells, part_of=name)


def field_errors(exp: Experiment, found: Fit) -> dict[str, dict[str, float]]:
    """Relative L2 errors of fields, and of their guesses, if the truth is known."""
    out: dict[str, dict[str, float]] = {}
    for control in found.functional.controls.items:
        truth = None if not control.is_field or control.is_node else exp.true_value(control)
        if truth is None:
            continue
        out[control.path] = {
            "relative_l2": _relative(np.asarray(control.where(found.problem)), truth),
            "relative_l2_of_guess": _relative(np.asarray(control.where(exp.functional.problem)), truth),
        }
    return out


def _relative(x: np.ndarray, truth: np.ndarray) -> float:
    return float(np.linalg.norm(x - truth) / max(np.linalg.norm(truth), np.finfo(float).tiny))


def parameter_table(rows: list[ParameterRow]) -> Table:
    """Table of the estimates in 80 columns, with one line for each field.

    Intervals that are not trusted are in brackets, and so are z-scores based on them. Errors are shown if the truth is
    known, and discretisation shifts if they are large. parameters.csv has all elements, digits and units.

    **Arguments:** `rows`: the rows of parameters.csv, and of derived.csv.
    """
    table = Table(box=None, header_style="bold")
    table.add_column("control", no_wrap=True)
    shifts = any(abs(r.discretisation_shift or 0.0) > NOTED for r in rows)
    compared = [] if all(r.truth is None for r in rows) else ["truth", "error", "z"]
    for column in ("guess", "estimate", "95 %", *compared, *(["shift"] if shifts else [])):
        table.add_column(column, justify="right", no_wrap=True)
    lines = in_lines(rows)
    notes = ["shift: by finer steps or cells, in half widths of the interval"] if shifts else []
    if len(lines) < len(rows):
        notes.append("a line of many numbers tells their range and the median interval; parameters.csv has each")
    table.caption, table.caption_justify = "\n".join(notes) or None, "left"
    for r, together in lines:
        if len(together) > 1:
            table.add_row(*_summarised(r.control, together)[: 7 if compared else 4])
            continue
        interval = "at its bound" if r.at_bound else _interval(r) or "not determined" * (r.interval_trusted is not None)
        cells = [r.control, f"{r.guess:.4g}", f"{r.estimate:.7g}", _doubted(interval, together)]
        if compared:
            cells += [
                "" if r.truth is None else f"{r.truth:.7g}",
                "" if r.relative_error is None else f"{r.relative_error:+.1e}",
                "" if r.z_score is None else _doubted(f"{r.z_score:+.1f}", together),
            ]
        if shifts:
            cells.append("" if r.discretisation_shift is None else f"{r.discretisation_shift:+.1g}")
        table.add_row(*cells)
    return table


def _interval(row: ParameterRow) -> str:
    """Half width of an interval, or both ends if it is not centred on the estimate, as for a logarithm."""
    if row.ci95_low is None or row.ci95_high is None or row.half_width is None:
        return ""
    off = abs(row.ci95_low + row.ci95_high - 2 * row.estimate) > 2 * _MIDDLE * row.half_width
    return f"{row.ci95_low:.4g} … {row.ci95_high:.4g}" if off else f"±{row.half_width:.1e}"


def _summarised(name: str, rows: list[ParameterRow]) -> tuple[str, ...]:
    """One line for many values: ranges, the median interval, relative L2 error and rms of z."""
    widths = [r.half_width for r in rows if r.half_width is not None]
    pairs = [(r.estimate, r.truth) for r in rows if r.truth is not None]
    scores = [r.z_score for r in rows if r.z_score is not None]
    truth = np.asarray([t for _, t in pairs])
    error = np.linalg.norm([e - t for e, t in pairs]) / np.linalg.norm(truth) if np.any(truth) else None
    spans = [str(span(x)) for x in ([r.guess for r in rows], [r.estimate for r in rows], [t for _, t in pairs])]
    half = _doubted(f"±{np.median(widths):.1e}", rows) if widths else ""
    score = _doubted(f"{np.sqrt(np.mean(np.square(scores))):.1f}", rows) if scores else ""
    return name, *spans[:2], half, spans[2], "" if error is None else f"{error:.1e}", score


def _doubted(text: str, rows: list[ParameterRow]) -> str:
    """A text, in brackets if an interval is not trusted."""
    return f"({text})" if text and any(r.interval_trusted is False for r in rows) else text


def likelihood_summary(found: Fit, known: Intervals | None) -> LikelihoodSection | None:
    """The section `likelihood` of summary.json; None if the Gauss-Newton matrix is unknown."""
    if known is None or known.equations is None:
        return None
    made = marginal_likelihood(found.functional, found.theta, equations=known.equations)
    return LikelihoodSection(**dataclasses.asdict(made))
