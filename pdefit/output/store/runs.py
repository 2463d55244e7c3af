"""Run directories: their search, and reading without following links out of them."""

import dataclasses
import functools
from pathlib import Path
from typing import Any

from pdefit._util.atomic import read_json
from pdefit._util.errors import PdefitError, sentence
from pdefit.output.store._kinds import KINDS, as_kind
from pdefit.output.store.fit_checkpoint import Saved, load_state
from pdefit.output.store.run_lock import RUNNING, lives
from pdefit.output.store.summary import Summary

# one of these files marks how a run ended; it holds the time or the reason
MARKS = ("DONE", "INTERRUPTED", "FAILED")
# files that a command writes before it computes
_BEGUN = {"provenance.json", "run.log", "equations.py.txt", RUNNING, *MARKS[1:]}
# folder with a folder for each of many recordings
_RECORDINGS = "recordings"
# a folder with any of these files is a run
_MARKS = ("provenance.json", "summary.json", "fields.h5", "history.h5")


@dataclasses.dataclass(frozen=True)
class RunFiles:
    """Files of a run directory, each read on first use, and kept.

    JSON files that are missing, damaged, half-written or links to elsewhere read as empty, and so do entries of a wrong
    type. Sentences about damage are kept in `wrong`, without duplicates.
    """

    directory: Path
    wrong: dict[str, None] = dataclasses.field(default_factory=dict, compare=False, repr=False)

    def path(self, name: str) -> Path:
        """Path of a file or folder of the run, whether it exists or not.

        A link out of the directory is refused. A run from a stranger must not bring other files of this machine into a
        report, nor overwrite them.
        """
        path = self.directory / name
        if not _is_inside(path, self.directory):
            raise PdefitError(
                f"'{path}' is a link that leads out of its run; put the file itself there, or remove the link"
            )
        return path

    def as_written(self, name: str) -> Any:
        """Content of a JSON file; an empty mapping if it is missing or unreadable."""
        try:
            return read_json(self.directory / name) if self.has(name) else {}
        except PdefitError as error:
            self.wrong[str(error)] = None
            return {}

    def content(self, name: str) -> Any:
        """Content of a JSON file, as a mapping or as its record type."""
        wrong = list[str]()
        found = as_kind(self.as_written(name), KINDS.get(name, {}), "", wrong)
        self.wrong.update(
            (f"'{self.directory / name}' is damaged: {told}; put it back from a copy", None) for told in wrong
        )
        return found

    @functools.cached_property
    def summary(self) -> Summary:
        """Content of summary.json."""
        return self.content("summary.json")

    @functools.cached_property
    def provenance(self) -> dict[str, Any]:
        """Content of provenance.json."""
        return self.content("provenance.json")

    @functools.cached_property
    def saved(self) -> Saved | None:
        """The newest checkpoint of the fit; None if there is none yet. Raises `PdefitError` if all are damaged."""
        return load_state(self.directory / "state")

    def refuse_old(self) -> None:
        """Refuse a run of pdefit 0.1, whose configuration and files have other names."""
        made_by = str((self.provenance.get("versions") or {}).get("pdefit"))
        if made_by.startswith("0.1."):
            raise PdefitError(
                f"'{self.directory}' was made by pdefit {made_by}, whose runs this version does not read; go on with it by "
                f"pdefit 0.1, or start a new run"
            )

    def text(self, name: str) -> str:
        """Content of a text file, or an empty string."""
        try:
            return (self.directory / name).read_text(encoding="utf-8", errors="replace") if self.has(name) else ""
        except OSError:
            return ""

    def has(self, name: str) -> bool:
        """True if a file exists and is not a link to elsewhere."""
        path = self.directory / name
        return path.is_file() and _is_inside(path, self.directory)

    def links(self) -> list[str]:
        """Paths of links out of the run, and of pipes and devices; they are neither followed nor opened."""
        return sorted(
            str(p.relative_to(self.directory))
            for p in self.directory.rglob("*")
            if (p.is_symlink() and not _is_inside(p, self.directory))
            or (p.exists() and not (p.is_file() or p.is_dir()))
        )

    def refuse_links(self, verb: str) -> None:
        """Refuse, for a verb, to write into a run with links out of it."""
        if links := self.links():
            raise PdefitError(
                f"'{self.directory}' has links that lead out of it, or pipes ({', '.join(links)}), and {verb} could "
                f"write through them; put the files themselves there, or remove them"
            )

    @property
    def verb(self) -> str:
        """The verb that made the run: `fit`, `simulate`, ..."""
        command = self.provenance.get("command") or []
        return command[1] if len(command) > 1 else "fit"

    @property
    def state(self) -> str:
        """State of the run in words: done, running, or interrupted, failed or killed with the reason."""
        for mark in ("FAILED", "INTERRUPTED"):
            if self.has(mark):
                return f"{mark.lower()}: {sentence(self.text(mark)) or 'no reason was written'}"
        if self.has("DONE"):
            return "done"
        if self.has(RUNNING):
            made = self.content(RUNNING)
            where = f"process {made.get('process')} on {made.get('host')} since {made.get('started')}"
            return (
                f"running: {where}" if lives(self.directory, made) else f"killed: {where} gave no sign of life any more"
            )
        # results without a mark come from elsewhere, or from a process that ended before it had drawn all of them
        status = "" if self.has("provenance.json") else self.summary.status
        return status or "killed: it ended without a word"

    @property
    def unsaved(self) -> bool:
        """True if a command ended before it saved anything, so that another one may use the folder."""
        results = ("state/*.h5", "starts/*.h5", "summary.json") if self.verb == "fit" else ("[!.]*",)
        found = {path.name for pattern in results for path in self.directory.glob(pattern)}
        return found <= _BEGUN and not self.state.startswith(RUNNING.lower())

    def lacking(self) -> list[str]:
        """Names of missing files that a finished run of its kind would have."""
        wanted = ["fields.h5", "summary.json"]
        if self.directory.parent.name == _RECORDINGS:
            wanted += ["residuals.csv"]
        elif self.has("members.csv"):
            wanted = ["summary.json", "members.h5"]
        elif recordings_in(self.directory):
            wanted = ["summary.json", "history.h5", "parameters.csv", "recordings.csv"]
        elif self.verb == "fit":
            wanted += ["history.h5", "parameters.csv", "residuals.csv"]
        return [name for name in wanted if not self.has(name)]


