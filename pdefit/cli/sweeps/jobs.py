"""Jobs of a sweep as they are now."""

import dataclasses
import time
from collections import Counter
from collections.abc import Sequence

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

    - `name`, `files`: of the job.
    - `values`: its swept values by key.
    - `state`: done, running, waiting, killed, failed or interrupted.
    - `reason`: why it failed or was interrupted.
    """

    name: str
    files: RunFiles
    values: dict[str, str]
    state: str
    reason: str

    @property
    def loss(self) -> float | None:
        """The loss at the end, of a running job the smallest so far."""
        found = self.files.summary.loss_final
        return min(self._losses(), default=None) if found is None else found

    @property
    def iterations(self) -> int | None:
        """Evaluations so far."""
        found = self.files.summary.iterations
        return len(self._losses()) or None if found is None else found

    @property
    def heartbeat(self) -> float | None:
        """Seconds since a running job showed that it lives."""
        path = self.files.directory / "RUNNING"
        try:
            return max(time.time() - path.stat().st_mtime, 0.0) if self.state == RUNNING else None
        except OSError:
            return None

    def _losses(self) -> list[float]:
        """The losses so far of a job without a summary."""
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
    """How many jobs there are of each state, in words."""
    counts = Counter(job.state for job in jobs)
    return ", ".join(f"{counts[state]} {state}" for state in (DONE, RUNNING, *OPEN) if counts[state]) or "no jobs"
