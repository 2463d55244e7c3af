"""Scores of the forecast for summary.json, forecast.csv and the terminal."""

from pathlib import Path

import numpy as np
from jaxtyping import PyTree
from rich.console import Console

from pdefit._util.errors import PdefitError, with_space
from pdefit.analysis.forecast.lyapunov import LyapunovResult, lyapunov
from pdefit.analysis.forecast.skill import VALID_BELOW, Skill
from pdefit.cli.run.experiment import Experiment
from pdefit.cli.runtime.terminal import say, warn
from pdefit.inverse.fit.result import Fit
from pdefit.inverse.problem.axes import observed_axes
from pdefit.output.store.summary import Baseline, ForecastSection
from pdefit.output.store.tables import write_series


def check_lyapunov(wanted: bool, exp: Experiment) -> None:
    """Refuse `lyapunov=true` for an experiment without a forecast, before the fit."""
    if wanted and not exp.forecasts:
        raise PdefitError("lyapunov=true measures over the forecast, and there is none; set times.fit_until")


def forecast_summary(
    exp: Experiment, found: Fit, skill: Skill, last: PyTree, with_lyapunov: bool, console: Console
) -> ForecastSection:
    """The section `forecast` of summary.json, also printed on one line.

    **Arguments:**

    - `exp`, `found`: the experiment and its fit.
    - `skill`: scores of the forecast.
    - `last`: the state at the end of the fit.
    - `with_lyapunov`: whether to compute the largest Lyapunov exponent.
    """
    start, unit = float(exp.source.record.ts[exp.fitted - 1]), found.problem.system.time_unit
    axes = observed_axes(found.functional.problem, found.functional.observations)
    exponent = _lyapunov(exp, found, last, console) if with_lyapunov else None
    summary = ForecastSection(
        horizon=float(skill.ts[-1]) - start,
        start=start,
        relative_l2_at_end=float(skill.relative_l2[-1]),
        valid_time=skill.valid_time,
        valid_to_end=skill.valid_to_end,
        valid_below=VALID_BELOW,
        unit=next(iter(axes.values())).unit if skill.per_label else "",
        baseline=Baseline(skill.baseline, float(skill.baseline_l2[-1])),
        baselines={name: float(error[-1]) for name, error in skill.baselines.items()},
        better=skill.better,
        peak_time=None if skill.peaks is None else {"unit": unit, **skill.peaks.record()},
        lyapunov=None if exponent is None else exponent.record(unit, skill.valid_time),
        per_label={
            label: {
                "error_at_end": float(error[-1]),
                "largest_error": float(np.max(error)),
                "baseline_at_end": float(skill.baseline_per_label[label][-1]),
                "baseline_largest": float(np.max(skill.baseline_per_label[label])),
            }
            for label, error in skill.per_label.items()
        },
    )
    say(console, in_words(summary, unit))
    return summary


def write_forecast(path: Path, skill: Skill) -> None:
    """Write forecast.csv: errors over time, for every label or for all points together."""
    columns: dict[str, np.ndarray] = {}
    if skill.per_label:
        for label, error in skill.per_label.items():
            columns |= {label: error, f"{label} baseline": skill.baseline_per_label[label]}
    else:
        columns = {"all points": skill.relative_l2, "all points baseline": skill.baseline_l2}
    write_series(path, skill.ts, columns)


def in_words(summary: ForecastSection, unit: str) -> str:
    """The section `forecast` of summary.json on one line, with the time unit of the system."""
    unit = with_space(unit)
    name, error, baseline = (
        summary.baseline.name,
        summary.relative_l2_at_end,
        f"{summary.baseline.relative_l2_at_end:.2g}",
    )
    to_end = "all" if summary.valid_to_end else f"{summary.valid_time:.4g}"
    parts = [
        f"forecast: valid (error below {summary.valid_below:g}) for {to_end} of {summary.horizon:.4g}{unit}",
        f"error at its end {error:.2g}, of {name} {baseline}"
        if error is not None and np.isfinite(error)
        else f"not finite at its end, because the model blows up; error of {name} there {baseline}",
    ]
    if summary.better is not None:
        parts.append(f"over all of it {summary.better} is better")
    peak, parting = summary.peak_time, summary.lyapunov
    if peak is not None:
        off = "no peak of" if np.isnan(peak["error"]) else f"peaks {peak['error']:.3g}{unit} off in"
        parts.append(f"{off} {peak['field']}, {peak['missed']:.1%} of {peak['peaks']} missed")
    if parting is not None:
        known = f"Lyapunov exponent {parting['exponent']:.3g} +- {parting['standard_error']:.1g}{with_space(parting['unit'])}"
        if np.isfinite(parting["time"]):
            times = parting["valid_time_in_lyapunov_times"]
            known += f": trajectories separate by a factor e in {parting['time']:.3g}{unit}, valid for {times:.2g} such times"
        parts.append(known)
    return "; ".join(parts)


def _lyapunov(exp: Experiment, found: Fit, last: PyTree, console: Console) -> LyapunovResult | None:
    """Lyapunov exponent of the fitted model from the end of the fit to the end of the forecast; None on failure."""
    numerics = found.functional.numerics(found.problem)
    try:
        return lyapunov(found.problem.system, last, exp.source.record.ts[exp.fitted - 1 :], **numerics._asdict())
    except PdefitError as error:
        warn(console, str(error), "no Lyapunov exponent:")
        return None
