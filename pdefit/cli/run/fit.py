"""pdefit fit and resume: from observations, or a twin's, to estimates, a forecast, files and figures."""

import dataclasses
import logging
import time
from shlex import quote
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape

from pdefit._util.atomic import write_json
from pdefit._util.errors import with_space
from pdefit._util.memory import compile_ahead
from pdefit.analysis.derive import derive
from pdefit.analysis.goodness.assessment import Assessment
from pdefit.analysis.goodness.discretisation import FINER
from pdefit.analysis.goodness.evidence import Verdict
from pdefit.analysis.goodness.judge import affordable, judge
from pdefit.analysis.goodness.verdict import UNFINISHED, distrust
from pdefit.cli.config.settings import Job
from pdefit.cli.run.bootstrap import bootstrap_summary
from pdefit.cli.run.build import build_experiment
from pdefit.cli.run.certify import Certificates
from pdefit.cli.run.experiment import Experiment
from pdefit.cli.run.follow import lead
from pdefit.cli.run.forecast import check_lyapunov
from pdefit.cli.run.minimise import checkpoints_in
from pdefit.cli.run.parameters import derived_row, field_errors, likelihood_summary, parameter_rows, parameter_table
from pdefit.cli.run.pictures import Draw, drawing, report, tell
from pdefit.cli.run.plan import adjoint_summary, compared, memory_summary, plan
from pdefit.cli.run.posterior import check_posterior, posterior_summary
from pdefit.cli.run.recorded import log_to, open_run
from pdefit.cli.run.recordings import recordings_summary, sigma_summary, write_recordings
from pdefit.cli.run.refit_with_half_the_step import steps_of
from pdefit.cli.run.source import true_theta
from pdefit.cli.run.starts import check_many, minimise_from_starts
from pdefit.cli.run.switch_bias import switch_bias
from pdefit.cli.runtime.memory_meter import peak
from pdefit.cli.runtime.process import Stopwatch
from pdefit.cli.runtime.run_directory import recorded
from pdefit.cli.runtime.terminal import say, warn
from pdefit.data.noise import describe
from pdefit.inverse.fit import fit as fitting
from pdefit.inverse.fit.refused_combinations import refuse
from pdefit.inverse.fit.unstable_steps import step_choice
from pdefit.inverse.objective.compiled import PARTS
from pdefit.output.store.fit_checkpoint import Saved
from pdefit.output.store.summary import EvidenceSection, IntervalsSection, Summary
from pdefit.output.store.tables import ParameterRow, write_parameters

log = logging.getLogger("pdefit")

# entries of a parameter in summary.json, beside its interval
_OF_A_ROW = ("estimate", "truth", "relative_error", "z_score", "discretisation_shift", "interval_trusted")


def run_fit(job: Job, saved: Saved | None = None) -> None:
    """Fit an experiment and write a complete run directory.

    **Arguments:**

    - `job`: the experiment and its run.
    - `saved`: the checkpoint from which a stopped fit continues (default: from the start).
    """
    refuse(job.settings.choices())
    lead(job)
    with drawing(job.directory, job.settings.render, job.settings.cores) as draw:
        if job.settings.members:
            # here, because it loads xarray
            from pdefit.cli.run.members import run_members

            return run_members(job, draw, saved)
        watch, settings = Stopwatch(), job.settings
        job.console.print(f"[bold]{job.name}[/]: {'reading data' if settings.data else 'making the twin'}")
        exp = build_experiment(settings)
        check_lyapunov(settings.lyapunov, exp)
        check_posterior(settings.posterior, exp)
        check_many(exp.functional, exp.stages, settings)
        with checkpoints_in(job.directory, exp.driver):
            _fit(exp, job, draw, saved, watch)


