"""Result files of each recording: in the run directory for one recording, in a folder each for many."""

import io
from typing import Any

import numpy as np
from rich.console import Console

from pdefit.cli.config.settings import Job
from pdefit.cli.run.experiment import Experiment
from pdefit.cli.run.fields import write_film
from pdefit.cli.run.forecast import forecast_summary, write_forecast
from pdefit.cli.run.residual_series import residual_series
from pdefit.cli.runtime.terminal import show_table
from pdefit.data.fit_section import FitSection, HeldOut
from pdefit.data.observations import Observations
from pdefit.inverse.controls.theta import Controls
from pdefit.inverse.fit.result import Fit
from pdefit.inverse.objective.functional import Functional
from pdefit.output.store.runs import recording_folder
from pdefit.output.store.summary import ForecastSection, RecordingSection, Summary
from pdefit.output.store.tables import write_rows, write_series

# columns of recordings.csv beside the own controls of a recording
_COLUMNS = ("recording", "frames", "values", "chi2_per_value", "heldout_chi2_per_value", "forecast_relative_l2")

# entries of the summary.json of one of many recordings
_ENTRIES = ("experiment", "variant", "status", "time_unit", "sigma", "fit", "forecast", "own", "frames")


def write_recordings(exp: Experiment, found: Fit, job: Job) -> list[ForecastSection | None]:
    """Write fields.h5, residuals.csv and forecast.csv of every recording; returns their sections `forecast`.

    **Arguments:**

    - `exp`, `found`, `job`: the experiment, its fit and its run.
    """
    ahead = list[ForecastSection | None]()
    for (name, one), part in zip(exp.each.items(), found.recordings, strict=True):
        folder = recording_folder(job.directory, name)
        skill, last = write_film(one, part, job.settings.store, folder / "fields.h5", f"{job.name} {name}".strip())
        series = residual_series(part.functional, part.residuals)
        write_series(folder / "residuals.csv", part.functional.observations.ts, series)
        ahead.append(None)
        if skill is not None:
            # of many recordings a table has the scores
            where = Console(file=io.StringIO()) if name else job.console
            ahead[-1] = forecast_summary(one, part, skill, last, job.settings.lyapunov, where)
            write_forecast(folder / "forecast.csv", skill)
    return ahead


def recordings_summary(
    exp: Experiment, found: Fit, quality: list[FitSection], ahead: list[ForecastSection | None], job: Job
) -> dict[str, Any]:
    """The sections `fit` and `forecast` of summary.json; for many recordings also each one's, under `recordings`.

    For many recordings, a table is printed and written to recordings.csv, and each folder gets its own summary.json.

    **Arguments:**

    - `exp`, `found`, `job`: the experiment, its fit and its run.
    - `quality`, `ahead`: the sections `fit` and `forecast` of every recording.
    """
    if not exp.recordings:
        return {"fit": quality[0], "forecast": ahead[0]}
    each, lines = dict[str, RecordingSection](), list[dict[str, Any]]()
    unit, parts = found.functional.problem.system.time_unit, found.recordings
    for (name, one), part, fit, forecast in zip(exp.recordings.items(), parts, quality, ahead, strict=True):
        own = _own_numbers(part)
        held, later = fit.heldout or HeldOut(), forecast or ForecastSection()
        told = (name, one.frames, fit.values, fit.chi2_per_value, held.chi2_per_value, later.relative_l2_at_end)
        lines.append(dict(zip(_COLUMNS, told, strict=True)) | own)
        each[name] = RecordingSection(fit=fit, forecast=forecast, own=own, frames=one.frames)
        summary = Summary(
            experiment=f"{job.name} {name}",
            variant=exp.source.variant,
            status=found.status,
            time_unit=unit,
            sigma=sigma_summary(part),
            **vars(each[name]),
        )
        summary.write(recording_folder(job.directory, name) / "summary.json", _ENTRIES)
    write_rows(job.directory / "recordings.csv", lines)
    # without empty columns
    shown = [key for key in lines[0] if any(line[key] is not None for line in lines)]
    cells = ([f"{x:.4g}" if isinstance(x := line[key], float) else str(x) for key in shown] for line in lines)
    show_table(job.console, [key.replace("_", " ") for key in shown], cells)
    values, chi2, likely = (sum(getattr(q, key) for q in quality) for key in ("values", "chi2", "log_likelihood"))
    whole = FitSection(chi2=chi2, values=values, chi2_per_value=chi2 / max(values, 1), log_likelihood=likely)
    return {"fit": whole, "forecast": None, "recordings": each}


def sigma_summary(found: Fit) -> dict[str, list[float]]:
    """Distinct standard deviations of the measured values of every variable, at most 64 of each."""
    data = [part.functional.observations for part in found.recordings]
    return {n: np.unique(np.concatenate([_of_seen(x, n) for x in data])).tolist()[:64] for n in data[0].sigma}


def _of_seen(data: Observations, name: str) -> np.ndarray:
    """Standard deviations of a variable: one number, or one for each measured value."""
    sigma, mask = np.asarray(data.sigma[name]), np.asarray(data.mask[name])
    if sigma.size == 1:
        return sigma.ravel()[: int(mask.any())]
    return np.broadcast_to(sigma, mask.shape)[mask]


def _own_numbers(found: Fit[Functional]) -> dict[str, float]:
    """Own scalars of one recording by name, including those fixed by a gauge."""
    controls, own = found.functional.controls, dict[str, float]()
    values = controls.values(found.theta)
    for control in controls.items:
        if control.own and control.is_number:
            own |= zip(Controls((control,)).names(), np.ravel(np.asarray(values[control.path])).tolist(), strict=True)
    return own
