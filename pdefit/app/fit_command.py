"""pdefit fit: observations or a twin -> controls -> forecast -> files and figures."""

import logging
import time
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pdefit.app.automatic_sigma import describe, noise_summary
from pdefit.app.certificates import Certificates
from pdefit.app.checkpoints import checkpoints_in
from pdefit.app.experiment import Experiment, experiment
from pdefit.app.film import write_film
from pdefit.app.fit_quality import fit_quality
from pdefit.app.forecast_summary import check_lyapunov, forecast_summary, write_forecast
from pdefit.app.memory_meter import Metered
from pdefit.app.minimise import minimise
from pdefit.app.parameter_rows import field_errors, parameter_rows
from pdefit.app.pictures_of_runs import description, pictures, report, tell
from pdefit.app.planning import adjoint_summary, compared, memory_summary, plan
from pdefit.app.residual_series import residual_series
from pdefit.app.switch_bias import switch_bias
from pdefit.errors import PdefitError
from pdefit.files.atomic import write_json
from pdefit.files.parameters_file import ParameterRow, write_parameters
from pdefit.files.state_file import Saved
from pdefit.files.tables import write_series
from pdefit.inverse import fit as fitting
from pdefit.inverse.functional import Functional
from pdefit.inverse.identify import Intervals, intervals

log = logging.getLogger("pdefit")


def run_fit(cfg: dict[str, Any], directory: Path, name: str, console: Console, saved: Saved | None = None) -> None:
    """Fit an experiment, from the start or from a saved state, and leave a complete run directory."""
    begin = time.perf_counter()
    console.print(f"[bold]{name}[/]: {'reading data' if cfg['data'] else 'making the twin'}")
    exp = experiment(cfg)
    check_lyapunov(cfg["lyapunov"], exp)
    with checkpoints_in(directory, exp.driver):
        _fit(exp, cfg, directory, name, console, saved, begin)


def _fit(
    exp: Experiment,
    cfg: dict[str, Any],
    directory: Path,
    name: str,
    console: Console,
    saved: Saved | None,
    begin: float,
) -> None:
    """Everything from the plan to the verdict; `begin` is when the run started."""
    functional = exp.functional
    seconds = {"data": time.perf_counter() - begin}
    for line in describe(exp.noise):
        log.info(line)
        console.print(line, highlight=False)
    steps = functional.layout.plan.steps
    stepping = (
        f"dt {functional.dt:.4g}" if functional.steps is None else f"{steps} adaptive steps from {functional.dt:.2g}"
    )
    console.print(
        f"{exp.variant}: {functional.observed_values} values at {exp.fitted} times, {functional.controls.size} controls, "
        f"{functional.layout.segments} segment{'s' * (functional.layout.segments > 1)}, {stepping} "
        f"{functional.problem.system.time_unit}, compiling ..."
    )
    for line in exp.choices:
        log.info(line)
        console.print(line, highlight=False)
    certificates, driver = Certificates(exp, cfg, directory), Metered(exp.driver)
    planned = plan(exp, cfg)
    console.print(f"plan: {planned['text']}", highlight=False)
    if saved is None:
        write_json(directory / "plan.json", planned)
        certificates.start(console)
    found = minimise(exp, cfg, directory, console, saved, driver)
    for event in found.events:
        log.warning(event)
    found_intervals = _intervals(found, console)
    rows = parameter_rows(exp, found, found_intervals)
    write_parameters(directory / "parameters.csv", rows)
    console.print(_table(rows, () if found_intervals is None else found_intervals.vague))

    console.print(f"writing fields.h5{' and the forecast' if exp.forecasts else ''}")
    skill, last = write_film(exp, found, cfg["store"], directory / "fields.h5", name)
    fitted_ts = found.functional.observations.ts
    write_series(directory / "residuals.csv", fitted_ts, residual_series(found.functional, found.theta))
    ahead = None
    if skill is not None:
        ahead = forecast_summary(exp, found, skill, last, cfg["lyapunov"], console)
        write_forecast(directory / "forecast.csv", skill)
    summary = _summary(exp, found, found_intervals, rows, ahead, name)
    summary["fit"], verdict = fit_quality(exp, found)
    summary["verdict"], summary["verdict_reason"] = verdict.word, verdict.reason
    summary["smooth_tangents"] = switch_bias(found, found_intervals, console)
    summary["certificate"] = certificates.end(found, console)
    summary["seconds"] = {**_timings(found, begin), **seconds, "certificates": certificates.seconds}
    gradient, forward = summary["seconds"]["gradient"], summary["seconds"]["forward"]
    summary["adjoint"] = {**adjoint_summary(planned), "gradient_to_forward": gradient / forward}
    summary["memory"] = memory_summary(planned, driver.peak_bytes)
    outcome = compared(planned, driver.peak_bytes, gradient)
    log.info(outcome)
    console.print(outcome, highlight=False)
    write_json(directory / "summary.json", summary)
    drawing = time.perf_counter()
    tell(pictures(directory) if cfg["render"] else description(directory), console)
    summary["seconds"]["pictures"] = time.perf_counter() - drawing
    summary["seconds"]["total"] = time.perf_counter() - begin
    write_json(directory / "summary.json", summary)
    if cfg["render"]:
        tell(report(directory), console)
    certificates.demand()
    log.info("loss %.6g after %d iterations", found.loss, found.iterations)
    console.print(
        f"{found.status} in {summary['seconds']['total']:.1f} s, loss {found.loss_initial:.4g} -> {found.loss:.4g} in "
        f"{found.iterations} iterations{'' if found.converged else ' (not converged)'}: {escape(str(directory))}"
    )
    log.info("%s", verdict)
    console.print(f"[bold]{verdict.word}[/]: {escape(verdict.reason)}", highlight=False, soft_wrap=True)


