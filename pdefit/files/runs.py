"""Run directories on disk: one, or all in a folder; what they hold and what they still lack."""

import dataclasses
from pathlib import Path
from typing import Any

from pdefit.errors import PdefitError
from pdefit.files.atomic import read_json

# how a run ended: one of these files, with the time or the reason
MARKS = ("DONE", "INTERRUPTED", "FAILED")
# any of these makes a folder a run
_MARKS = ("provenance.json", "summary.json", "fields.h5", "history.h5")


@dataclasses.dataclass(frozen=True)
class RunFiles:
    """A run directory as it is now. JSON files that are missing, damaged or half-written read as empty."""

    directory: Path

    def content(self, name: str) -> dict[str, Any]:
        """What a JSON file holds."""
        try:
            return read_json(self.directory / name)
        except PdefitError:
            return {}

    def text(self, name: str) -> str:
        """A text file, or nothing."""
        try:
            return (self.directory / name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""

    def has(self, name: str) -> bool:
        return (self.directory / name).is_file()

    @property
    def verb(self) -> str:
        """What made the run: `fit`, `simulate`, ..."""
        command = self.content("provenance.json").get("command")
        return str(command[1]) if isinstance(command, list) and len(command) > 1 else "fit"

    @property
    def state(self) -> str:
        """done, interrupted or failed with the reason, or not (yet) ended."""
        for mark in ("FAILED", "INTERRUPTED"):
            if self.has(mark):
                return f"{mark.lower()}: {self.text(mark).strip() or 'it could not say why'}"
        if self.has("DONE"):
            return "done"
        status = self.content("summary.json").get("status")
        return str(status) if status else "not ended: the run is still going on, or was killed"

    def lacking(self) -> list[str]:
        """Files that a finished run of its kind would have."""
        wanted = ["fields.h5", "summary.json"]
        if self.verb == "fit":
            wanted += ["history.h5", "parameters.csv", "residuals.csv"]
        return [name for name in wanted if not self.has(name)]


def find_runs(folder: Path) -> list[Path]:
    """The folder itself if it is a run, or all runs below it."""
    if not folder.is_dir():
        raise PdefitError(f"'{folder}' is no directory; name that of a run, or of a sweep")
    if _is_run(folder):
        return [folder]
    found = sorted({file.parent for mark in _MARKS for file in folder.rglob(mark)}, key=_natural)
    if not found:
        raise PdefitError(f"'{folder}' holds no run; name the directory of a run, or a folder of runs")
    return [run for run in found if not any(parent in found for parent in run.parents)]


def _is_run(folder: Path) -> bool:
    return any((folder / mark).is_file() for mark in _MARKS)


def _natural(path: Path) -> list[tuple[int, str]]:
    """Jobs of a sweep are folders 0, 1, ..., 10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in path.parts]
