"""pdefit resume: continue a fit that was stopped, or that shall take more iterations."""

from rich.console import Console

from pdefit.cli.commands.fit import run_fit
from pdefit.cli.runs.recorded_run import log_to, open_run
from pdefit.cli.runtime.run_directory import recorded


def run_resume(arguments: list[str], console: Console) -> None:
    """Continue a fit. On the same machine the result is that of an uninterrupted fit, to the last bit.

    **Arguments:**

    - `arguments`: the directory of the run, and `max_iterations=N` to extend it, or `intervals=always`.
    """
    run = open_run(arguments, "resume")
    directory, experiment = run.files.directory, str(run.files.provenance.get("experiment"))
    with recorded(directory, ["pdefit", "resume", *arguments], run.settings, experiment, resumed=True):
        log_to(directory)
        run_fit(run.settings, directory, experiment, console, run.files.saved)
