"""A run directory that exists: its configuration, experiment and saved state."""

import dataclasses
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from rich.console import Console

from pdefit._util.atomic import read_json
from pdefit._util.errors import PdefitError, first_line
from pdefit.cli.config.configuration import readable
from pdefit.cli.config.read import read_settings
from pdefit.cli.config.settings import Settings
from pdefit.cli.runtime import run_directory
from pdefit.output.store.fit_checkpoint import Saved, differences, load_state
from pdefit.output.store.runs import RunFiles


@dataclasses.dataclass(frozen=True)
class RecordedRun:
    """What `pdefit fit` left: `settings` its configuration, `saved` the newest state, if there is one."""

    directory: Path
    experiment: str
    settings: Settings
    saved: Saved | None


def open_run(arguments: list[str], verb: str) -> RecordedRun:
    """The run that `RUN key=value ...` names; only `max_iterations` may be set anew."""
    if not arguments or "=" in arguments[0]:
        raise PdefitError(f"{verb} expects the directory of a run, e.g. pdefit {verb} runs/reaction/fisher_front/...")
    directory, config = Path(arguments[0]), Path(arguments[0]) / ".hydra" / "config.yaml"
    if not config.is_file() or not (directory / "provenance.json").is_file():
        raise PdefitError(
            f"'{directory}' is not the directory of a run (it has no .hydra/config.yaml or provenance.json)"
        )
    made = read_json(directory / "provenance.json")
    run_directory.refuse_old(directory)
    command = made.get("command")
    if not isinstance(command, list) or command[1:2] != ["fit"]:
        raise PdefitError(f"'{directory}' was not made by pdefit fit, so there is nothing to {verb}")
    links = RunFiles(directory).links()
    if links:
        raise PdefitError(
            f"'{directory}' has links that lead out of it ({', '.join(links)}), and to {verb} it could write there; put the "
            f"files themselves there, or remove the links"
        )
    saved = load_state(directory / "state")
    cfg = _configuration(config, arguments[1:])
    if saved is not None:
        _refuse_changes(saved, cfg, verb)
        if cfg.max_iterations is None or not any(a.startswith("max_iterations=") for a in arguments[1:]):
            cfg.max_iterations = saved.origin["max_iterations"]
    elif len(arguments) > 1:
        raise PdefitError(
            f"'{directory}' has no saved state yet, so nothing may change; resume it without {arguments[1]}"
        )
    return RecordedRun(directory, str(made.get("experiment")), read_settings(cfg), saved)


def origin(directory: Path) -> dict[str, Any]:
    """The configuration of a run as it was written, without what may change when it is resumed."""
    return _lasting(OmegaConf.load(directory / ".hydra" / "config.yaml"))


def _lasting(cfg: Any) -> dict[str, Any]:
    content = OmegaConf.to_container(cfg, resolve=False)
    assert isinstance(content, dict)
    return {str(k): v for k, v in content.items() if k != "max_iterations"}


def changed_problem(before: Mapping[str, Any], now: Mapping[str, str], console: Console) -> list[str]:
    """Which of equations and data are not those of a run, by their hashes. Other versions may trace the same equations to
    another program: where flags differ too, the console is told and nothing counts as changed."""
    changed = [part for part, value in now.items() if before.get(part) != value]
    if "flags" not in changed:
        return changed
    others = [part for part in changed if part != "flags"]
    also = f"; so does the hash of its {' and '.join(others)}" if others else ""
    console.print(f"[yellow]versions, flags or device differ from the run's: the last bits may, too{also}[/]")
    return []


def log_to(directory: Path) -> None:
    """Append what is logged to run.log, as Hydra does in a new run."""
    handler = logging.FileHandler(directory / "run.log")
    handler.setFormatter(logging.Formatter("[%(asctime)s][%(levelname)s] %(message)s"))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.INFO)


def _configuration(path: Path, overrides: list[str]) -> DictConfig:
    # from_dotlist takes anything; `key=value` is what was promised
    for override in overrides:
        if not override.partition("=")[0].strip() or "=" not in override:
            raise PdefitError(f"'{override}' is not of the form key=value")
    try:
        cfg = OmegaConf.load(path)
    except OmegaConfBaseException as error:
        raise readable(error) from None
    # YAML answers damaged text with almost any exception
    except Exception as error:
        raise PdefitError(f"'{path}' is damaged ({type(error).__name__}); put it back from a copy") from None
    try:
        cfg = OmegaConf.merge(cfg, OmegaConf.from_dotlist(overrides))
    # and OmegaConf overrides that lead into a number, or that do not parse
    except Exception as error:
        raise PdefitError(f"{' '.join(overrides)} cannot be set in '{path}' ({first_line(error)})") from None
    if not isinstance(cfg, DictConfig) or "max_iterations" not in cfg:
        raise PdefitError(f"'{path}' is damaged; put it back from a copy")
    return cfg


def _refuse_changes(saved: Saved, cfg: DictConfig, verb: str) -> None:
    changed = differences(saved.origin["config"], _lasting(cfg))
    if changed:
        listed = ", ".join(f"{path} ({old!r} -> {new!r})" for path, (old, new) in changed.items())
        raise PdefitError(
            f"{verb} goes on with the same fit, of which only max_iterations may change; these differ: {listed}; "
            f"start a new run for them"
        )
