"""pdefit doctor RUN: where a run that exists first stops being finite."""

from rich.console import Console

from pdefit.cli.commands.doctor import examine
from pdefit.cli.experiment.experiment import experiment
from pdefit.cli.runs.recorded_run import open_run
from pdefit.inverse.fit import fit as fitting
from pdefit.inverse.fit.run_state import RunState


def run_reexamine(arguments: list[str], console: Console) -> None:
    """Examine a run at its best point; at its guess where it never came to one."""
    run = open_run(arguments, "examine")
    exp = experiment(run.plain)
    functional = fitting.first_functional(exp.functional, exp.stages)
    theta = functional.theta0
    if run.saved is not None:
        functional, theta = fitting.restored(exp.functional, exp.stages, RunState(run.saved.numbers, run.saved.arrays))
    examine(functional, theta, run.directory / "doctor.json", console)
