"""pdefit doctor: where an experiment, or an existing run, first stops being finite."""

from pathlib import Path

import jax.numpy as jnp
from jaxtyping import Array
from rich.console import Console
from rich.markup import escape

from pdefit._util.atomic import write_json
from pdefit._util.errors import PdefitError
from pdefit.analysis.debug.doctor import doctor
from pdefit.cli.config.settings import Settings
from pdefit.cli.experiment.build import build_experiment
from pdefit.cli.runs.recorded_run import at_best, open_run
from pdefit.inverse.fit import fit as fitting
from pdefit.inverse.objective.abstract import AbstractObjective


def run_doctor(settings: Settings, directory: Path, name: str, console: Console) -> None:
    """Examine an experiment where its fit would start.

    **Arguments:**

    - `settings`, `name`: the experiment, and its name for tables and files.
    - `directory`: of the run.
    """
    exp = build_experiment(settings)
    functional = fitting.first_functional(exp.functional, exp.stages)
    examine(functional, functional.theta0, directory / "doctor.json", console)


def examine(functional: AbstractObjective, theta: Array, path: Path, console: Console) -> None:
    """Print what the doctor finds and write it to a file; raises `PdefitError` where something is not finite.

    **Arguments:**

    - `functional`, `theta` (p,): the objective, and the point in search space.
    - `path`: of doctor.json.
    """
    found = doctor(functional, jnp.asarray(theta))
    write_json(path, found.as_dict())
    if found.healthy:
        console.print(escape(found.sentence), highlight=False)
    console.print(f"written to {escape(str(path))}")
    if not found.healthy:
        raise PdefitError(found.sentence)


def run_doctor_on_a_run(arguments: list[str], console: Console) -> None:
    """Examine the run that the arguments name at its best point, or at its guess where there is none."""
    run = open_run(arguments, "doctor")
    exp = build_experiment(run.settings)
    functional = fitting.first_functional(exp.functional, exp.stages)
    saved, theta = run.files.saved, functional.theta0
    if saved is not None:
        functional, theta = at_best(exp, saved)
    examine(functional, theta, run.files.directory / "doctor.json", console)
