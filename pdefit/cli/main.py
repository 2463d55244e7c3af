# ruff: noqa: E402
"""The command line: `pdefit VERB key=value ...`, with Hydra behind every verb."""

import os

# Loading compiled code from the cache logs kilobytes about pseudo-features ("prefer-no-gather") that no processor has. The
# level is read when jaxlib is imported, so it is set before any other import. JAX sets it to 1 by itself, and a command
# started from a notebook inherits that value, which is therefore taken for unset.
if os.environ.get("TF_CPP_MIN_LOG_LEVEL", "1") == "1":
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import gc
import importlib
import logging
import re
import sys
from collections.abc import Callable, Collection

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException
from rich.markup import escape

from pdefit._util import interrupts
from pdefit._util.errors import PdefitError, first_line, of_the_machine, sentence, unknown
from pdefit.cli.config import command_line
from pdefit.cli.config.catalogue import experiments, version
from pdefit.cli.config.command_line import USAGE
from pdefit.cli.config.compose import register_experiment
from pdefit.cli.config.configuration import readable, register_resolvers
from pdefit.cli.config.hydra_guard import guarded
from pdefit.cli.runtime import equations, plugins, processes, run_directory
from pdefit.cli.runtime import process as stopwatch
from pdefit.cli.runtime.console import Console
from pdefit.cli.runtime.process import settle
from pdefit.cli.sweeps.record import recorded_sweep
from pdefit.output.store.runs import RunFiles

# verbs configured by Hydra that take a run directory, too, and those that take nothing else
_ALSO_ON_A_RUN, _ON_A_RUN = ("certify", "doctor", "identify"), ("resume", "profile", "discover")

# jobs of a sweep after which compiled programs are forgotten: jobs of equal shapes share them
_FORGET_EVERY = 10

_failures: list[str] = []
# names of the signals that ended jobs
_signals: list[str] = []


def main() -> None:
    """Run the `pdefit` command in this process."""
    interrupts.listen()
    stopwatch.start()
    console = Console(stderr=False)
    # where a full disk refuses the log, logging itself must not print: the error is reported once, on the terminal
    logging.raiseExceptions = False
    # before Hydra has made run.log nothing is logged: messages are printed on the terminal anyway
    logging.getLogger("pdefit").addHandler(logging.NullHandler())
    register_resolvers()
    verb, *rest = sys.argv[1:] or ["--help"]
    try:
        if verb in command_line.HELP:
            print(USAGE, end="")
        elif verb == "--version":
            print(version())
        elif verb in (*command_line.VERBS, *_ON_A_RUN, "verify"):
            _compute(verb, rest, console)
        elif verb == "sweep" and rest[:1] == ["resume"]:
            _resume_sweep(rest[1:], console)
        elif verb in command_line.MODULES:
            _command(verb)(rest, console)
        else:
            raise unknown("verb", verb, command_line.MODULES)
    except PdefitError as error:
        _report(str(error))
    except KeyboardInterrupt as error:
        _report_interrupt(error)
    # any other error is a bug: it is reported in one sentence, and its traceback is logged
    except Exception as error:
        if os.environ.get("HYDRA_FULL_ERROR") == "1":
            raise
        _report_unexpected(error)
    interrupts.ignore()
    if code := interrupts.exit_code(_signals[0]) if _signals else min(len(_failures), 1):
        processes.end(code)
        sys.exit(code)


def command() -> None:
    """Run the `pdefit` command as a process. If a signal ended it, it does not wait for computations."""
    try:
        main()
    finally:
        if _signals:
            interrupts.leave(interrupts.exit_code(_signals[0]))


def _command(verb: str, kind: str = "") -> Callable[..., None]:
    """The function `run_<verb>` of a verb, imported late: figures and files take a second to import."""
    module = importlib.import_module(f"pdefit.cli.{command_line.MODULES[verb]}")
    return getattr(module, f"run_{verb.replace('-', '_')}{kind}")


