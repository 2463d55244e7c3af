"""Running a fit, with its history and its checkpoint on disk."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console

from pdefit._util import interrupts
from pdefit._util.errors import PdefitError
from pdefit.cli.config.recorded import origin
from pdefit.cli.config.settings import Settings
from pdefit.cli.experiment.experiment import Experiment
from pdefit.cli.runs.recorded_run import changed_problem
from pdefit.cli.runtime.progress import FitProgress
from pdefit.inverse.fit import fit as fitting
from pdefit.inverse.fit.drivers import AbstractDriver
from pdefit.inverse.fit.result import RunState
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.objective.fingerprint import fingerprint
from pdefit.output.store.fit_checkpoint import Saved, save_state
from pdefit.output.store.history import HistoryFile


def minimise(
    exp: Experiment,
    settings: Settings,
    directory: Path,
    console: Console,
    saved: Saved | None,
    driver: AbstractDriver,
) -> fitting.Fit:
    """Fit from the start, or from a checkpoint.

    After every chunk of evaluations the history grows first, and then the checkpoint is replaced. So the history always
    holds all evaluations that a checkpoint has behind it.

    **Arguments:**

    - `exp`, `settings`: the experiment.
    - `directory`: of the run.
    - `saved`: the checkpoint from which to go on; None for the start.
    - `driver`: evaluates the functional.
    """
    recorded = exp.functional.controls.tabulated.names()
    physical = eqx.filter_jit(jax.vmap(_flat_values, in_axes=(None, 0)))
    hashes = fingerprint(exp.functional)
    resume = None if saved is None else _checked(saved, hashes, console)
    extended = saved is not None and _is_extended(saved.origin, settings.max_iterations)
    belongs = {"config": origin(directory), "max_iterations": settings.max_iterations, "hashes": hashes}
    belongs["extended"] = extended
    stages = _extended(exp.stages, settings.max_iterations) if extended else exp.stages
    keep = 0 if resume is None else resume.iterations
    with HistoryFile(directory / "history.h5", recorded, keep) as history, FitProgress(console) as bar:

        @interrupts.uninterrupted()
        def callback(p: fitting.Progress) -> None:
            thetas = [r.theta for r in p.records if r.theta is not None]
            controls = np.zeros((len(p.records), 0))
            if recorded and len(thetas) == len(p.records):
                controls = np.asarray(physical(p.functional, jnp.asarray(np.stack(thetas))))
            history.append(p.records, controls)
            state = p.state()
            save_state(directory / "state", Saved(state.numbers, state.arrays, belongs))
            bar(p)
            # Python drops the exception of a signal that arrives in a destructor or callback, so signals are looked up here
            if interrupts.received():
                raise KeyboardInterrupt

        return fitting.fit(
            exp.functional,
            stages,
            max_iterations=settings.max_iterations,
            callback=callback,
            resume=resume,
            driver=driver,
        )


def _checked(saved: Saved, hashes: dict[str, str], console: Console) -> RunState:
    """State in a checkpoint; refused where it belongs to other equations or data."""
    changed = changed_problem(saved.origin["hashes"], hashes, console)
    if changed:
        raise PdefitError(
            f"The {' and '.join(changed)} have changed since this run was stopped; put them back, or start a new run"
        )
    return RunState(saved.numbers, saved.arrays)


def _is_extended(before: Mapping[str, Any], max_iterations: int | None) -> bool:
    """Whether more evaluations were allowed when the run was resumed, now or earlier."""
    return bool(before.get("extended")) or before["max_iterations"] != max_iterations


def _extended(stages: list[fitting.Stage], max_iterations: int | None) -> list[fitting.Stage]:
    """Stages, the last of which may use all evaluations that `max_iterations` allows."""
    most = max(stages[-1].max_iterations, max_iterations or 0)
    return [*stages[:-1], dataclasses.replace(stages[-1], max_iterations=most)]


def _flat_values(functional: AbstractObjective, theta: Any) -> Any:
    return jnp.concatenate([jnp.ravel(v) for v in functional.controls.tabulated.values(theta).values()])
