"""A process that follows in a fit of several: it reads the run of the first, evaluates with it, and writes nothing."""

from collections.abc import Sequence
from pathlib import Path

from omegaconf import OmegaConf
from rich.console import Console

from pdefit._util.errors import PdefitError
from pdefit.cli.run.build import build_experiment
from pdefit.cli.run.minimise import minimise
from pdefit.cli.run.recorded import open_run
from pdefit.cli.runtime import processes


def followed(verb: str, words: Sequence[str]) -> bool:
    """Let the tasks of a SLURM step share a fit with `device=all`, and return whether this one followed in it.

    The first task returns at once, and leads. Where the tasks do not share a fit nothing happens.

    **Arguments:** `verb`, `words`: of the command line.
    """
    if not (_is_of_all_devices(words[:1]) if verb == "resume" else "device=all" in words):
        return False
    if verb not in ("fit", "resume") or {"-m", "--multirun"} & {*words}:
        what = f"pdefit {verb}{' -m' * (verb == 'fit')}"
        raise PdefitError(f"{what} runs in one task, but srun started {processes.tasks()}; set --ntasks=1")
    processes.join()
    if processes.follows():
        try:
            _follow(words[1:] if verb == "resume" else [])
        except BaseException:
            processes.speak()
            raise
        return True
    return False


def _is_of_all_devices(words: Sequence[str]) -> bool:
    """Whether the recorded fit of the directory that is named took all devices."""
    for file in (Path(word) / ".hydra" / "config.yaml" for word in words):
        # what is wrong with the file is told by what reads it
        try:
            return OmegaConf.load(file).get("device") == "all"
        except Exception:
            return False
    return False


def _follow(changes: Sequence[str]) -> None:
    """Fit with the first process. What it refuses it says itself."""
    run, refused = processes.called(), None
    try:
        job, saved = open_run([run, *changes], "resume", Console(quiet=True))
        exp = build_experiment(job.settings)
    except PdefitError as error:
        refused = error
    processes.heard()
    if refused is not None:
        raise refused
    minimise(exp, job, saved)
