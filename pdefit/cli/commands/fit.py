"""pdefit fit: from observations, or those of a twin, to estimates, a forecast, files and figures."""

import dataclasses
import logging
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jax
import numpy as np
from rich.console import Console
from rich.markup import escape

from pdefit._util import interrupts
from pdefit._util.atomic import write_json
from pdefit._util.errors import PdefitError, with_space
from pdefit.analysis.goodness.verdict import FITTED, Verdict
from pdefit.cli.config.settings import Settings
from pdefit.cli.experiment.build import build_experiment
from pdefit.cli.experiment.experiment import Experiment
from pdefit.cli.experiment.noise_summary import describe, noise_summary
from pdefit.cli.results.fit_quality import distrust, fit_quality, sigma_stated
from pdefit.cli.results.forecast_summary import check_lyapunov
from pdefit.cli.results.parameter_rows import field_errors, parameter_rows
from pdefit.cli.results.parameter_table import parameter_table
from pdefit.cli.results.pictures_of_runs import description, pictures, report, tell
from pdefit.cli.results.posterior import check_posterior, posterior_summary
from pdefit.cli.results.recordings import recordings_summary, write_recordings
from pdefit.cli.results.switch_bias import switch_bias
from pdefit.cli.runs.adjoint_scratch import checkpoints_in
from pdefit.cli.runs.certificates import Certificates
from pdefit.cli.runs.discretisation_check import FINER, Discretisation, discretisation, steps_of
from pdefit.cli.runs.minimise import minimise
from pdefit.cli.runs.planning import adjoint_summary, compared, memory_summary, plan
from pdefit.cli.runtime.memory_meter import Metered
from pdefit.cli.runtime.stopwatch import Stopwatch
from pdefit.inverse.fit import fit as fitting
from pdefit.inverse.fit.stability import step_choice
from pdefit.inverse.objective.compiled import WEIGHTED
from pdefit.inverse.uncertainty.intervals import Intervals, intervals
from pdefit.output.store.fit_checkpoint import Saved
from pdefit.output.store.parameters import ParameterRow, write_parameters

log = logging.getLogger("pdefit")


def run_fit(settings: Settings, directory: Path, name: str, console: Console, saved: Saved | None = None) -> None:
    """Fit an experiment and write a complete run directory.

    **Arguments:**

    - `settings`, `name`: the experiment, and its name for tables and files.
    - `directory`: of the run.
    - `saved`: the checkpoint from which a stopped fit goes on (default: from the start).
    """
    watch = Stopwatch()
    console.print(f"[bold]{name}[/]: {'reading data' if settings.data else 'making the twin'}")
    exp = build_experiment(settings)
    check_lyapunov(settings.lyapunov, exp)
    check_posterior(settings.posterior, exp)
    with checkpoints_in(directory, exp.driver):
        _fit(exp, settings, directory, name, console, saved, watch)


def _fit(
    exp: Experiment,
    settings: Settings,
    directory: Path,
    name: str,
    console: Console,
    saved: Saved | None,
    watch: Stopwatch,
) -> None:
    """All steps from the cost estimate to the verdict."""
    functional = exp.functional
    watch.lap("data")
    _note(describe(exp.noise), console)
    unit = functional.problem.system.time_unit
    stepping = (
        step_choice(functional)
        if functional.steps is None
        else f"{steps_of(functional)} adaptive steps from {functional.dt:.2g}{with_space(unit)}"
    )
    groups, many = functional.groups, f" of {len(exp.recordings)} recordings" if exp.recordings else ""
    console.print(
        f"{exp.variant}: {functional.observed_values} values at {sum(one.fitted for one in exp.each.values())} times{many}, "
        f"{functional.controls.size} controls, {groups} segment{'s' * (groups > 1)}, {stepping}; compiling ..."
    )
    _note(exp.choices, console)
    damaged = "" if saved is None else saved.damaged
    fallen = (
        [f"'{damaged}' is damaged; the state before it is taken, which repeats some evaluations"] if damaged else []
    )
    for line in [*exp.remarks, *fallen]:
        log.warning(line)
        console.print(f"[yellow]warning:[/] {escape(line)}", highlight=False)
    certificates, driver = Certificates(exp, settings, directory), Metered(exp.driver)
    planned = plan(exp, settings)
    watch.lap("plan")
    console.print(f"plan: {planned['text']}", highlight=False)
    if saved is None:
        write_json(directory / "plan.json", planned)
        certificates.start(console)
        watch.lap("certificates")
    found = minimise(exp, settings, directory, console, saved, driver)
    watch.lap("fit")
    # from here on a first signal waits until all results are written
    interrupts.finish()
    for event in found.events:
        log.warning(event)
    found_intervals = _intervals(found, sigma_stated(exp), console)
    quality, verdict = fit_quality(exp, found)
    moved, doubt = discretisation(exp, found, found_intervals), distrust(exp, verdict)
    rows = parameter_rows(exp, found, found_intervals, moved.worst, not doubt)
    write_parameters(directory / "parameters.csv", rows)
    console.print(parameter_table(rows, () if found_intervals is None else found_intervals.unidentifiable))
    verdict = _with_doubts(verdict, rows, moved, doubt, console)
    watch.lap("intervals")
    uncertain = posterior_summary(exp, found, settings, directory / "posterior.h5", name, console)
    watch.lap("posterior")

    console.print(f"writing fields.h5{' and the forecast' if exp.forecasts else ''}")
    ahead = write_recordings(exp, found, settings, directory, name, console)
    summary = _summary(exp, found, found_intervals, rows, name)
    summary |= recordings_summary(exp, found, quality, ahead, directory, summary, console)
    summary["discretisation"], summary["posterior"] = moved.as_dict(), uncertain
    if summary["intervals"] is not None:
        summary["intervals"]["trusted"] = all(r.interval_trusted for r in rows)
        summary["intervals"]["doubt"] = doubt
    summary["verdict"], summary["verdict_reason"] = verdict.word, verdict.reason
    summary["smooth_tangents"] = switch_bias(found, found_intervals, console)
    watch.lap("forecast")
    summary["certificate"] = certificates.end(found, console)
    watch.lap("certificates")
    gradient, forward = _evaluation_times(found)
    summary["seconds"] = {
        **watch.seconds,
        "compile": watch.compiling,
        "gradient": gradient,
        "forward": forward,
    }
    summary["adjoint"] = {**adjoint_summary(planned), "gradient_to_forward": gradient / forward}
    summary["memory"] = memory_summary(planned, driver.peak_bytes)
    outcome = compared(planned, driver.peak_bytes, gradient)
    _note([outcome], console)
    # written before the pictures too, so that nothing is lost if drawing fails
    write_json(directory / "summary.json", summary)
    watch.lap("writing")
    tell(pictures(directory) if settings.render else description(directory), console)
    watch.lap("pictures")
    summary["seconds"] |= {**watch.seconds, "total": watch.total()}
    write_json(directory / "summary.json", summary)
    if settings.render:
        tell(report(directory), console)
    certificates.demand()
    log.info("loss %.6g after %d iterations", found.loss, found.iterations)
    console.print(
        f"{found.status} in {summary['seconds']['total']:.1f} s, loss {found.loss_initial:.4g} -> {found.loss:.4g} in "
        f"{found.iterations} iterations{'' if found.converged else ' (not converged)'}: {escape(str(directory))}"
    )
    _note([f"seconds: {watch}"], console)
    log.info("%s", verdict)
    console.print(f"[bold]{verdict.word}[/]: {escape(verdict.reason)}", highlight=False, soft_wrap=True)


