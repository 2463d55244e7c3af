"""sweep.json: the command of a sweep and the names of its jobs, written before the first job starts."""

import dataclasses
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, TypeGuard
from unittest import mock

from hydra.core.plugins import Plugins
from hydra.plugins.sweeper import Sweeper as HydraSweeper

from pdefit._util.atomic import read_json, write_json
from pdefit._util.errors import PdefitError, unknown
from pdefit.cli.config.catalogue import version
from pdefit.cli.config.command_line import VERBS
from pdefit.cli.sweeps.job_names import job_names, swept_values

FILE = "sweep.json"
# of a folder of the sweep, and of a key that an experiment has
_NAME, _KEY = re.compile(r"[\w+][\w.+-]*", re.ASCII), re.compile(r"[+~]*\w[\w./@-]*(=|$)")
_SUBDIR = "hydra.sweep.subdir"
# flags that are kept, each with a value
_FLAGS = ("-cd", "--config-dir")


@dataclasses.dataclass(frozen=True)
class Sweep:
    """A sweep as recorded in sweep.json.

    **Arguments:**

    - `directory`: the directory of the sweep, with a folder for each job.
    - `verb`, `words`: the verb, and flags and settings as typed, without Hydra's.
    - `files`: the command's files of equations and experiments.
    - `jobs`: the overrides of each job by the name of its folder.
    """

    directory: Path
    verb: str
    words: tuple[str, ...]
    files: tuple[str, ...]
    jobs: dict[str, tuple[str, ...]]

    @property
    def values(self) -> dict[str, dict[str, str]]:
        """The swept values of each job, by its name."""
        return dict(zip(self.jobs, swept_values([*self.jobs.values()]), strict=True))


def read_sweep(directory: Path) -> Sweep:
    """The sweep in a directory.

    The file may come from a stranger. Folders of jobs must lie inside the directory, and words may set keys of an
    experiment only; launchers are typed again.
    """
    if not (directory / FILE).is_file():
        raise PdefitError(f"'{directory}' is no sweep (it has no {FILE}); name the directory that `pdefit fit -m` made")
    damaged = PdefitError(f"'{directory / FILE}' is not what pdefit wrote; put it back from a copy")
    content = read_json(directory / FILE)
    verb, words, files, jobs = (content.get(key) for key in ("verb", "words", "files", "jobs"))
    if not (isinstance(verb, str) and isinstance(jobs, dict) and _texts(words) and _texts(files)):
        raise damaged
    if not all(map(_texts, jobs.values())):
        raise damaged
    if verb not in VERBS:
        raise unknown("verb of a sweep", verb, VERBS)
    for name in jobs:
        if not _NAME.fullmatch(name) or (directory / name).is_symlink():
            raise PdefitError(f"'{directory / FILE}' names a job {name!r}, which is no folder of a sweep; put it back")
    settings = [w for before, w in zip(["", *words], words, strict=False) if w not in _FLAGS and before not in _FLAGS]
    for word in settings:
        if not _KEY.match(word) or re.split(r"[./=@]", word.lstrip("+~"))[0] == "hydra":
            raise PdefitError(f"'{directory / FILE}' holds {word!r}, which no sweep keeps; type it on the command line")
    return Sweep(directory, verb, tuple(words), tuple(files), {n: tuple(of) for n, of in jobs.items()})


@contextmanager
def recorded_sweep(
    verb: str, words: Sequence[str], files: Sequence[str], only: Collection[str] | None = None
) -> Iterator[list[Path]]:
    """Context manager in which Hydra names jobs after their overrides, and writes sweep.json before it starts them.

    The yielded list receives the directory of the sweep once it is known.

    **Arguments:**

    - `verb`, `words`, `files`: as in `Sweep`.
    - `only`: the names of the jobs that run; None for all.
    """
    instantiate, found = Plugins.instantiate_sweeper, list[Path]()

    def instantiate_named(self: Plugins, **of: Any) -> HydraSweeper:
        sweeper: Any = instantiate(self, **of)
        split = sweeper.split_arguments
        sweeper.split_arguments = lambda overrides, most: named(sweeper, split(overrides, None), most)
        return sweeper

    def named(sweeper: Any, batches: list[list[list[str]]], most: int | None) -> list[list[list[str]]]:
        jobs = [job for batch in batches for job in batch]
        # Hydra does so too late: a sweep that is refused leaves no folder
        sweeper.validate_batch_is_legal(jobs)
        sweeper.validate_batch_is_legal = lambda _: None
        names, directory = job_names(jobs), Path(str(sweeper.config.hydra.sweep.dir))
        found.append(directory)
        if (directory / FILE).is_file():
            if {*read_sweep(directory).jobs} != {*names}:
                raise PdefitError(f"'{directory}' is another sweep; name a new directory with hydra.sweep.dir")
        else:
            directory.mkdir(parents=True, exist_ok=True)
            content = {
                "pdefit": version(), "started": datetime.now().astimezone().isoformat(timespec="seconds"), "verb": verb,
                "words": _kept(words), "files": list(files), "jobs": dict(zip(names, jobs, strict=True)),
            }  # fmt: skip
            write_json(directory / FILE, content)
        run = [
            [*job, f"{_SUBDIR}='{name}'"] for name, job in zip(names, jobs, strict=True) if only is None or name in only
        ]
        return [run[i : i + (most or len(run))] for i in range(0, len(run), most or len(run) or 1)]

    if any(word.startswith(f"{_SUBDIR}=") for word in words):
        # named by the user, such jobs are not found again
        yield found
        return
    with mock.patch.object(Plugins, "instantiate_sweeper", instantiate_named):
        yield found


def _texts(x: Any) -> TypeGuard[list[str]]:
    return isinstance(x, list) and all(isinstance(word, str) for word in x)


def _kept(words: Sequence[str]) -> list[str]:
    """Words without `-m` and without keys of Hydra, which may be commands."""
    kept = [w for w in words if w not in ("-m", "--multirun")]
    return [w for w in kept if re.split(r"[./=]", w.lstrip("+~"))[0] != "hydra"]
