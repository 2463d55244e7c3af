"""Figures and movie of a run, drawn from its directory alone."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from pdefit._util.errors import PdefitError, unknown
from pdefit.data.readers.fields import Film, open_film
from pdefit.output.pictures._estimates import draw_convergence, draw_parameters, draw_posterior
from pdefit.output.pictures._lines import draw_spacetime
from pdefit.output.pictures._maps import draw_map, draw_misfit, draw_whole
from pdefit.output.pictures._members import draw_histograms, draw_members, draw_recordings, draw_starts
from pdefit.output.pictures._movie import draw_movie, has_movie
from pdefit.output.pictures._orbits import draw_orbits
from pdefit.output.pictures._quantities import Quantity, bodies, quantities
from pdefit.output.pictures._recordings import recordings_figure
from pdefit.output.pictures._traces import (
    draw_body_traces,
    draw_components,
    draw_diagnostics,
    draw_forecast,
    draw_residuals,
    draw_traces,
)
from pdefit.output.pictures._vectors import planes
from pdefit.output.pictures.drawn import Drawn
from pdefit.output.pictures.style import FORMATS, NAMES, readable_times
from pdefit.output.store.runs import RunFiles, recordings_in
from pdefit.output.store.summary import ForecastSection
from pdefit.output.store.tables import ParameterRow, read_parameters, read_points

# most figures of fields on a plane
_MOST_MAPS = 6


def draw_all(run: Path, form: str = "png") -> Drawn:
    """Draw all figures that the files of a run allow, into its folder `figures`. Missing files become notes.

    **Arguments:**

    - `run`: the directory of the run.
    - `form`: the format: png, svg or pdf.
    """
    if form not in FORMATS:
        raise unknown("format", form, FORMATS)
    files, drawn = RunFiles(run), Drawn()
    folder = files.path("figures")
    drawn.notes += [
        f"{name} is a link that leads out of the run, or no file, and is not read" for name in files.links()
    ]
    lacking = files.lacking()
    if lacking:
        drawn.notes.append(f"{files.state}; not there: {', '.join(lacking)}")
    summary, rows = files.summary, list[ParameterRow]()
    forecast = summary.forecast or ForecastSection()
    unit, error_unit, baseline = summary.time_unit, forecast.unit, forecast.baseline.name or "baseline"

    def attempt(name: str, draw: Callable[..., Any], *arguments: Any) -> None:
        drawn.attempt(folder / f"{name}.{form}", draw, *arguments)

    # rows of parameters.csv name the controls of history.h5
    if files.has("parameters.csv"):
        read = Drawn()
        read.attempt(run / "parameters.csv", lambda p: rows.extend(read_parameters(p)))
        drawn.notes += read.notes
    if files.has("history.h5"):
        attempt("convergence", draw_convergence, run / "history.h5", rows)
    if rows:
        attempt("parameters", draw_parameters, rows)
    others: dict[str, tuple[Any, ...]] = {
        "residuals.csv": (draw_residuals, unit),
        "forecast.csv": (draw_forecast, unit, error_unit, baseline),
        "posterior.h5": (draw_posterior, summary.posterior or {}),
        "members.h5": (draw_histograms,),
        "starts.csv": (draw_starts,),
    }
    for file, (draw, *arguments) in others.items():
        if files.has(file):
            attempt(Path(file).stem, draw, run / file, *arguments)
    if files.has("members.h5"):
        attempt("records", draw_members, run / "members.h5")
    if files.has("maps.h5"):
        attempt("maps", _draw_maps, run / "maps.h5")
    if files.has("course.h5"):
        try:
            with open_film(run / "course.h5") as film:
                _draw_planes(film, "course", attempt)
        except PdefitError as error:
            drawn.notes.append(f"no course: {error}")
    films = {name: path / "fields.h5" for name, path in recordings_in(run).items() if RunFiles(path).has("fields.h5")}
    if films:
        own = {n: {p: x for p, x in one.own.items() if x is not None} for n, one in summary.recordings.items()}
        drawn.attempt(folder / f"recordings.{form}", lambda p: recordings_figure(films, p, own))
        chi2 = {n: np.nan if (x := one.fit.chi2_per_value) is None else x for n, one in summary.recordings.items()}
        attempt("records", draw_recordings, films, chi2)
    if files.has("fields.h5"):
        try:
            with _opened(run, drawn) as film:
                if film.ts.size:
                    _draw_film(film, attempt)
                else:
                    drawn.notes.append("no fields: fields.h5 holds no complete frame yet")
        except PdefitError as error:
            drawn.notes.append(f"no fields: {error}")
    drawn.notes += files.wrong
    # what some of these do not show is no reason for a note
    drawn.files = [file for file in drawn.files if file.is_file()]
    return drawn


def _draw_maps(path: Path, file: Path) -> None:
    with open_film(file) as maps:
        draw_whole(path, maps)


def _draw_planes(film: Film, name: str, attempt: Callable[..., None]) -> list[Quantity]:
    """Draw the first fields on planes, in figures with this name; returns these fields."""
    maps = planes(film)[:_MOST_MAPS] if film.ts.size else []
    for i, plane in enumerate(maps):
        attempt(name if i == 0 else f"{name}_{plane.slug}", draw_map, film, plane)
    return maps


def draw_run_movie(run: Path) -> Drawn:
    """Draw movie.mp4 if something moves in space, and course.mp4 of unknown fields over the evaluations."""
    drawn, files = Drawn(), RunFiles(run)
    if files.has("fields.h5"):
        drawn.attempt(run / "movie.mp4", lambda path: _movie(path, _opened(run, drawn)))
    if files.has("course.h5"):
        drawn.attempt(run / "course.mp4", lambda path: _movie(path, open_film(run / "course.h5")))
    # a system without space has no movie, which is no reason for a note
    drawn.files = [file for file in drawn.files if file.exists()]
    return drawn


def _movie(path: Path, opened: AbstractContextManager[Film]) -> Path:
    with opened as film:
        return draw_movie(path, film) if has_movie(film) else path


@contextmanager
def _opened(run: Path, drawn: Drawn) -> Iterator[Film]:
    """The film of a run with its points, and with times of few digits. Damaged files become notes."""
    with open_film(run / "fields.h5") as film:
        if RunFiles(run).has("points.csv"):
            read = Drawn()
            read.attempt(run / "points.csv", lambda path: film.points.update(read_points(path)))
            film.points = {NAMES[kind]: columns for kind, columns in film.points.items()}
            drawn.notes += read.notes
        film.ts, film.time_unit = readable_times(film.ts, film.time_unit)
        yield film


def _draw_film(film: Film, attempt: Callable[..., None]) -> None:
    """Draw the fields by kind: bodies, planes, lines, scalars."""
    if film.diagnostics:
        attempt("diagnostics", draw_diagnostics, film)
    moving, every = bodies(film), quantities(film)
    # numbers that an instrument measured have a figure of their own, and all else is drawn as fields are
    measured = [q for q in every if q.field.name in film.measured and not q.axes]
    shown = [q for q in every if q not in measured]
    if measured:
        attempt("observations", draw_components, film, measured)
    if moving is not None:
        attempt("fields", draw_orbits, film, moving)
        attempt("traces", draw_body_traces, film, moving)
        return
    maps = _draw_planes(film, "fields", attempt)
    lines = [q for q in shown if len(q.axes) == 1]
    if lines:
        attempt("fields_lines" if maps else "fields", draw_spacetime, film, lines)
    compared = [q for q in maps if "observed" in q.field.kinds]
    if compared and film.forecast > 1:
        attempt("misfit", draw_misfit, film, compared)
    in_space = [q for q in shown if len(q.axes) == 2] or lines
    if in_space:
        attempt("traces", draw_traces, film, in_space)
    elif shown:
        attempt("fields", draw_components, film, shown)
