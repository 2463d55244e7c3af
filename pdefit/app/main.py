"""The command line: `pdefit VERB key=value ...`, with Hydra behind every verb."""

import importlib
import logging
import os
import re
import signal
import sys
from collections.abc import Callable
from typing import Any

import hydra
import jax
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from rich.console import Console
from rich.markup import escape

from pdefit.app import plugins, run_directory
from pdefit.app.environment import prepare
from pdefit.app.list_command import experiments, version
from pdefit.errors import PdefitError, unknown
from pdefit.files.locate import locate

# configured by Hydra, leaving a run directory; and those that take plain words
_VERBS = ("fit", "simulate")
_PLAIN_VERBS = ("list", "new", "verify")

_USAGE = """usage: pdefit VERB [key=value ...]

  fit experiment=NAME        infer the controls of an experiment; leaves a run directory
  simulate experiment=NAME   solve its equations forward
  list [experiments|systems|solvers|adjoints|stages]
  new NAME                   write a working plugin of your own into the folder NAME/
  verify [SYSTEM ...]        test installed systems: gradients, orders, conservation, recovery

Every key of an experiment can be overridden: seed=3 max_iterations=50 controls.D.guess=2.0 solver=tsit5
-m runs a sweep: pdefit fit -m experiment=reaction/fisher_front seed=0,1,2      --cfg job shows the configuration
"""

_failures: list[str] = []


def main() -> None:
    """Entry point of the `pdefit` command."""
    console = Console(stderr=False)
    # run.log takes what is logged once Hydra has made it; before that there is only the terminal's own message
    logging.getLogger("pdefit").addHandler(logging.NullHandler())
    verb, *rest = sys.argv[1:] or ["--help"]
    try:
        if verb in ("-h", "--help", "help"):
            print(_USAGE, end="")
        elif verb == "--version":
            print(version())
        elif verb in _PLAIN_VERBS:
            _command(verb)(rest, console)
        elif verb in _VERBS:
            _run_with_hydra(verb, rest)
        else:
            raise unknown("verb", verb, [*_VERBS, *_PLAIN_VERBS])
    except PdefitError as error:
        _report(str(error))
    except KeyboardInterrupt:
        _report("interrupted")
    if _failures:
        sys.exit(1)


def _command(verb: str) -> Callable[..., None]:
    """`run_<verb>` of `<verb>_command.py`, loaded when it is asked for: figures and files take a second to import."""
    return getattr(importlib.import_module(f"pdefit.app.{verb}_command"), f"run_{verb}")


def _run_with_hydra(verb: str, overrides: list[str]) -> None:
    """Hand the rest of the command line to Hydra, and make one sentence of what it finds wrong."""
    prepare()
    logging.getLogger("jax").setLevel(logging.WARNING)
    signal.signal(signal.SIGTERM, _interrupt)
    plugins.register()
    OmegaConf.register_new_resolver("data", lambda name: str(locate(name)), replace=True)
    OmegaConf.register_new_resolver("run_name", run_directory.run_name, use_cache=True, replace=True)
    sys.argv = [sys.argv[0], *overrides]
    wants_traceback = os.environ.get("HYDRA_FULL_ERROR") == "1"
    # Hydra would print its own errors and exit; this makes it raise them here
    os.environ["HYDRA_FULL_ERROR"] = "1"
    decorate = hydra.main(version_base="1.3", config_path="pkg://pdefit_conf", config_name="config")
    started: list[str] = []

    def task(cfg: DictConfig) -> None:
        started.append(verb)
        _task(verb, cfg)

    try:
        decorate(task)()
    except (HydraException, OmegaConfBaseException, ValueError) as error:
        # a ValueError is Hydra's only while it composes; from a job it is a bug and keeps its traceback
        if wants_traceback or (
            started and isinstance(error, ValueError) and not isinstance(error, OmegaConfBaseException)
        ):
            raise
        raise _readable(error) from None


def _task(verb: str, cfg: DictConfig) -> None:
    """One job; a failure is reported and remembered, so that the other jobs of a sweep still run."""
    console = Console()
    name = HydraConfig.get().runtime.choices.get("experiment")
    try:
        if name is None:
            raise PdefitError(f"Choose an experiment with experiment=NAME; there are: {', '.join(experiments())}.")
        plain = _resolved(cfg)
        directory = run_directory.current()
        with run_directory.recorded(directory, f"pdefit {verb}", plain):
            _command(verb)(plain, directory, name, console)
    except PdefitError as error:
        _report(str(error))


def _resolved(cfg: DictConfig) -> dict[str, Any]:
    """The configuration as plain Python, checked where every experiment is alike."""
    try:
        plain = OmegaConf.to_container(cfg, resolve=True)
    except OmegaConfBaseException as error:
        raise _readable(error) from None
    assert isinstance(plain, dict)
    if plain["dtype"] not in ("float32", "float64"):
        raise PdefitError(f"dtype expects float32 or float64, but got '{plain['dtype']}'")
    for key in ("seed", "max_iterations"):
        value = plain[key]
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
            raise PdefitError(f"{key} expects a whole number, but got '{value}'")
    for key in ("dt", "noise"):
        if plain[key] is not None and not isinstance(plain[key], int | float):
            raise PdefitError(f"{key} expects a number, but got '{plain[key]}'")
    if plain["device"] not in (None, "cpu", "gpu"):
        raise PdefitError(f"device expects cpu or gpu, but got '{plain['device']}'")
    if plain["device"] is not None:
        jax.config.update("jax_platforms", {"gpu": "cuda"}.get(plain["device"], plain["device"]))
    try:
        jax.devices()
    except RuntimeError:
        raise PdefitError(f"There is no {plain['device']} that JAX can use here; set device=cpu") from None
    return {str(k): v for k, v in plain.items()}


def _readable(error: BaseException) -> PdefitError:
    """Hydra's and OmegaConf's complaints as one sentence; what pdefit said inside a resolver is passed on."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, PdefitError):
            return cause
        cause = cause.__cause__ or cause.__context__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    lines = [x for x in lines if not x.startswith(("full_key", "object_type", "reference_type", "Set the environment"))]
    sentence = " ".join(lines) or type(error).__name__
    if "Config group override must be" in sentence:
        sentence = "a group cannot be set to null; remove it with ~NAME, e.g. ~twin"
    if missing := re.search(r"Could not find '(\w+)/([^']+)'", sentence):
        group, name = missing.groups()
        options = sentence.partition("Available options in")[2].partition("Config search path")[0].split()[1:]
        return unknown(group, name, experiments() if group == "experiment" else options)
    return PdefitError(f"Configuration: {sentence}")


def _report(message: str) -> None:
    _failures.append(message)
    logging.getLogger("pdefit").error(message)
    Console(stderr=True, soft_wrap=True).print(f"[bold red]error:[/] {escape(message)}", highlight=False)


def _interrupt(*_: Any) -> None:
    raise KeyboardInterrupt
