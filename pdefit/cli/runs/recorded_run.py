"""Existing run directories: configuration, experiment and checkpoint."""

import dataclasses
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jaxtyping import Array
from rich.console import Console

from pdefit._util.atomic import read_json
from pdefit._util.errors import PdefitError
from pdefit.cli.config.read import read_settings
from pdefit.cli.config.recorded import keep_limit, read_recorded, refuse_changes
from pdefit.cli.config.settings import Settings
from pdefit.cli.experiment.experiment import Experiment
from pdefit.cli.runtime import equations
from pdefit.inverse.fit.fit import restored
from pdefit.inverse.fit.result import RunState
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.output.store.fit_checkpoint import Saved
from pdefit.output.store.runs import RunFiles


@dataclasses.dataclass(frozen=True)
class RecordedRun:
    """An existing run of `pdefit fit`.

    **Arguments:**

    - `files`: its directory.
    - `settings`: its configuration.
    """

    files: RunFiles
    settings: Settings


def open_run(arguments: list[str], verb: str) -> RecordedRun:
    """The existing run that the arguments of a verb name.

    **Arguments:**

    - `arguments`: the directory, and settings as key=value, of which `max_iterations` and `intervals` may change.
    - `verb`: for errors.
    """
    if not arguments or "=" in arguments[0]:
        raise PdefitError(f"{verb} expects the directory of a run, e.g. pdefit {verb} runs/reaction/fisher_front/...")
    files, directory = RunFiles(Path(arguments[0])), Path(arguments[0])
    config = directory / ".hydra" / "config.yaml"
    if not config.is_file() or not (directory / "provenance.json").is_file():
        raise PdefitError(
            f"'{directory}' is not the directory of a run (it has no .hydra/config.yaml or provenance.json)"
        )
    made = read_json(directory / "provenance.json")
    files.refuse_old()
    equations.check_named_again(made.get("equations"), directory, verb)
    command = made.get("command")
    if not isinstance(command, list) or command[1:2] != ["fit"]:
        raise PdefitError(f"'{directory}' was not made by pdefit fit, so pdefit {verb} cannot work on it")
    if links := files.links():
        raise PdefitError(
            f"'{directory}' has links that lead out of it ({', '.join(links)}), and {verb} could write through them; put the "
            f"files themselves there, or remove the links"
        )
    cfg = read_recorded(config, arguments[1:])
    if (saved := files.saved) is not None:
        refuse_changes(saved.origin["config"], cfg, verb)
        keep_limit(cfg, saved.origin["max_iterations"], arguments[1:])
    elif len(arguments) > 1:
        raise PdefitError(
            f"'{directory}' has no saved state yet, so nothing may change; resume it without {arguments[1]}"
        )
    return RecordedRun(files, read_settings(cfg))


def at_best(exp: Experiment, saved: Saved) -> tuple[AbstractObjective, Array]:
    """The objective that a saved fit minimised last, and its best point."""
    return restored(exp.functional, exp.stages, RunState(saved.numbers, saved.arrays))


def same_problem(before: Mapping[str, Any], now: Mapping[str, str], directory: Path) -> list[str]:
    """Refuse equations or data that are not those of a run.

    Other versions or compiler flags may trace the same equations to another program. Where these differ too, nothing is
    known of the equations and data that differ: their names, and `flags`, are returned. Otherwise the list is empty.

    **Arguments:**

    - `before`, `now`: hashes by part, as of `fingerprint`.
    - `directory`: of the run.
    """
    changed = [part for part, value in now.items() if before.get(part) != value]
    if changed and "flags" not in changed:
        raise PdefitError(
            f"The {' and '.join(changed)} are not those of '{directory}'; put them back, or start a new run"
        )
    return changed


def warn_of(changed: list[str], console: Console) -> None:
    """Print that flags differ from those of a run, where `same_problem` says so."""
    others = [part for part in changed if part != "flags"]
    also = f"; hashes differ, too: {' and '.join(others)}" if others else ""
    if changed:
        console.print(
            f"[yellow]versions, flags or device differ from the run's, so results may differ in their last bits{also}[/]"
        )


def log_to(directory: Path) -> None:
    """Append log messages to run.log of a directory, as Hydra does in a new run."""
    handler = logging.FileHandler(directory / "run.log")
    handler.setFormatter(logging.Formatter("[%(asctime)s][%(levelname)s] %(message)s"))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.INFO)
