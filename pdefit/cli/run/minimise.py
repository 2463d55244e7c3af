"""A fit with its history, checkpoint and scratch files on disk."""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.markup import escape

from pdefit._util import interrupts
from pdefit._util.errors import refusing
from pdefit._util.program import Program
from pdefit.cli.config.settings import Job, Settings
from pdefit.cli.run.checkpoints import Checkpoints
from pdefit.cli.run.course import Course
from pdefit.cli.run.experiment import Experiment
from pdefit.cli.run.recorded import same_problem
from pdefit.cli.runtime import processes
from pdefit.cli.runtime.terminal import FitProgress
from pdefit.inverse.controls.theta import Controls
from pdefit.inverse.fit import fit as fitting
from pdefit.inverse.fit.compiled_loop import MOST
from pdefit.inverse.fit.drivers import AbstractDriver, Hosted
from pdefit.inverse.objective.fingerprint import fingerprint
from pdefit.inverse.objective.spread import gathered, on_one, over_cores, over_processes
from pdefit.output.store.adjoint_scratch import CheckpointFile
from pdefit.output.store.fit_checkpoint import Saved
from pdefit.output.store.history import HistoryFile


def minimise(exp: Experiment, job: Job, saved: Saved | None) -> fitting.Fit:
    """Fit from the start, or from a checkpoint.

    After every chunk of evaluations the history is extended, and then the checkpoint is replaced. So the history always
    holds all evaluations before a checkpoint.

    **Arguments:**

    - `exp`, `job`: the experiment and its run.
    - `saved`: the checkpoint to continue from; None for the start.
    """
    settings, directory, console = job.settings, job.directory, job.console
    recorded = exp.functional.controls.tabulated
    guess = np.asarray(exp.functional.theta0[: recorded.size])
    hashes = fingerprint(exp.functional)
    resume = None if saved is None else saved.state
    if saved is not None:
        same_problem(saved.origin["hashes"], hashes, directory, console)
    extended = saved is not None and _is_extended(saved.origin, settings.max_iterations)
    checkpoints = Checkpoints.of(job, "state", hashes=hashes, extended=extended)
    stages = _extended(exp.stages, settings.max_iterations) if extended else exp.stages
    functional = over_processes(exp.functional, settings.cores) if processes.joined() else exp.functional
    fit = partial(
        fitting.fit, functional, stages, max_iterations=settings.max_iterations, resume=resume, driver=exp.driver
    )
    if processes.follows():
        return _together(fit, settings)
    with refusing("this experiment"):
        keep = 0 if resume is None else resume.iterations
        printed = [] if resume is None else list(resume.numbers["events"])
    course = Course(directory / "course.h5", exp, settings.store.dtype, job.name, keep)
    with HistoryFile(directory / "history.h5", recorded.names(), keep) as history, FitProgress(console) as bar:

        @interrupts.uninterrupted()
        def callback(p: fitting.Progress) -> None:
            # states that a stage does not move, which come last, are at their guess
            thetas = np.tile(guess, (MOST, 1))
            for row, record in zip(thetas, p.records, strict=False):
                if record.theta is not None:
                    row[: record.theta.size] = record.theta
            # one program for chunks of every length
            controls = np.asarray(flat_values(recorded, thetas))[: len(p.records)]
            history.append(p.records, controls)
            course(p.iteration, p.functional.controls, p.theta)
            state = p.state()
            checkpoints.save(state)
            bar(p)
            for event in state.numbers["events"][len(printed) :]:
                console.print(f"[yellow]{escape(event)}[/]", highlight=False)
                printed.append(event)
            # Python drops the exception of a signal that arrives in a destructor or callback, so signals are looked up here
            if interrupts.received():
                raise KeyboardInterrupt

        processes.tell("begin")
        found = _together(partial(fit, callback=callback), settings)
        course(found.iterations, found.functional.controls, np.asarray(found.theta), is_last=True)
        return found


def _together(fit: Callable[[], fitting.Fit], settings: Settings) -> fitting.Fit:
    """The result of a fit shared by several processes, with all arrays in each process; they separate afterwards."""
    if not processes.joined():
        return fit()
    with processes.together():
        found = fit()
        theta, equations = gathered((found.theta, found.equations))
        functional = over_cores(gathered(on_one(found.functional)), settings.shared_by)
    return dataclasses.replace(found, functional=functional, theta=theta, equations=equations)


def _is_extended(before: Mapping[str, Any], max_iterations: int | None) -> bool:
    """True if more evaluations were allowed when the run was resumed, now or earlier."""
    return bool(before.get("extended")) or before["max_iterations"] != max_iterations


def _extended(stages: list[fitting.Stage], max_iterations: int | None) -> list[fitting.Stage]:
    """The stages; the last one may use all evaluations that `max_iterations` allows."""
    most = max(stages[-1].max_iterations, max_iterations or 0)
    return [*stages[:-1], dataclasses.replace(stages[-1], max_iterations=most)]


@Program
def flat_values(controls: Controls, thetas: Any) -> Any:
    """The physical values of all elements of some controls at several points (n, p), as vectors (n, p)."""
    return jax.vmap(lambda x: jnp.concatenate([jnp.zeros(0), *map(jnp.ravel, controls.values(x).values())]))(thetas)


_NAME = "checkpoints"


@contextmanager
def checkpoints_in(directory: Path, driver: AbstractDriver) -> Iterator[None]:
    """Context manager in which a driver keeps checkpoints in files of a run directory.

    The files are removed at its end. Files left by a killed run are removed at its start.

    **Arguments:**

    - `directory`: the directory of the run.
    - `driver`: only `Hosted` writes such files.
    """
    for left in directory.glob(f"{_NAME}-*"):
        left.unlink(missing_ok=True)
    if isinstance(driver, Hosted):
        numbers = itertools.count()
        driver.open_file = lambda like, slots: CheckpointFile(directory / f"{_NAME}-{next(numbers)}.bin", like, slots)
    try:
        yield
    finally:
        driver.close()
