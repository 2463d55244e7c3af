"""Many starts of one fit: which are tried, what they reach, and the fit that goes on from the best."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from pdefit._util import interrupts
from pdefit._util.errors import PdefitError
from pdefit.analysis.goodness.evidence import LARGEST_CHI2
from pdefit.cli.config.settings import Job, Settings
from pdefit.cli.run.checkpoints import Checkpoints
from pdefit.cli.run.experiment import Experiment
from pdefit.cli.run.minimise import flat_values, minimise
from pdefit.cli.run.recorded import BETTER, of_fit
from pdefit.cli.runtime.process import Stopwatch
from pdefit.cli.runtime.terminal import MembersProgress, say, warn
from pdefit.inverse.fit import fit as fitting
from pdefit.inverse.fit.stages import Stage
from pdefit.inverse.fit.stop import Holdout
from pdefit.inverse.members.bootstrap import check_bootstrap
from pdefit.inverse.members.explore import Exploration, Explorer
from pdefit.inverse.members.fit_members import stages_of
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.objective.compiled import sum_of_squares
from pdefit.output.store.fit_checkpoint import Saved, load_state
from pdefit.output.store.tables import number, write_rows

# folder of a run in which the exploration is saved
STARTS = "starts"
# root mean square residual of data without noise, as a part of their range, that is no round-off
_NOISELESS = 1e-3


def check_many(functional: AbstractObjective, stages: Sequence[Stage], settings: Settings) -> None:
    """Refuse a bootstrap that cannot be, and starts that vary nothing or that stages cannot have, before the fit."""
    if settings.uncertainty is not None:
        check_bootstrap(functional, settings.uncertainty)
    if settings.starts is not None:
        stages_of(functional, stages)
        settings.starts.points.points(functional, settings.seed)


def minimise_from_starts(
    exp: Experiment, job: Job, saved: Saved | None, watch: Stopwatch
) -> tuple[Experiment, fitting.Fit, Exploration | None]:
    """The fit as of `minimise`, from the guess or from the best of many starts, and what these reached.

    **Arguments:**

    - `exp`, `job`, `saved`: the experiment, its run, and the checkpoint from which it goes on.
    - `watch`: the seconds of its parts.
    """
    starts, explored = job.settings.starts, None
    if starts is not None and starts.when == "always":
        exp, explored = from_starts(exp, job)
        watch.lap("starts")
    found = minimise(exp, job, saved)
    watch.lap("fit")
    if starts is not None and starts.when == "needed" and unexplained(exp, found):
        found, explored = tried_again(exp, found, job)
        watch.lap("starts")
    return exp, found, explored


def from_starts(exp: Experiment, job: Job) -> tuple[Experiment, Exploration]:
    """The experiment whose guess is the best point that many starts have reached, and what they reached.

    **Arguments:**

    - `exp`, `job`: the experiment and its run. An exploration that was stopped goes on where it was.
    """
    settings, functional = job.settings, exp.functional
    assert settings.starts is not None
    checkpoints = Checkpoints.of(job, STARTS)
    with MembersProgress(job.console) as bar:
        explorer = Explorer(
            functional,
            exp.stages,
            settings.starts.points,
            settings.seed,
            devices=settings.shared_by,
            callback=checkpoints.saving(bar, "starts"),
            judge=_judge(exp, functional) if settings.starts.by == "holdout" else None,
        )
        if (state := checkpoints.load()) is not None:
            explorer.restore(state)
        found = explorer.explore()
    say(job.console, f"starts: {found}")
    _write_table(found, functional, job)
    if not np.isfinite(found.loss).any():
        raise PdefitError("The model blows up from all starts; give bounds (starts.within=bounds), or a better guess")
    return dataclasses.replace(exp, functional=functional.guessing(jnp.asarray(found.theta[found.best]))), found


def _judge(exp: Experiment, functional: AbstractObjective) -> AbstractObjective:
    """The objective of the frames that are kept out of the fit."""
    return Holdout(exp.source.record.at(slice(0, exp.fitted))).judged(functional)


def unexplained(exp: Experiment, found: fitting.Fit) -> bool:
    """Test for a misfit that noise cannot explain, as of a fit that ended in a wrong minimum."""
    chi2 = sum(sum_of_squares(part.residuals) for part in found.recordings)
    level = _NOISELESS**2 if exp.source.noiseless else LARGEST_CHI2
    return not chi2 <= level * found.functional.observed_values


def tried_again(exp: Experiment, found: fitting.Fit, job: Job) -> tuple[fitting.Fit, Exploration | None]:
    """The fit from the best of many starts where that is better than the one from the guess, and what they reached."""
    say(job.console, "noise cannot explain the misfit: other starts are tried (starts=auto)")
    try:
        better, explored = from_starts(exp, job)
    # what the fit has found stays
    except PdefitError as error:
        warn(job.console, str(error), "no other starts:")
        return dataclasses.replace(found, events=[*found.events, f"no other starts: {error}"]), None
    if not explored.loss[explored.best] < found.loss:
        return found, explored
    last = dataclasses.replace(exp.stages[-1], formulation=exp.first.formulation)
    kept = load_state(job.directory / "state")
    assert kept is not None
    checkpoints = Checkpoints(job.directory / BETTER, kept.origin | {"of": of_fit(kept)})

    @interrupts.uninterrupted()
    def save(progress: fitting.Progress) -> None:
        checkpoints.save(progress.state())
        if interrupts.received():
            raise KeyboardInterrupt

    given = dict[str, Any](max_iterations=job.settings.max_iterations, driver=exp.driver)
    again = fitting.fit(better.functional, [last], callback=save, resume=checkpoints.load(), **given)
    if not again.loss < found.loss:
        return found, explored
    evaluations = found.iterations + int(explored.evaluations.sum()) + again.iterations
    events = [*found.events, f"starts: {explored}", *again.events]
    return dataclasses.replace(again, iterations=evaluations, loss_initial=found.loss_initial, events=events), explored


def _write_table(found: Exploration, functional: AbstractObjective, job: Job) -> None:
    """Write starts.csv: for each start its numbers, where it ended, and the optimum that it reached."""
    controls = functional.controls.tabulated
    values = eqx.filter_jit(jax.vmap(flat_values, in_axes=(None, 0)))
    begun, ended = (
        np.asarray(values(controls, jnp.asarray(x[:, : controls.size]))) for x in (found.starts, found.theta)
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