def _note(lines: Iterable[str], console: Console) -> None:
    """Write lines into the log and on the terminal."""
    for line in lines:
        log.info(line)
        console.print(line, highlight=False)


def _intervals(found: fitting.Fit, stated: bool, console: Console) -> Intervals | None:
    """Intervals of the controls, and a message about those that are not identifiable; None where there are none."""
    if not found.functional.controls.tabulated.items:
        return None
    try:
        out = intervals(found.functional, found.theta, sigma_stated=stated)
    except PdefitError as error:
        log.warning("%s", error)
        console.print(f"[yellow]no intervals:[/] {escape(str(error))}")
        return None
    if out.unidentifiable:
        log.warning("not identifiable: %s", ", ".join(out.unidentifiable))
        console.print(f"[yellow]not identifiable from these data:[/] {', '.join(out.unidentifiable)}")
    return out


def _with_doubts(
    verdict: Verdict, rows: list[ParameterRow], moved: Discretisation, doubt: str, console: Console
) -> Verdict:
    """The verdict with the doubts that belong to it; all doubts about the intervals are printed."""
    if doubt and any(r.half_width is not None for r in rows):
        line = f"intervals in brackets are not to be trusted: {doubt}"
        log.warning(line)
        console.print(f"[yellow]{line}[/]", highlight=False)
    if str(moved):
        log.warning(str(moved))
        console.print(f"[yellow]{escape(str(moved))}[/]", highlight=False)
    for what, reason in moved.unchecked.items():
        log.info("%s not tried: %s", FINER[what][0], reason)
    for line in moved.untested:
        console.print(escape(line), highlight=False)
    said = [verdict.reason]
    said += [str(moved)] if moved.decides else []
    # any other verdict casts doubt on the intervals by itself
    if doubt and rows and verdict.word == FITTED:
        said.append(doubt if moved.decides else f"intervals are not to be trusted: {doubt}")
    return dataclasses.replace(verdict, reason="; ".join(said))


def _summary(
    exp: Experiment,
    found: fitting.Fit,
    found_intervals: Intervals | None,
    rows: list[ParameterRow],
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
                "discretisation_shift": r.discretisation_shift,
                "interval_trusted": r.interval_trusted,
            }
            for r in rows
        },
        "intervals": None if found_intervals is None else {
            "method": found_intervals.method,
            "degrees_of_freedom": found_intervals.degrees,
            "not_identifiable": found_intervals.unidentifiable,
        },
        "fields": field_errors(exp, found),
        "sigma": {n: np.unique(np.asarray(s)).tolist()[:64] for n, s in functional.observations.sigma.items()},
        "noise": noise_summary(exp.noise, exp.unstated),
        "warnings": list(exp.remarks),
        "events": found.events,
    }  # fmt: skip


def _evaluation_times(found: fitting.Fit) -> tuple[float, float]:
    """Seconds of one evaluation of the last optimizer, and of one forward run."""
    start = time.perf_counter()
    # the program is compiled, since residuals were computed before
    jax.block_until_ready([WEIGHTED(part.functional, part.theta) for part in found.recordings])
    forward = time.perf_counter() - start
    last = [r.seconds for r in found.history if r.stage == found.history[-1].stage] or [np.nan]
    return float(np.median(last)), forward
