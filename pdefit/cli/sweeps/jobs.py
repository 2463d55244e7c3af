"""Jobs of a sweep as they are now."""

import dataclasses
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pdefit._util.errors import PdefitError
from pdefit.cli.sweeps.record import Sweep
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

    - `name`, `directory`: of the job.
    - `values`: its swept values by key.
    - `state`: done, running, waiting, killed, failed or interrupted.
    - `reason`: why it failed or was interrupted.
    - `summary`: the content of summary.json; empty where there is none yet.
    """

    name: str
    directory: Path
    values: dict[str, str]
    state: str
    reason: str
    summary: dict[str, Any]

    @property
    def loss(self) -> float | None:
        """The loss at the end, of a running job the smallest so far."""
        found = self.summary.get("loss_final")
        if isinstance(found, int | float):
            return float(found)
        return min(self._losses(), default=None)

    @property
    def iterations(self) -> int | None:
        """Evaluations so far."""
        found = self.summary.get("iterations")
        return found if isinstance(found, int) else len(self._losses()) or None

    @property
    def heartbeat(self) -> float | None:
        """Seconds since a running job showed that it lives."""
        path = self.directory / "RUNNING"
        try:
            return max(time.time() - path.stat().st_mtime, 0.0) if self.state == RUNNING else None
        except OSError:
            return None

    def _losses(self) -> list[float]:
        """The losses so far of a job without a summary."""
        file = self.directory / "history.h5"
        # a file that is being written may be read at a bad moment
        try:
            return read_history(file)["loss"].tolist() if file.is_file() else []
        except PdefitError:
            return []


def jobs_of(sweep: Sweep) -> list[Job]:
    """All jobs of a sweep in their order."""
    found = list[Job]()
    for name, values in sweep.values.items():
        directory = sweep.directory / name
        files = RunFiles(directory)
        state, _, reason = files.state.partition(": ")
        started = any(files.has(file) for file in ("provenance.json", "RUNNING", "FAILED", "INTERRUPTED", "DONE"))
        summary = files.content("summary.json") if started else {}
        found.append(Job(name, directory, values, state if started else WAITING, reason, summary))
    return found


def tally(jobs: Sequence[Job]) -> str:
    """How many jobs there are of each state, in words."""
    counts = Counter(job.state for job in jobs)
    return ", ".join(f"{counts[state]} {state}" for state in (DONE, RUNNING, *OPEN) if counts[state]) or "no jobs"