def _intervals(found: fitting.Fit, console: Console) -> Intervals | None:
    """Intervals for few controls, with a word about those the data cannot tell."""
    if not found.functional.controls.recorded.items:
        return None
    try:
        out = intervals(found.functional, found.theta)
    except PdefitError as error:
        log.warning("%s", error)
        console.print(f"[yellow]no intervals:[/] {escape(str(error))}")
        return None
    if out.vague:
        log.warning("not identifiable: %s", ", ".join(out.vague))
        console.print(f"[yellow]not identifiable from these data:[/] {', '.join(out.vague)}")
    return out


def _table(rows: list[ParameterRow], vague: tuple[str, ...]) -> Table:
    """The estimates in 80 columns; parameters.csv has all digits and units."""
    table = Table(box=None, header_style="bold")
    table.add_column("control", no_wrap=True)
    for column in ("guess", "estimate", "95 %", "truth", "error", "z"):
        table.add_column(column, justify="right", no_wrap=True)
    for r in rows:
        table.add_row(
            r.control,
            f"{r.guess:.4g}",
            f"{r.estimate:.7g}",
            ("unknown" if r.control in vague else "") if r.half_width is None else f"±{r.half_width:.1e}",
            "" if r.truth is None else f"{r.truth:.7g}",
            "" if r.relative_error is None else f"{r.relative_error:+.1e}",
            "" if r.z_score is None else f"{r.z_score:+.1f}",
        )
    return table


def _summary(
    exp: Experiment,
    found: fitting.Fit,
    found_intervals: Intervals | None,
    rows: list[ParameterRow],
    ahead: dict[str, Any] | None,
    name: str,
) -> dict[str, Any]:
    functional = found.functional
    return {
        "experiment": name,
        "variant": exp.variant,
        "status": found.status,
        "converged": found.converged,
        "loss_initial": found.loss_initial,
        "loss_final": found.loss,
        "iterations": found.iterations,
        "gradient_evaluations": found.iterations,
        "time_unit": functional.problem.system.time_unit,
        "parameters": {
            r.control: {
                "estimate": r.estimate,
                "truth": r.truth,
                "relative_error": r.relative_error,
                "ci95": [r.ci95_low, r.ci95_high],
                "z_score": r.z_score,
            }
            for r in rows
        },
        "intervals": None if found_intervals is None else {
            "method": found_intervals.method,
            "degrees_of_freedom": found_intervals.degrees,
            "not_identifiable": found_intervals.vague,
        },
        "fields": field_errors(exp, found),
        "forecast": ahead,
        "sigma": {n: np.unique(np.asarray(s)).tolist()[:64] for n, s in functional.observations.sigma.items()},
        "noise": noise_summary(exp.noise, exp.unstated),
        "events": found.events,
    }  # fmt: skip


def _timings(found: fitting.Fit, begin: float) -> dict[str, float]:
    """Seconds of the parts; one evaluation of what the optimizer asks, beside one forward run."""
    functional, theta = found.functional, jnp.asarray(found.theta)
    value = eqx.filter_jit(Functional.value)
    jax.block_until_ready(value(functional, theta))
    start = time.perf_counter()
    jax.block_until_ready(value(functional, theta))
    forward = time.perf_counter() - start
    last = [r.seconds for r in found.history if r.stage == found.history[-1].stage] or [np.nan]
    return {
        "compile": found.seconds["compile"],
        "forward": forward,
        "gradient": float(np.median(last)),
        "fit": found.seconds["evaluations"],
        "total": time.perf_counter() - begin,
    }
