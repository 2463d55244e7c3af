"""One table of all jobs of a sweep: sweep.csv, sweep.h5 for xarray, and the content of its page."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import h5py
import numpy as np
import xarray

from pdefit._util.atomic import beside
from pdefit.cli.sweeps.jobs import DONE, Job, tally
from pdefit.data.readers.fields import open_film
from pdefit.output.pictures.sweep import Shown, write_sweep_page
from pdefit.output.store import tables

# columns that no two runs of a sweep share; they stand last
TIMINGS = ("seconds", "seconds_compile", "seconds_gradient")
_PARAMETER = ("estimate", "truth", "relative_error")
# most values of the last frame of a field that the table takes, of all jobs together
_MOST_VALUES = 50_000_000
_TEXT = h5py.string_dtype()


def rows_of(jobs: Sequence[Job]) -> list[dict[str, Any]]:
    """A row for each job: swept values, state, verdict, losses, estimates with errors and intervals, timings."""
    return [_row(job) for job in jobs]


def best_of(jobs: Sequence[Job]) -> Job | None:
    """The finished job with the smallest loss; None if no job is finished."""
    done = [(job.loss, n) for n, job in enumerate(jobs) if job.state == DONE and job.loss is not None]
    return jobs[min(done)[1]] if done else None


def write_table(directory: Path, jobs: Sequence[Job]) -> list[Path]:
    """Write sweep.csv and sweep.h5 into the directory of a sweep."""
    rows = rows_of(jobs)
    columns = list(dict.fromkeys(key for row in rows for key in row))
    columns = [c for c in columns if c not in TIMINGS] + [c for c in columns if c in TIMINGS]
    tables.write_table(directory / "sweep.csv", [columns, *([row.get(column) for column in columns] for row in rows)])
    data = _dataset(rows, columns, jobs)
    with beside(directory / "sweep.h5") as file:
        data.to_netcdf(file, engine="h5netcdf")
    return [directory / "sweep.csv", directory / "sweep.h5"]


def _row(job: Job) -> dict[str, Any]:
    found = job.files.summary
    row: dict[str, Any] = {"job": job.name, **{key: _number(text) for key, text in job.values.items()}}
    row |= {"state": job.state, "reason": job.reason, "verdict": found.verdict}
    row |= {key: getattr(found, key) for key in ("converged", "loss_initial", "loss_final", "iterations")}
    row["chi2_per_value"] = found.fit.chi2_per_value
    row["gradient_certified"] = None if found.certificate is None else found.certificate.passed
    for name, of in found.parameters.items():
        of = _mapping(of)
        low, high = [*(of.get("ci95") or ()), None, None][:2]
        row |= {f"{name}.{key}": of.get(key) for key in _PARAMETER}
        row |= {
            f"{name}.ci95_low": low,
            f"{name}.ci95_high": high,
            f"{name}.interval_trusted": of.get("interval_trusted"),
        }
    for name, of in found.fields.items():
        row |= {f"{name}.{key}": value for key, value in _mapping(of).items() if isinstance(value, int | float)}
    return row | dict(zip(TIMINGS, map(found.seconds.get, ("total", "compile", "gradient")), strict=True))


def _mapping(x: object) -> dict[str, Any]:
    return x if isinstance(x, dict) else {}


def _number(text: str) -> Any:
    """A swept value as a number, if it is one."""
    try:
        return float(text) if not text.lstrip("+-").isdecimal() else int(text)
    except ValueError:
        return text


def _dataset(rows: Sequence[dict[str, Any]], columns: Sequence[str], jobs: Sequence[Job]) -> xarray.Dataset:
    """Columns with the dimension `job`, and the last frames of fields whose shape all jobs share."""
    variables = {column: ("job", _column([row.get(column) for row in rows])) for column in columns if column != "job"}
    best = best_of(jobs)
    data = xarray.Dataset(
        {name.replace("/", "."): variable for name, variable in variables.items()},
        {"job": np.asarray([job.name for job in jobs], object)},
        {"best": "" if best is None else best.name},
    )
    return data.assign(_last_frames(jobs))


def _column(values: Sequence[Any]) -> np.ndarray:
    """A column of numbers if all entries are numbers, else of text; missing entries are NaN or empty."""
    known = [x for x in values if x is not None]
    if known and all(isinstance(x, bool | int | float) for x in known):
        return np.asarray([math.nan if x is None else float(x) for x in values])
    return np.asarray(["" if x is None else str(x) for x in values], object)


def _last_frames(jobs: Sequence[Job]) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """The last predicted frame of each field; NaN for jobs without it."""
    frames: dict[str, dict[int, xarray.DataArray]] = {}
    for number, job in enumerate(jobs):
        for name, frame in last_frames(job).items():
            frames.setdefault(name, {})[number] = frame
    found = {}
    for name, of in frames.items():
        first = next(iter(of.values()))
        if any(x.shape != first.shape for x in of.values()) or first.size * len(jobs) > _MOST_VALUES:
            continue
        stacked = np.full((len(jobs), *first.shape), np.nan, np.float32)
        for number, frame in of.items():
            stacked[number] = frame
        found[name] = (("job", *(f"{name}_{dim}" for dim in map(str, first.dims))), stacked)
    return found


def last_frames(job: Job) -> dict[str, xarray.DataArray]:
    """The last predicted frame of each field of a finished job; empty if the file cannot be read."""
    if job.state != DONE or not job.files.has("fields.h5"):
        return {}
    try:
        with open_film(job.files.path("fields.h5")) as film:
            fields = film.fields | film.diagnostics
            return {
                name: xarray.DataArray(film.frame(name, "predicted", film.ts.size - 1), dims=of.dims)
                for name, of in fields.items()
                if "predicted" in of.kinds and math.prod(of.shape) <= _MOST_VALUES
            }
    # damaged bytes may raise any exception
    except Exception:
        return {}


# points along an axis of a small map
_MOST_POINTS = 128


def write_page(directory: Path, jobs: Sequence[Job]) -> Path:
    """Write sweep.html into the directory of a sweep."""
    shown = [_shown(job, row) for job, row in zip(jobs, rows_of(jobs), strict=True)]
    name = next((job.files.summary.experiment for job in jobs if job.files.summary.experiment), directory.name)
    return write_sweep_page(directory / "sweep.html", name, tally(jobs), shown)


def _shown(job: Job, row: dict[str, object]) -> Shown:
    errors = [abs(x) for key, x in row.items() if key.endswith(".relative_error") and isinstance(x, float)]
    seconds = row.get("seconds")
    return Shown(
        name=job.name,
        state=job.state,
        reason=job.reason,
        verdict=job.files.summary.verdict,
        values={key: row[key] for key in job.values},
        loss=job.loss,
        error=max(errors, default=None),
        iterations=job.iterations,
        seconds=seconds if isinstance(seconds, float) else None,
        page=f"{quote(job.name)}/report.html" if job.files.has("report.html") else "",
        frames={name: frame for name, x in last_frames(job).items() if (frame := _small(x.values)) is not None},
    )


def _small(frame: np.ndarray) -> np.ndarray | None:
    """A frame on one or two axes, thinned to few points; None for other shapes and types."""
    if frame.ndim not in (1, 2) or frame.size < 2 or frame.dtype.kind not in "fiu":
        return None
    return frame[tuple(slice(None, None, -(-n // _MOST_POINTS)) for n in frame.shape)]