def _fit(exp: Experiment, job: Job, draw: Draw, saved: Saved | None, watch: Stopwatch) -> None:
    """Run all steps from the cost estimate to the verdict."""
    functional, settings, directory, console = exp.functional, job.settings, job.directory, job.console
    watch.lap("data")
    say(console, *describe(exp.source.noise))
    unit = functional.problem.system.time_unit
    stepping = (
        step_choice(functional)
        if functional.steps is None
        else f"{steps_of(functional)} adaptive steps from {functional.dt:.2g}{with_space(unit)}"
    )
    groups, many = functional.groups, f" of {len(exp.recordings)} recordings" if exp.recordings else ""
    console.print(
        f"{exp.source.variant}: {functional.observed_values} values at {exp.frames} times{many}, "
        f"{functional.controls.size} controls, {groups} segment{'s' * (groups > 1)}, {stepping}; compiling ..."
    )
    say(console, *exp.choices)
    damaged = "" if saved is None else saved.damaged
    repeats = "the state before it is taken, which repeats some evaluations"
    fallen = [f"'{damaged}' is damaged; {repeats}"] if damaged else []
    for line in [*exp.remarks, *fallen]:
        warn(console, line, "warning:")
    certificates = Certificates(exp, job)
    planned = plan(exp, settings)
    watch.lap("plan")
    console.print(f"plan: {planned['text']}", highlight=False)
    if saved is None:
        write_json(directory / "plan.json", planned)
        certificates.start()
        watch.lap("certificates")
    exp, found, explored = minimise_from_starts(exp, job, saved, watch)
    gradient, forward = _evaluation_times(found)
    for event in found.events:
        log.warning(event)
    left_out = _left_out(found, job)
    if left_out:
        log.warning(left_out)
        console.print(f"[yellow]{escape(left_out)}[/]", highlight=False, soft_wrap=True)
    assessed = judge(exp.with_known(found), with_intervals=not left_out)
    verdict, found_intervals = assessed.verdict, assessed.intervals
    doubt = distrust(verdict.word, exp.source.noiseless)
    rows = parameter_rows(exp, found, found_intervals, assessed.discretisation.worst, not doubt, assessed.widened)
    write_parameters(directory / "parameters.csv", rows)
    derived = derive(exp.with_known(found), exp.derive, assessed, true_theta(found.functional.controls, exp.true_value))
    derived_rows = [*map(derived_row, derived)]
    if derived:
        write_parameters(directory / "derived.csv", derived_rows)
    _show_intervals([*rows, *derived_rows], assessed, doubt, console)
    watch.lap("intervals")
    uncertain = posterior_summary(exp, found, job)
    watch.lap("posterior")
    repeated = bootstrap_summary(found, found_intervals, job)
    watch.lap("bootstrap")

    console.print(f"writing fields.h5{' and the forecast' if exp.forecasts else ''}")
    ahead = write_recordings(exp, found, job)
    sections = recordings_summary(exp, found, [*assessed.sections.values()], ahead, job)
    watch.lap("forecast" if exp.forecasts else "fields")
    summary = Summary(
        experiment=job.name,
        **_of_the_fit(exp, found, rows, doubt, assessed),
        **sections,
        discretisation=assessed.discretisation.record(),
        posterior=uncertain,
        bootstrap=repeated,
        likelihood=likelihood_summary(found, found_intervals),
        starts=None if explored is None else explored.record(),
        derived={d.name: {"formula": d.formula, **_entry(r)} for d, r in zip(derived, derived_rows, strict=True)},
        verdict=verdict.word,
        verdict_reason=verdict.reason,
        evidence=EvidenceSection([*verdict.reasons], verdict.next),
        events=[*found.events, *filter(None, [left_out])],
        adjoint={**adjoint_summary(planned), "gradient_to_forward": gradient / forward},
    )
    # pictures are drawn from these files, while the gradient is tested
    summary.write(directory / "summary.json")
    watch.lap("writing")
    drawn = draw()
    bias = switch_bias(found, found_intervals, console)
    watch.lap("smooth tangents")
    skipped = left_out and settings.certificate != "end"
    certificate = None if skipped else certificates.end(found)
    watch.lap("certificates")
    say(console, compared(planned, peak(), gradient))
    seconds = watch.seconds | {"compile": watch.compiling, "gradient": gradient, "forward": forward}
    summary = dataclasses.replace(
        summary,
        smooth_tangents=bias,
        certificate=certificate,
        seconds=seconds,
        memory=memory_summary(planned, peak()),
    )
    # written before the pictures too, so that nothing is lost if drawing fails
    summary.write(directory / "summary.json")
    tell(drawn(), console)
    watch.lap("pictures")
    seconds |= watch.seconds | {"total": watch.total()}
    dataclasses.replace(summary, seconds=seconds).write(directory / "summary.json")
    if settings.render:
        tell(report(directory), console)
    certificates.demand()
    log.info("loss %.6g after %d iterations", found.loss, found.iterations)
    took = f"{found.status} in {seconds['total']:.1f} s"
    console.print(f"{took}, {outcome(found, verdict)}: {escape(str(directory))}")
    say(console, f"seconds: {watch}")
    log.info("%s", verdict)
    console.print(f"[bold]{verdict.word}[/]: {escape(verdict.reason)}", highlight=False, soft_wrap=True)