def _compute(verb: str, words: list[str], console: Console) -> None:
    """Run a verb that evaluates equations, either installed or in a file named on the command line."""
    files, rest = command_line.files(words)
    on_a_run = verb in _ON_A_RUN or (verb in _ALSO_ON_A_RUN and command_line.names_a_run(rest))
    if files.experiment is not None and (on_a_run or verb == "verify"):
        raise PdefitError(f"pdefit {verb} takes no file of an experiment here; leave '{files.experiment}' out")
    if on_a_run or verb == "verify" or files.equations is not None or processes.tasks() > 1:
        _prepare()
    with equations.using(files.equations, rest[0] if on_a_run and rest else ""):
        if processes.tasks() > 1 and importlib.import_module("pdefit.cli.run.follow").followed(verb, rest):
            return
        if verb == "verify":
            file = equations.named()
            _command(verb)(rest or ([] if file is None else [*file.module.SYSTEMS]), console)
        elif on_a_run:
            _command(verb, "" if verb in _ON_A_RUN else "_on_a_run")(rest, console)
        else:
            _run_with_hydra(verb, [*_own_experiment(files, rest), *rest], [str(f) for f in files if f is not None])


def _own_experiment(files: command_line.NamedFiles, words: list[str]) -> list[str]:
    """The override that chooses the experiment in a file, if one is named."""
    if files.experiment is None:
        if files.equations is not None and not any(word.startswith("experiment=") for word in words):
            raise PdefitError(
                f"'{files.equations}' needs an experiment: name its file (EXPERIMENT.yaml), or experiment=NAME"
            )
        return []
    if any(word.startswith("experiment=") for word in words):
        raise PdefitError(f"experiment= and '{files.experiment}' are two experiments; keep one of them")
    if any(re.match(r"\+*hydra/launcher=(?!basic)", word) for word in words):
        raise PdefitError(
            "Files of your own run in this process only, so a sweep takes its jobs one after the other; leave hydra/launcher "
            "out, or make a package by `pdefit new NAME`"
        )
    return [f"experiment={register_experiment(files.experiment)}"]


def _resume_sweep(words: list[str], console: Console) -> None:
    """Run the jobs of a sweep that are missing, failed or stopped."""
    from pdefit.cli.sweeps.jobs import what_is_left

    files, rest = command_line.files(words)
    sweep, left, given = what_is_left(rest, [str(f) for f in files if f is not None], console)
    if left:
        if files.equations is not None:
            _prepare()
        with equations.using(files.equations):
            if files.experiment is not None:
                # the record holds the override that chose the file
                given = [word for word in given if word != f"experiment={files.experiment.stem}"]
                given = [*_own_experiment(files, given), *given]
            _run_with_hydra(sweep.verb, given, [*sweep.files], left)


def _prepare() -> None:
    """Prepare a verb that computes. This loads JAX, which takes seconds."""
    from pdefit.cli.runtime.environment import forget_programs, prepare

    prepare()
    forget_programs()
    logging.getLogger("jax").setLevel(logging.WARNING)


def _run_with_hydra(verb: str, words: list[str], files: list[str], only: Collection[str] | None = None) -> None:
    """Pass the rest of the command line to Hydra, and turn its errors into one sentence.

    **Arguments:**

    - `verb`, `words`: the verb, and its flags and overrides.
    - `files`: the files on the command line, for the record of the run.
    - `only`: names of the sweep's jobs to run; None for all, in a new directory.
    """
    options, flags, overrides = command_line.of_verb(verb, words)
    plugins.register()
    if only is None:
        run_directory.refuse_used(overrides)
    sys.argv = [sys.argv[0], *flags, *overrides]
    wants_traceback = os.environ.get("HYDRA_FULL_ERROR")
    # Hydra would print its own errors and exit; this makes it raise them here
    os.environ["HYDRA_FULL_ERROR"] = "1"
    decorate = hydra.main(version_base="1.3", config_path="pkg://pdefit_conf", config_name="config")
    started: list[str] = []

    def task(cfg: DictConfig) -> None:
        started.append(verb)
        _task(verb, cfg, files, wants_traceback == "1", options)

    try:
        with guarded(), recorded_sweep(verb, words, files, only) as sweeps:
            decorate(task)()
        if sweeps:
            from pdefit.cli.sweeps.jobs import tell_outcome

            # the failures of other processes are known from their folders only
            _failures.extend(tell_outcome(sweeps[0], Console()))
    # before a job has started, all errors are Hydra's about the configuration, of almost any type
    except Exception as error:
        if wants_traceback == "1" or (started and not isinstance(error, HydraException | OmegaConfBaseException)):
            raise
        # the error of a full disk does not name the file of Hydra that it refused
        if (told := of_the_machine(error, "the run directory")) is not None:
            raise PdefitError(told) from None
        raise readable(error, overrides, command_line.folders(flags)) from None
    finally:
        os.environ.pop("HYDRA_FULL_ERROR")
        if wants_traceback is not None:
            os.environ["HYDRA_FULL_ERROR"] = wants_traceback


