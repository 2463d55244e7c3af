"""The jobs of a sweep: their present states, the jobs left to run, and their outcomes."""

import dataclasses
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pdefit._util.errors import PdefitError, sentence
from pdefit.cli.config.command_line import named_directory
from pdefit.cli.sweeps.record import Sweep, read_sweep
from pdefit.output.store.history import read_history
from pdefit.output.store.runs import RunFiles

# states of a job; those that a sweep goes on with
DONE, RUNNING = "done", "running"
WAITING, KILLED, FAILED, INTERRUPTED = "waiting", "killed", "failed", "interrupted"
OPEN = (WAITING, KILLED, FAILED, INTERRUPTED)


@dataclasses.dataclass(frozen=True)
class Job:
    """A job of a sweep.

    **Arguments:**

    - `name`, `files`: the name and files of the job.
    - `values`: its swept values by key.
    - `state`: done, running, waiting, killed, failed or interrupted.
    - `reason`: the reason of a failure or an interruption.
    """

    name: str
    files: RunFiles
    values: dict[str, str]
    state: str
    reason: str

    @property
    def loss(self) -> float | None:
        """The final loss; for a running job the smallest so far."""
        found = self.files.summary.loss_final
        return min(self._losses(), default=None) if found is None else found

    @property
    def iterations(self) -> int | None:
        """Number of evaluations so far."""
        found = self.files.summary.iterations
        return len(self._losses()) or None if found is None else found

    @property
    def heartbeat(self) -> float | None:
        """Seconds since the last sign of life of a running job."""
        path = self.files.directory / "RUNNING"
        try:
            return max(time.time() - path.stat().st_mtime, 0.0) if self.state == RUNNING else None
        except OSError:
            return None

    def _losses(self) -> list[float]:
        """Losses so far of a job without a summary."""
        # a file that is being written may be read at a bad moment
        try:
            history = self.files.path("history.h5") if self.files.has("history.h5") else None
            return [] if history is None else read_history(history)["loss"].tolist()
        except PdefitError:
            return []


def jobs_of(sweep: Sweep) -> list[Job]:
    """All jobs of a sweep in their order."""
    found = list[Job]()
    for name, values in sweep.values.items():
        files = RunFiles(sweep.directory / name)
        state, _, reason = files.state.partition(": ")
        started = any(files.has(file) for file in ("provenance.json", "RUNNING", "FAILED", "INTERRUPTED", "DONE"))
        found.append(Job(name, files, values, state if started else WAITING, reason))
    return found


def tally(jobs: Sequence[Job]) -> str:
    """The number of jobs of each state, as text."""
    counts = Counter(job.state for job in jobs)
    return ", ".join(f"{counts[state]} {state}" for state in (DONE, RUNNING, *OPEN) if counts[state]) or "no jobs"


# what may be typed anew: who runs the jobs, but not what they are
_LAUNCHER = ("hydra.launcher.", "hydra/launcher=")


def what_is_left(words: Sequence[str], files: Sequence[str], console: Console) -> tuple[Sweep, list[str], list[str]]:
    """The sweep, the names of its jobs that are missing, failed or stopped, and the command that runs them.

    **Arguments:**

    - `words`: the directory of the sweep, and settings of a launcher.
    - `files`: the named files of equations and of an experiment.
    """
    sweep = read_sweep(named_directory(words, "sweep resume", "a sweep", "runs/...-sweep"))
    if wrong := [word for word in words[1:] if not word.startswith(_LAUNCHER)]:
        raise PdefitError(f"A sweep goes on as it began, and only its launcher may change; leave '{wrong[0]}' out")
    if list(files) != [*sweep.files]:
        named = " and ".join(sweep.files) or "no file"
        raise PdefitError(f"'{sweep.directory}' was made with {named}; name the same, since only you can trust files")
    jobs = jobs_of(sweep)
    left = [job.name for job in jobs if job.state in OPEN]
    for job in jobs:
        job.files.refuse_links("sweep resume")
    console.print(f"{escape(str(sweep.directory))}: {tally(jobs)}", highlight=False, soft_wrap=True)
    return sweep, left, ["-m", *sweep.words, *words[1:], f"hydra.sweep.dir='{sweep.directory}'"]


def tell_outcome(directory: Path, console: Console) -> list[str]:
    """Print the outcomes of the jobs of a sweep; returns the names of unfinished jobs."""
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