def _left_out(found: fitting.Fit, job: Job) -> str:
    """The reason why a fit has no intervals; empty if they are computed."""
    if job.settings.intervals == "always" or affordable(found):
        return ""
    return (
        "not converged, and intervals would cost more than the fit: they and the certificate at the estimate are left out; "
        f"`pdefit resume {quote(str(job.directory))} intervals=always` adds them"
    )


def outcome(found: fitting.Fit, verdict: Verdict) -> str:
    """Text on the decrease of the loss that agrees with the verdict."""
    first = f"{found.loss_initial:.4g}" if np.isfinite(found.loss_initial) else "not finite at the guess"
    ended = "" if found.converged else " (not converged)" if verdict.word in UNFINISHED else " (stopped)"
    return f"loss {first} -> {found.loss:.4g} in {found.iterations} iterations{ended}"


def _show_intervals(rows: list[ParameterRow], assessed: Assessment, doubt: str, console: Console) -> None:
    """Print estimates and intervals, all doubts about them, and the intervals for correlated residuals."""
    unknown = () if assessed.intervals is None else assessed.intervals.unidentifiable
    if assessed.unknown:
        warn(console, assessed.unknown, "no intervals:")
    if unknown:
        warn(console, ", ".join(unknown), "not identifiable from these data:")
    console.print(parameter_table(rows))
    if doubt and any(r.half_width is not None for r in rows):
        warn(console, f"intervals in brackets are not to be trusted: {doubt}")
    if assessed.widened and assessed.effective_values is not None:
        ends = [f"{name} {low:.4g} to {high:.4g}" for name, (low, high) in assessed.widened.items()]
        say(
            console,
            f"counting that residuals are correlated (as good as {assessed.effective_values:.4g} independent values), the "
            f"95 % intervals are {', '.join(ends)}",
        )
    moved = assessed.discretisation
    if str(moved):
        warn(console, str(moved))
    for what, reason in moved.unchecked.items():
        log.info("%s not tried: %s", FINER[what][0], reason)
    for line in moved.untested:
        console.print(escape(line), highlight=False)


def _of_the_fit(
    exp: Experiment, found: fitting.Fit, rows: list[ParameterRow], doubt: str, assessed: Assessment
) -> dict[str, Any]:
    """Entries of summary.json from the fit and its intervals."""
    return {
        "variant": exp.source.variant,
        "status": found.status,
        "converged": found.converged,
        "loss_initial": found.loss_initial,
        "loss_final": found.loss,
        "iterations": found.iterations,
        "gradient_evaluations": found.iterations,
        "time_unit": found.functional.problem.system.time_unit,
        "parameters": {r.control: _entry(r) for r in rows},
        "intervals": None if assessed.intervals is None else IntervalsSection(
            method=assessed.intervals.method,
            degrees_of_freedom=assessed.intervals.degrees,
            not_identifiable=[*assessed.intervals.unidentifiable],
            trusted=all(r.interval_trusted is not False for r in rows),
            doubt=doubt,
            counting_correlation={name: [*ends] for name, ends in assessed.widened.items()},
            effective_values=assessed.effective_values,
        ),
        "fields": field_errors(exp, found),
        "sigma": sigma_summary(found),
        "noise": {**exp.source.noise, **dict.fromkeys(exp.source.unstated, "not stated")},
        "warnings": list(exp.remarks),
    }  # fmt: skip


def _entry(row: ParameterRow) -> dict[str, Any]:
    """Entry of a number in summary.json."""
    return {key: getattr(row, key) for key in _OF_A_ROW} | {"ci95": [row.ci95_low, row.ci95_high]}


def _evaluation_times(found: fitting.Fit) -> tuple[float, float]:
    """Seconds of one evaluation by the last optimizer, and of one forward run that returns the residuals."""
    # compiled first, so that the run alone is timed
    for part in found.recordings:
        compile_ahead(PARTS, part.functional, part.theta)
    start = time.perf_counter()
    for part in found.recordings:
        _ = part.residuals
    forward = time.perf_counter() - start
    last = [r.seconds for r in found.history if r.stage == found.history[-1].stage] or [np.nan]
    return float(np.median(last)), forward


def run_resume(arguments: list[str], console: Console) -> None:
    """Continue a fit. On the same machine the result equals an uninterrupted fit bit for bit.

    **Arguments:**

    - `arguments`: the directory of the run, and `max_iterations=N` to extend it, or `intervals=always`.
    """
    job, saved = open_run(arguments, "resume", console)
    with recorded(job.directory, ["pdefit", "resume", *arguments], job.settings, job.name, resumed=True):
        log_to(job.directory)
        run_fit(job, saved)
