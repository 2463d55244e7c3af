"""Studies of an experiment: sensitivity algorithms, effects of parameters, and origins of non-finite values."""

import dataclasses
from collections.abc import Sequence

import equinox as eqx
import numpy as np
from rich.console import Console
from rich.markup import escape

from pdefit._util.errors import PdefitError, with_space
from pdefit._util.memory import in_words
from pdefit.analysis.sensitivity import Effect, Sensitivity, sensitivity
from pdefit.cli.config.settings import Job
from pdefit.cli.run.build import build_experiment
from pdefit.cli.run.plan import device_memory
from pdefit.cli.run.recorded import at_best, open_run
from pdefit.cli.run.write import write
from pdefit.cli.runtime.terminal import RunsProgress, say, show_table
from pdefit.inverse.fit import fit as fitting
from pdefit.inverse.problem.instrument import ObserveAll
from pdefit.lab.adjoint_study import Comparison, Measured, compare
from pdefit.lab.doctor.doctor import doctor
from pdefit.output.pictures.studies import ADJOINTS, SENSITIVITY
from pdefit.output.store.fit_checkpoint import Saved


def run_compare_adjoints(job: Job) -> None:
    """Compare the algorithms at the start of a fit; writes compare.json, compare.csv and a figure."""
    console, functional = job.console, build_experiment(job.settings).alone("compare-adjoints")
    with console.status("comparing", spinner="line") as status:
        found = compare(functional, memory=device_memory().left, said=lambda what: status.update(f"comparing: {what}"))
    _show(found, console)
    write(found, job, ("compare.json", "compare.csv", "figures/adjoints.png"), ADJOINTS)


def _show(found: Comparison, console: Console) -> None:
    rows = (tuple(map(escape, (r.algorithm, *_numbers(r, found.reference), r.remark))) for r in found.measured)
    show_table(console, ("algorithm", "error", "time", "memory", "states", "remark"), rows)
    scope, best = found.scope, min(found.errors)
    part = "" if scope["observations"] == scope["of"] else ", shortened to keep it quick"
    say(
        console,
        f"gradient in {scope['unknowns']} unknowns on {scope['observations']} of {scope['of']} observation times{part}; "
        f"float64; error against {found.reference}; memory by the compiler's account",
        f"finite differences reach {best:.0e} at a step of {found.steps[found.errors.index(best)]:.0e}, automatic "
        f"differentiation {found.ad_error:.0e}",
    )
    console.print(f"[bold]{escape(found.verdict)}[/]", highlight=False)


def _numbers(row: Measured, reference: str) -> list[str]:
    error = "-" if row.error is None else "reference" if row.algorithm == reference else f"{row.error:.0e}"
    error = "0" if row.error == 0 and row.algorithm != reference else error
    seconds = "-" if row.seconds is None else f"{row.seconds:.2g} s"
    return [error, seconds, "-" if row.peak_bytes is None else in_words(row.peak_bytes), str(row.stored_states)]


def run_sensitivity(job: Job) -> None:
    """Rank the parameters of an experiment; writes sensitivity.json, sensitivity.csv and a figure.

    Parameters change around the truth, or around the guess if the truth is unknown, over the fitted frames.
    """
    exp, console = build_experiment(job.settings), job.console
    functional, ts = exp.alone("sensitivity"), exp.source.record.ts[: exp.fitted]
    problem = functional.problem if exp.truth is None else exp.truth
    if problem.observe.lacks_points:
        # fields are compared where nothing moves
        problem = eqx.tree_at(lambda p: p.observe, problem, ObserveAll())
    with RunsProgress(console) as bar:
        found = sensitivity(
            problem,
            ts,
            solver=functional.runner.solver,
            dt=functional.dt,
            steps=functional.steps,
            said=bar,
        )
    if all(e.left_out for e in found.effects):
        told = ", ".join(f"{e.parameter}: {e.left_out}" for e in found.effects)
        raise PdefitError(
            f"{type(problem.system).__name__} has no parameter that is one nonzero number ({told}), so there is "
            f"nothing to scale; choose another experiment"
        )
    paths = [c.path for c in functional.controls.items]
    found = dataclasses.replace(found, controls=(*(path.split(".")[0] for path in paths), *paths))
    at = "guess" if exp.truth is None else "truth"
    show_effects(found, console)
    _notes(found.effects, at, ts, with_space(problem.system.time_unit), console)
    files = ("sensitivity.json", "sensitivity.csv", "figures/sensitivity.png")
    write(found, job, files, SENSITIVITY, about={"experiment": job.name, "at": at})


def show_effects(found: Sensitivity, console: Console) -> None:
    """Print the ranked parameters and their effects."""
    rows = (
        (
            str(k),
            e.parameter,
            f"{e.value:.4g}",
            escape(e.unit),
            _shown(e.larger),
            _shown(e.smaller),
            "control" * (e.parameter in found.controls),
        )
        for k, e in enumerate((e for e in found.effects if not e.left_out), 1)
    )
    factors = f">x {found.factor:g}", f">/ {found.factor:g}"
    show_table(console, (">rank", "parameter", ">value", "unit", *factors, ""), rows)


def _notes(effects: Sequence[Effect], at: str, ts: np.ndarray, unit: str, console: Console) -> None:
    left_out = [f"{e.parameter} ({e.left_out})" for e in effects if e.left_out]
    say(
        console,
        f"effects: rms difference of what is observed, in units of each field's range, around the {at}, over {ts.size} "
        f"frames from {ts[0]:g} to {ts[-1]:g}{unit}",
        f"left out: {', '.join(left_out)}" if left_out else "",
    )


def _shown(effect: float | None) -> str:
    if effect is None:
        return ""
    return f"{effect:.2e}" if np.isfinite(effect) else "blows up"


def run_doctor(job: Job, saved: Saved | None = None) -> None:
    """Print the doctor's findings at the start of a fit, and write doctor.json.

    **Arguments:**

    - `job`: the experiment.
    - `saved`: the checkpoint of a fit, which is then examined at its best point.

    **Errors:** PdefitError if something is not finite.
    """
    exp = build_experiment(job.settings)
    functional = fitting.first_functional(exp.functional, exp.stages)
    found = doctor(*((functional, functional.theta0) if saved is None else at_best(exp, saved)))
    if found.healthy:
        say(job.console, found.sentence)
    write(found, job, ("doctor.json",))
    if not found.healthy:
        raise PdefitError(found.sentence)


def run_doctor_on_a_run(arguments: list[str], console: Console) -> None:
    """Examine a run at its best point, or at its guess if it has no best point."""
    run_doctor(*open_run(arguments, "doctor", console))