def _task(verb: str, cfg: DictConfig, files: list[str], wants_traceback: bool, options: dict[str, str]) -> None:
    """Run one job. A failure is reported and remembered, so that the other jobs of a sweep still run."""
    job, console, directory = HydraConfig.get(), Console(), run_directory.current()
    name, several = job.runtime.choices.get("experiment"), job.mode == RunMode.MULTIRUN
    settle(job.launcher)
    try:
        if name is None:
            raise PdefitError(f"Choose an experiment with experiment=NAME; there are: {', '.join(experiments())}.")
        if several and RunFiles(directory).has("DONE"):
            console.print(f"{escape(str(directory))} is done", highlight=False, soft_wrap=True)
            return
        _prepare()
        from pdefit.cli.config.read import read_settings
        from pdefit.cli.config.settings import Job
        from pdefit.cli.run.recorded import open_run

        typed = [o for o in job.overrides.task if not (files and o == f"experiment={name}")]
        command = ["pdefit", verb, *files, *typed, *(f"{key}={value}" for key, value in options.items() if value)]
        # a job that a queue starts again in its directory goes on, on as many cores
        again = several and verb == "fit" and RunFiles(directory).has("provenance.json")
        new = Job(read_settings(cfg), directory, name, console)
        opened = open_run([str(directory)], verb, console) if again else (new,)
        with run_directory.recorded(directory, command, opened[0].settings, name, again, alone=not several):
            run = _command(verb)
            # Tracing makes millions of short-lived objects, and what was imported stays: a sixth of its time is saved.
            gc.freeze()
            gc.set_threshold(10_000, 10, 10)
            run(*opened, **({"options": options} if options else {}))
    except PdefitError as error:
        _report(str(error))
        if several:
            run_directory.mark_failed(directory, str(error))
    # one signal ends a job, two end a sweep
    except interrupts.Interrupted as error:
        interrupts.hand_on(error.name)
        if error.everything:
            raise
        _report_interrupt(error)
    # the other jobs of a sweep still run
    except Exception as error:
        if wants_traceback:
            raise
        _report_unexpected(error)
        if several:
            run_directory.mark_failed(directory, first_line(error))
    finally:
        if several and (job.job.num + 1) % _FORGET_EVERY == 0:
            _forget_programs()


def _forget_programs() -> None:
    """Free the programs of earlier jobs, which would fill memory; later ones come from the cache on disk."""
    from pdefit.cli.runtime.environment import forget_programs

    gc.unfreeze()
    forget_programs(always=True)


def _report_unexpected(error: Exception) -> None:
    """Report an error of the machine (a full disk, too little memory), or a bug."""
    if (told := of_the_machine(error)) is not None:
        _report(told)
        return
    log = logging.getLogger("pdefit")
    kept = any(isinstance(h, logging.FileHandler) for h in logging.getLogger().handlers)
    log.error("internal error", exc_info=error)
    where = "run.log holds the traceback" if kept else "HYDRA_FULL_ERROR=1 shows the traceback"
    _report(f"internal error: {type(error).__name__}: {first_line(error)} - this is a bug in pdefit; {where}")


def _report_interrupt(error: KeyboardInterrupt) -> None:
    """Report the signal that ended a job, or a command before its first job."""
    if isinstance(error, interrupts.Interrupted):
        _signals.append(error.name)
    else:
        _signals.extend(interrupts.received() or ["SIGINT"])
    _report(str(error) or f"interrupted by {_signals[-1]}")


def _report(message: str) -> None:
    message = sentence(message)
    _failures.append(message)
    logging.getLogger("pdefit").error(message)
    Console(stderr=True, soft_wrap=True).print(f"[bold red]error:[/] {escape(message)}", highlight=False)
