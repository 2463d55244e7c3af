"""Existing run directories: configuration, experiment and checkpoint."""

import dataclasses
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from pdefit._util.atomic import read_json
from pdefit._util.errors import PdefitError
from pdefit.cli.config.read import read_settings
from pdefit.cli.config.recorded import keep_limit, read_recorded, refuse_changes
from pdefit.cli.config.settings import Settings
from pdefit.cli.runtime import equations, run_directory
from pdefit.output.store.fit_checkpoint import Saved, load_state
from pdefit.output.store.runs import RunFiles


@dataclasses.dataclass(frozen=True)
class RecordedRun:
    """An existing run of `pdefit fit`.

    **Arguments:**

    - `directory`, `experiment`: where it is, and the name of its experiment.
    - `settings`: its configuration.
    - `saved`: its newest checkpoint; None where it has none yet.
    """

    directory: Path
    experiment: str
    settings: Settings
    saved: Saved | None


def open_run(arguments: list[str], verb: str) -> RecordedRun:
    """The existing run that the arguments of a verb name.

    **Arguments:**

    - `arguments`: the directory, and settings as key=value, of which only `max_iterations` may change.
    - `verb`: for errors.
    """
    if not arguments or "=" in arguments[0]:
        raise PdefitError(f"{verb} expects the directory of a run, e.g. pdefit {verb} runs/reaction/fisher_front/...")
    directory, config = Path(arguments[0]), Path(arguments[0]) / ".hydra" / "config.yaml"
    if not config.is_file() or not (directory / "provenance.json").is_file():
        raise PdefitError(
            f"'{directory}' is not the directory of a run (it has no .hydra/config.yaml or provenance.json)"
        )
    made = read_json(directory / "provenance.json")
    run_directory.refuse_old(directory)
    equations.check_named_again(made.get("equations"), directory, verb)
    command = made.get("command")
    if not isinstance(command, list) or command[1:2] != ["fit"]:
        raise PdefitError(f"'{directory}' was not made by pdefit fit, so pdefit {verb} cannot work on it")
    links = RunFiles(directory).links()
    if links:
        raise PdefitError(
            f"'{directory}' has links that lead out of it ({', '.join(links)}), and {verb} could write through them; put the "
            f"files themselves there, or remove the links"
        )
    saved = load_state(directory / "state")
    cfg = read_recorded(config, arguments[1:])
    if saved is not None:
        refuse_changes(saved.origin["config"], cfg, verb)
        keep_limit(cfg, saved.origin["max_iterations"], arguments[1:])
    elif len(arguments) > 1:
        raise PdefitError(
            f"'{directory}' has no saved state yet, so nothing may change; resume it without {arguments[1]}"
        )
    return RecordedRun(directory, str(made.get("experiment")), read_settings(cfg), saved)


def changed_problem(before: Mapping[str, Any], now: Mapping[str, str], console: Console) -> list[str]:
    """Parts of a problem (equations, data) whose hashes differ from those of a run.

    Other versions of the libraries may trace the same equations to another program. Where flags or versions differ too,
    the console gets a warning and nothing counts as changed.

    **Arguments:**

    - `before`, `now`: hashes by part.
    """
    changed = [part for part, value in now.items() if before.get(part) != value]
    if "flags" not in changed:
        return changed
    others = [part for part in changed if part != "flags"]
    also = f"; hashes differ, too: {' and '.join(others)}" if others else ""
    console.print(
        f"[yellow]versions, flags or device differ from the run's, so results may differ in their last bits{also}[/]"
    )
    return []


def log_to(directory: Path) -> None:
    """Append log messages to run.log of a directory, as Hydra does in a new run."""
    handler = logging.FileHandler(directory / "run.log")
    handler.setFormatter(logging.Formatter("[%(asctime)s][%(levelname)s] %(message)s"))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.INFO)
