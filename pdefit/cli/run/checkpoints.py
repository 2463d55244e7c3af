"""Checkpoints of long work in a run directory: a fit, its starts, members, profiles."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pdefit._util import interrupts
from pdefit._util.run_state import RunState
from pdefit.cli.config.settings import Job
from pdefit.cli.run.recorded import origin
from pdefit.cli.runtime import processes
from pdefit.cli.runtime.terminal import MembersProgress
from pdefit.inverse.members.member_state import MemberProgress
from pdefit.output.store.fit_checkpoint import Saved, load_state, save_state


@dataclasses.dataclass(frozen=True)
class Checkpoints:
    """Checkpoints of one piece of work.

    **Arguments:**

    - `folder`: their folder.
    - `origin`: data that identify the run. An entry `of` identifies the work.
    """

    folder: Path
    origin: dict[str, Any]

    @staticmethod
    def of(job: Job, name: str, work: Any = None, **more: Any) -> "Checkpoints":
        """Checkpoints of some work in a folder of a run.

        **Arguments:**

        - `job`, `name`: the run, and the name of the folder.
        - `work`: identifies the work; None if the folder holds a single piece of work.
        - `more`: further entries of `origin`.
        """
        run = {"config": origin(job.directory), "max_iterations": job.settings.max_iterations, "hashes": {}}
        return Checkpoints(job.directory / name, run | ({} if work is None else {"of": work}) | more)

    def load(self) -> RunState | None:
        """The last saved state; None if there is none, or if it belongs to other work."""
        saved = load_state(self.folder)
        return None if saved is None or saved.origin.get("of") != self.origin.get("of") else saved.state

    def save(self, state: RunState) -> None:
        """Replace the last state."""
        save_state(self.folder, Saved(state, self.origin))

    def saving(self, bar: MembersProgress, what: str) -> Callable[[MemberProgress], None] | None:
        """Callback of many fits that shows progress, saves the state every few seconds, and ends the fits at a signal.

        None in a process that follows another one in these fits; the leading process does all of it.

        **Arguments:** `bar`, `what`: the progress bar, and the name of the fits.
        """
        if processes.follows():
            return None

        @interrupts.uninterrupted()
        def callback(progress: MemberProgress) -> None:
            if bar.save_now() or progress.finished == progress.members:
                self.save(progress.state())
            bar(progress, what)
            if interrupts.received():
                raise KeyboardInterrupt

        return callback
