"""What of a sweep is left to run, and how its jobs ended."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pdefit._util.errors import PdefitError, sentence
from pdefit.cli.sweeps.jobs import OPEN, jobs_of, tally
from pdefit.cli.sweeps.record import Sweep, read_sweep

# what may be typed anew: who runs the jobs, but not what they are
_LAUNCHER = ("hydra.launcher.", "hydra/launcher=")


def what_is_left(words: Sequence[str], files: Sequence[str], console: Console) -> tuple[Sweep, list[str], list[str]]:
    """The sweep, the names of its jobs that are missing, failed or were stopped, and the words that run them.

    **Arguments:**

    - `words`: the directory of the sweep, and settings of a launcher.
    - `files`: files of equations and of an experiment that were named.
    """
    if not words or "=" in words[0] or words[0].startswith("-"):
        raise PdefitError("sweep resume expects the directory of a sweep, e.g. pdefit sweep resume runs/...-sweep")
    sweep = read_sweep(Path(words[0]))
    if wrong := [word for word in words[1:] if not word.startswith(_LAUNCHER)]:
        raise PdefitError(f"A sweep goes on as it began, and only its launcher may change; leave '{wrong[0]}' out")
    if list(files) != [*sweep.files]:
        named = " and ".join(sweep.files) or "no file"
        raise PdefitError(f"'{sweep.directory}' was made with {named}; name the same, since only you can trust files")
    jobs = jobs_of(sweep)
    left = [job.name for job in jobs if job.state in OPEN]
    console.print(f"{escape(str(sweep.directory))}: {tally(jobs)}", highlight=False, soft_wrap=True)
    return sweep, left, ["-m", *sweep.words, *words[1:], f"hydra.sweep.dir='{sweep.directory}'"]


def tell_outcome(directory: Path, console: Console) -> list[str]:
    """Print how the jobs of a sweep ended; returns the names of those that are not done."""
    jobs = jobs_of(read_sweep(directory))
    left = [job for job in jobs if job.state in OPEN]
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for job in left:
        table.add_row(escape(job.name), job.state, escape(sentence(job.reason)))
    if left:
        console.print(table)
    do = "resume" if left else "collect"
    console.print(f"{tally(jobs)}; pdefit sweep {do} {escape(str(directory))}", highlight=False, soft_wrap=True)
    return [job.name for job in left]
