"""Several starts of one fit: their exploration, their results, and the fit from the best of them."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from pdefit._util import interrupts
from pdefit._util.errors import PdefitError
from pdefit.cli.config.settings import Job, Settings
from pdefit.cli.run.checkpoints import Checkpoints
from pdefit.cli.run.experiment import Experiment
from pdefit.cli.run.minimise import flat_values, minimise
from pdefit.cli.run.recorded import BETTER, of_fit
from pdefit.cli.runtime.process import Stopwatch
from pdefit.cli.runtime.terminal import MembersProgress, say, warn
from pdefit.inverse.fit import fit as fitting
from pdefit.inverse.fit.stages import Stage
from pdefit.inverse.members.bootstrap import check_bootstrap
from pdefit.inverse.members.drop_weak_starts import Exploration, Explorer
from pdefit.inverse.members.fit_members import stages_of
from pdefit.inverse.members.from_starts import from_starts
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.output.store.fit_checkpoint import Saved, load_state
from pdefit.output.store.tables import number, write_rows

# folder of a run in which the exploration is saved
STARTS = "starts"


def check_many(functional: AbstractObjective, stages: Sequence[Stage], settings: Settings) -> None:
    """Refuse, before the fit, an impossible bootstrap, and starts that vary nothing or that the stages exclude."""
    if settings.uncertainty is not None:
        check_bootstrap(functional, settings.uncertainty)
    if settings.starts is not None:
        stages_of(functional, stages)
        settings.starts.points.points(functional, settings.seed)


def minimise_from_starts(
    exp: Experiment, job: Job, saved: Saved | None, watch: Stopwatch
) -> tuple[Experiment, fitting.Fit, Exploration | None]:
    """Experiment, fit and exploration: a fit as in `minimise`, from the guess or from the best of many starts.

    The guess of the experiment is the start of the fit. Without starts the exploration is None.

    **Arguments:**

    - `exp`, `job`, `saved`: the experiment, its run, and the checkpoint to continue from.
    - `watch`: the stopwatch, which measures the phases.
    """
    starts = job.settings.starts

    def fitted(objective: AbstractObjective, _: Sequence[Stage]) -> fitting.Fit:
        found = minimise(dataclasses.replace(exp, functional=objective), job, saved)
        watch.lap("fit")
        return found

    if starts is None:
        return exp, fitted(exp.functional, exp.stages), None
    first = starts.when == "always"

    def explored() -> Exploration:
        if not first:
            say(job.console, "noise cannot explain the misfit: other starts are tried (starts=auto)")
        try:
            return _explored(exp, job)
        except PdefitError as error:
            if not first:
                warn(job.console, str(error), "no other starts:")
            raise
        finally:
            watch.lap("starts")

    def again(objective: AbstractObjective, stages: Sequence[Stage]) -> fitting.Fit:
        found = _better(exp, objective, stages, job)
        watch.lap("starts")
        return found

    needed = None if first else exp.unexplained
    found, ends = from_starts(exp.functional, exp.stages, explored, fitted, needed, again)
    if first and ends is not None:
        exp = dataclasses.replace(exp, functional=exp.functional.guessing(ends.point))
    return exp, found, ends


def _explored(exp: Experiment, job: Job) -> Exploration:
    """Results of many starts, with their table. A stopped exploration continues."""
    checkpoints, settings = Checkpoints.of(job, STARTS), job.settings
    assert settings.starts is not None
    with MembersProgress(job.console) as bar:
        explorer = Explorer(
            exp.functional,
            exp.stages,
            settings.starts.points,
            settings.seed,
            devices=settings.shared_by,
            callback=checkpoints.saving(bar, "starts"),
            judge=exp.judge_of_starts,
        )
        if (state := checkpoints.load()) is not None:
            explorer.restore(state)
        found = explorer.explore()
    say(job.console, f"starts: {found}")
    _write_table(found, exp.functional, job)
    return found


def _better(exp: Experiment, objective: AbstractObjective, stages: Sequence[Stage], job: Job) -> fitting.Fit:
    """The fit from the best start, with checkpoints beside those of the fit from the guess."""
    kept = load_state(job.directory / "state")
    assert kept is not None
    checkpoints = Checkpoints(job.directory / BETTER, kept.origin | {"of": of_fit(kept)})

    @interrupts.uninterrupted()
    def save(progress: fitting.Progress) -> None:
        checkpoints.save(progress.state())
        if interrupts.received():
            raise KeyboardInterrupt

    given = dict[str, Any](max_iterations=job.settings.max_iterations, driver=exp.driver)
    return fitting.fit(objective, stages, callback=save, resume=checkpoints.load(), **given)


def _write_table(found: Exploration, functional: AbstractObjective, job: Job) -> None:
    """Write starts.csv: the initial and final values, and the optimum, of each start."""
    controls = functional.controls.tabulated
    begun, ended = (
        np.asarray(flat_values(controls, np.asarray(x)[:, : controls.size])) for x in (found.starts, found.theta)
    )
    rows = []
    for e in range(found.loss.size):
        row: dict[str, Any] = {
            "start": e,
            "loss": number(found.loss[e]),
            "optimum": int(found.optima.label[e]) + 1 if found.optima.label[e] >= 0 else None,
            "converged": bool(found.converged[e]),
            "dropped": int(found.dropped[e]) + 1 if found.dropped[e] >= 0 else None,
            "evaluations": int(found.evaluations[e]),
        }
        row |= {f"{name} start": float(x) for name, x in zip(controls.names(), begun[e], strict=True)}
        row |= {name: float(x) for name, x in zip(controls.names(), ended[e], strict=True)}
        rows.append(row)
    write_rows(job.directory / "starts.csv", rows)
