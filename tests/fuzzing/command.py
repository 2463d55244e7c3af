"""The command in this process, with a time limit, and what may be wrong with its answer."""

import contextlib
import functools
import io
import logging
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import equinox as eqx
import jax

from pdefit.cli import main
from pdefit.cli.run import certify as certify_command
from pdefit.cli.run import fit as fit_command
from pdefit.inverse.fit import _fit_run as fit_run
from pdefit.inverse.fit import drivers, traced

# seconds after which a case counts as hung, on any machine
LIMIT = 120
_MEASURED: dict[Any, Any] = {}
# where Hydra sets up logging, which closes the handlers of pytest
_LOGGING = ("hydra.core.utils", "hydra._internal.hydra", "hydra._internal.core_plugins.basic_launcher")


class Built(BaseException):
    """The input was taken: the experiment stands, and its fit would begin now."""


class TooLong(BaseException):
    """The time limit."""


class Answer(NamedTuple):
    """What came out of a command; `escaped` is the traceback of what it did not catch."""

    code: int
    out: str
    err: str
    escaped: str


def answer(
    folder: Path, arguments: list[str], *, whole: bool = False, logs: bool = False, limit: int = LIMIT
) -> Answer:
    """Run the command in a folder; unless `whole`, a fit ends where its first iteration would begin. Hydra sets up logging
    with `logs`, which closes the handlers of pytest."""
    out, err, escaped, code = io.StringIO(), io.StringIO(), "", 0
    before = (Path.cwd(), dict(os.environ))
    main._failures.clear()
    main._signals.clear()
    with _patched(whole, logs), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        os.chdir(folder)
        sys.argv = ["pdefit", *arguments]
        signal.signal(signal.SIGALRM, _stop)
        signal.alarm(limit)
        try:
            main.main()
        except SystemExit as end:
            code = int(end.code or 0)
        except Built:
            pass
        # anything that gets here is what a user would see as a traceback
        except BaseException:
            escaped = traceback.format_exc()
        finally:
            signal.alarm(0)
            os.chdir(before[0])
            os.environ.clear()
            os.environ.update(before[1])
    return Answer(code, out.getvalue(), err.getvalue(), escaped)


def complaint(given: Answer) -> str:
    """What is wrong with an answer; empty if nothing is."""
    if given.escaped:
        return given.escaped
    # a sweep logs to the terminal, and `Built` with it
    if "Traceback" in given.err or given.out.count("Traceback") > given.out.count("command.Built"):
        return f"a traceback on the terminal: {given.out} {given.err}"
    lines = [x for x in given.err.splitlines() if x.strip()]
    if "internal error" in given.err:
        return given.err
    if given.code == 0:
        return f"exit code 0, but: {given.err}" if "error:" in given.err else ""
    if given.code != 1 or len(lines) != 1 or not lines[0].startswith("error:"):
        return f"exit code {given.code} and not one line of error: {given.err!r}"
    return "" if len(lines[0]) < 2000 else f"a sentence of {len(lines[0])} characters: {lines[0][:300]}"


@contextlib.contextmanager
def _patched(whole: bool, logs: bool) -> Iterator[None]:
    """The process as it was before: logging, signals, arguments; warnings are no errors, as on a user's terminal."""
    handlers, arguments = logging.getLogger().handlers[:], sys.argv
    signals = {s: signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)}
    with contextlib.ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        for module in () if logs else _LOGGING:
            stack.enter_context(mock.patch(f"{module}.configure_log", lambda *_: None))
        if not whole:
            stack.enter_context(mock.patch.object(fit_command.Certificates, "start", lambda *_: None))
            stack.enter_context(mock.patch.object(fit_run.FitRun, "minimise", _built))
            stack.enter_context(mock.patch.object(certify_command, "certified_start", _built))
            for name in ("trial", "analysed", "tangent_cost"):
                # of each module that evaluates functionals
                for module in (drivers, traced):
                    if found := getattr(module, name, None):
                        stack.enter_context(mock.patch.object(module, name, functools.partial(_once, found)))
        try:
            yield
        finally:
            for handler in set(logging.getLogger().handlers) - set(handlers):
                logging.getLogger().removeHandler(handler)
                handler.close()
            for number, former in signals.items():
                signal.signal(number, former)
            sys.argv = arguments


def _once(measure: Callable[..., Any], *arguments: object) -> Any:
    """A measurement of a program, taken anew for other equations and shapes, but not for other values."""
    arrays, rest = eqx.partition(arguments[0], eqx.is_array)
    leaves, tree = jax.tree.flatten(rest)
    key = (measure, tree, *leaves, *((x.shape, x.dtype) for x in jax.tree.leaves(arrays)))
    if key not in _MEASURED:
        _MEASURED[key] = measure(*arguments)
    return _MEASURED[key]


def _stop(*_: object) -> None:
    raise TooLong


def _built(*_: object, **__: object) -> None:
    raise Built
