"""pdefit resume: go on with a fit that was stopped, or that shall take more iterations."""

from rich.console import Console

from pdefit.cli.commands.fit import run_fit
from pdefit.cli.runs.recorded_run import log_to, open_run
from pdefit.cli.runtime.run_directory import recorded


def run_resume(arguments: list[str], console: Console) -> None:
    """Continue a run directory; the result is that of a run that was never stopped, to the last bit on the same machine."""
    run = open_run(arguments, "resume")
    with recorded(run.directory, ["pdefit", "resume", *arguments], run.settings, run.experiment, resumed=True):
        log_to(run.directory)
        run_fit(run.settings, run.directory, run.experiment, console, run.saved)