def _is_inside(path: Path, folder: Path) -> bool:
    """True if a path lies in a folder after all links are followed."""
    try:
        return path.resolve().is_relative_to(folder.resolve())
    # links that form a circle
    except (OSError, RuntimeError):
        return False


def recording_folder(directory: Path, name: str) -> Path:
    """Folder of a recording in a run of many, created if necessary; the run itself for a single nameless recording."""
    folder = directory / _RECORDINGS / name if name else directory
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def recordings_in(directory: Path) -> dict[str, Path]:
    """Folders of the recordings in a run of many, by name; links are left out."""
    found = sorted((directory / _RECORDINGS).glob("*/"), key=_natural)
    return {path.name: path for path in found if _is_inside(path, directory) and not path.is_symlink()}


def find_runs(folder: Path) -> list[Path]:
    """Runs in a folder: the folder itself if it is a run, else all runs below it."""
    if not folder.is_dir():
        raise PdefitError(f"'{folder}' is no directory; name that of a run, or of a sweep")
    if any((folder / mark).is_file() for mark in _MARKS):
        return [folder]
    found = sorted({file.parent for mark in _MARKS for file in folder.rglob(mark)}, key=_natural)
    if not found:
        raise PdefitError(f"'{folder}' holds no run; name the directory of a run, or a folder of runs")
    return [run for run in found if not any(parent in found for parent in run.parents)]


def _natural(path: Path) -> list[tuple[int, str]]:
    """Sorting key that orders the jobs of a sweep as numbers: 0, 1, ..., 10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in path.parts]
