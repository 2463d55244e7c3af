"""A fit shared by several processes: the first leads; the others read its run, evaluate with it, and write nothing."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from omegaconf import OmegaConf
from rich.console import Console

from pdefit._util import interrupts
from pdefit._util.errors import PdefitError
from pdefit.cli.config.settings import Job
from pdefit.cli.run.build import build_experiment
from pdefit.cli.run.experiment import Experiment
from pdefit.cli.run.minimise import minimise
from pdefit.cli.run.recorded import open_run
from pdefit.cli.runtime import processes
from pdefit.cli.runtime.process import Stopwatch
from pdefit.inverse.fit.refused_combinations import refuse
from pdefit.output.store.fit_checkpoint import Saved

if TYPE_CHECKING:
    from pdefit.cli.run.build_members import MemberExperiment


def followed(verb: str, words: Sequence[str]) -> bool:
    """Let the tasks of a SLURM step share a fit with `device=all`; returns whether this task is not the first.

    The first task returns at once, and leads. If the tasks do not share a fit, nothing happens.

    **Arguments:** `verb`, `words`: the verb of the command line, and its arguments.
    """
    if not (_is_of_all_devices(words[:1]) if verb == "resume" else "device=all" in words):
        return False
    if verb not in ("fit", "resume") or {"-m", "--multirun"} & {*words}:
        what = f"pdefit {verb}{' -m' * (verb == 'fit')}"
        raise PdefitError(f"{what} runs in one task, but srun started {processes.tasks()}; set --ntasks=1")
    processes.join()
    if processes.follows():
        # srun sends signals to all; the first process decides
        interrupts.ignore()
        try:
            _follow(words[1:] if verb == "resume" else [])
        except BaseException:
            processes.speak()
            raise
        return True
    return False


def lead(job: Job) -> None:
    """Announce the run to the processes that share the fit, if any; refuse settings that they cannot share.

    **Arguments:** `job`: the run, whose configuration and provenance are written.
    """
    settings = job.settings
    if processes.joined():
        refuse(settings.choices("processes"))
    processes.call(str(job.directory))


def _is_of_all_devices(words: Sequence[str]) -> bool:
    """True if a word is the directory of a fit with `device=all`."""
    for file in (Path(word) / ".hydra" / "config.yaml" for word in words):
        # what is wrong with the file is told by what reads it
        with suppress(Exception):
            return OmegaConf.select(OmegaConf.load(file), "device") == "all"
    return False


def _follow(changes: Sequence[str]) -> None:
    """Join the fit of process 0, which reports all errors."""
    built = _built(processes.called(), changes)
    begun = processes.heard()
    if isinstance(built, PdefitError):
        raise built
    exp, job, saved = built
    if isinstance(exp, Experiment):
        minimise(exp, job, saved)
        return
    # here, because it loads xarray
    from pdefit.cli.run.members import minimise_members

    # many fits begin with the number of those that run together
    minimise_members(exp, job, saved, at_once=begun, watch=Stopwatch())


def _built(run: str, changes: Sequence[str]) -> "tuple[Experiment | MemberExperiment, Job, Saved | None] | PdefitError":
    """The experiment of a run and its checkpoint, or the error that prevents them."""
    try:
        job, saved = open_run([run, *changes], "resume", Console(quiet=True))
        if not job.settings.members:
            return build_experiment(job.settings), job, saved
        from pdefit.cli.run.build_members import build_members

        return build_members(job.settings), job, saved
    except PdefitError as error:
        return error
