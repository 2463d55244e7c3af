"""Existing run directories: configuration, experiment and checkpoint, and the check that the problem is unchanged."""

import io
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jaxtyping import Array
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from rich.console import Console

from pdefit._util.atomic import read_json, read_text
from pdefit._util.cache import contents, digest
from pdefit._util.errors import OTHER_STATE, PdefitError, first_line, refusing
from pdefit.cli.config.command_line import named_directory
from pdefit.cli.config.configuration import readable
from pdefit.cli.config.read import read_settings
from pdefit.cli.config.settings import Job
from pdefit.cli.run.experiment import Experiment
from pdefit.cli.runtime import equations
from pdefit.inverse.fit.fit import restored
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.objective.fingerprint import own_sources
from pdefit.output.store.fit_checkpoint import Saved, differences, load_state
from pdefit.output.store.runs import RunFiles

# folder of the fit from the best of other starts, which are tried because noise cannot explain the fit from the guess
BETTER = "better"
# keys that may change when a run is resumed
_LIMIT, _FREE = "max_iterations", ("max_iterations", "intervals", "cores")


def read_recorded(path: Path, overrides: list[str]) -> DictConfig:
    """The configuration in a file, with some entries changed by overrides `key=value`."""
    # checked here, because from_dotlist accepts any text
    for override in overrides:
        if not override.partition("=")[0].strip() or "=" not in override:
            raise PdefitError(f"'{override}' is not of the form key=value")
    text = read_text(path)
    try:
        cfg = OmegaConf.load(io.StringIO(text))
    except (OmegaConfBaseException, PdefitError) as error:
        raise readable(error) from None
    # YAML raises almost any exception for damaged text
    except Exception as error:
        raise PdefitError(f"'{path}' is damaged ({type(error).__name__}); put it back from a copy") from None
    try:
        # runs that began before there were these keys lack them
        cfg = OmegaConf.merge(
            {"intervals": "auto", "cores": None, "members": None, "starts": None, "uncertainty": None},
            cfg,
            OmegaConf.from_dotlist(overrides),
        )
    # OmegaConf does so for overrides that do not parse, or whose path leads into a number
    except Exception as error:
        raise PdefitError(f"{' '.join(overrides)} cannot be set in '{path}' ({first_line(error)})") from None
    if not isinstance(cfg, DictConfig) or _LIMIT not in cfg:
        raise PdefitError(f"'{path}' is damaged; put it back from a copy")
    return cfg


def origin(directory: Path) -> dict[str, Any]:
    """The configuration of a run without the keys that may change when it is resumed."""
    return _lasting(OmegaConf.load(directory / ".hydra" / "config.yaml"))


def refuse_changes(before: dict[str, Any], cfg: DictConfig, verb: str) -> None:
    """Refuse a configuration that differs from the saved one of a fit.

    **Arguments:**

    - `before`: the saved configuration, from `origin`.
    - `cfg`: the configuration to compare.
    - `verb`: the verb, for errors.
    """
    changed = differences(before, _lasting(cfg))
    if changed:
        listed = ", ".join(f"{path} ({old!r} -> {new!r})" for path, (old, new) in changed.items())
        raise PdefitError(
            f"{verb} goes on with the same fit, of which only {', '.join(_FREE)} may change; these differ: {listed}; "
            f"start a new run for them"
        )


def _lasting(cfg: Any) -> dict[str, Any]:
    content = OmegaConf.to_container(cfg, resolve=False)
    assert isinstance(content, dict)
    return {str(k): v for k, v in content.items() if k not in _FREE}


def open_run(arguments: list[str], verb: str, console: Console) -> tuple[Job, Saved | None]:
    """The existing run that a verb's arguments name, and its newest checkpoint (None if it has none yet).

    **Arguments:**

    - `arguments`: the directory, and settings as key=value; only `max_iterations` and `intervals` may change.
    - `verb`: the verb, for errors.
    """
    directory = named_directory(arguments, verb, "a run", "runs/EXPERIMENT/TIME")
    files = RunFiles(directory)
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
    files.refuse_links(verb)
    cfg = read_recorded(config, arguments[1:])
    # sums over another number of cores differ by round-off
    if cfg["cores"] is None:
        cfg["cores"] = made.get("cores", 1)
    if (saved := files.saved) is not None:
        refuse_changes(saved.origin["config"], cfg, verb)
        # the saved bound on evaluations, unless it is changed
        if cfg[_LIMIT] is None or not any(a.startswith(f"{_LIMIT}=") for a in arguments[1:]):
            cfg[_LIMIT] = saved.origin[_LIMIT]
    elif len(arguments) > 1:
        raise PdefitError(
            f"'{directory}' has no saved state yet, so nothing may change; resume it without {arguments[1]}"
        )
    if saved is not None and verb != "resume":
        saved = _best(directory, saved)
    try:
        settings = read_settings(cfg)
    except PdefitError as error:
        if saved is None or saved.origin["hashes"].get("pdefit") == own_sources():
            raise
        raise PdefitError(f"{error}; {OTHER_STATE}") from None
    return Job(settings, directory, str(made.get("experiment")), console), saved


def open_fit(arguments: list[str], verb: str, console: Console, instead: str = "") -> tuple[Job, Saved]:
    """The existing run that a verb's arguments name, and its newest checkpoint.

    **Arguments:**

    - `arguments`, `verb`: as in `open_run`.
    - `instead`: an alternative without an estimate, for the error.
    """
    job, saved = open_run(arguments, verb, console)
    if saved is None:
        raise PdefitError(f"'{job.directory}' has no estimate yet; pdefit resume it first{instead}")
    return job, saved


def of_fit(saved: Saved) -> str:
    """The hash of the best point of a checkpoint, which identifies its fit."""
    return digest(contents([saved.state.arrays["theta"]]))


@refusing("this run")
def _best(directory: Path, saved: Saved) -> Saved:
    """The checkpoint of the fit from other starts, if it belongs to this run and is better; else the run's own."""
    other = load_state(directory / BETTER)
    if other is None or other.origin.get("of") != of_fit(saved):
        return saved
    return min(saved, other, key=lambda one: float(one.state.arrays["loss"]))


def at_best(exp: Experiment, saved: Saved | None) -> tuple[AbstractObjective, Array]:
    """The last objective of a saved fit, and its best point; without a saved fit, the objective at its guess."""
    if saved is None:
        return exp.functional, exp.functional.theta0
    stages = exp.stages[-1:] if "of" in saved.origin else exp.stages
    return restored(exp.functional, stages, saved.state)


def same_problem(
    before: Mapping[str, Any],
    now: Mapping[str, str],
    directory: Path,
    console: Console | None = None,
    same_loss: Callable[[], bool] | None = None,
) -> None:
    """Refuse equations or data that have changed since a run.

    Another version of pdefit, or other compiler flags, may trace the same equations to another program, so that hashes
    prove nothing. Then the loss decides if it is known. If it is not, changed flags lead to a warning only, and a
    changed pdefit to a refusal.

    **Arguments:**

    - `before`, `now`: hashes by part, as in `fingerprint`.
    - `directory`: the directory of the run.
    - `console`: the terminal for the warning.
    - `same_loss`: whether the loss equals the recorded loss.
    """
    changed = [part for part, value in now.items() if before.get(part) != value]
    others = [part for part in changed if part not in ("flags", "pdefit")]
    excused = "flags" in changed or ("pdefit" in changed and same_loss is not None)
    if others and (not excused or (same_loss is not None and not same_loss())):
        remedy = OTHER_STATE if "pdefit" in changed else "put them back, or start a new run"
        raise PdefitError(f"The {' and '.join(others)} are not those of '{directory}'; {remedy}")
    if changed and console is not None:
        also = f"; hashes differ, too: {' and '.join(others)}" if others else ""
        line = f"versions, flags or device differ from the run's, so results may differ in their last bits{also}"
        console.print(f"[yellow]{line}[/]")


def log_to(directory: Path) -> None:
    """Append log messages to run.log of a directory, as Hydra does in a new run."""
    handler = logging.FileHandler(directory / "run.log")
    handler.setFormatter(logging.Formatter("[%(asctime)s][%(levelname)s] %(message)s"))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.INFO)
