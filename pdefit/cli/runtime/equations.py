"""A file of equations named on the command line, for a first try without a package.

The file is trusted because its user typed its name; its code runs for no other reason. A run keeps the path, the hash
and a copy for readers. A verb on that run imports the file at this path only if its user has typed the name of that
file, with the same content, on this machine before. The cache of the user marks every such file. Other files must be
named again.
"""

import inspect
import re
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from shlex import quote
from types import ModuleType
from typing import Any, NamedTuple

from pdefit._util.cache import cache_folder, digest
from pdefit._util.errors import PdefitError, first_line
from pdefit.output.store.runs import RunFiles

# the name under which Python knows the file, whatever the file is called; so its hash of equations is not that of its name
MODULE = "pdefit_equations"
# the copy in a run directory; its ending keeps it from being imported
COPY = "equations.py.txt"


class EquationFile(NamedTuple):
    """A file of equations: its path, text and module; the module's `SYSTEMS` holds its systems by name."""

    path: Path
    text: str
    module: ModuleType

    @property
    def recorded(self) -> dict[str, str]:
        """Path and hash for the provenance of a run."""
        return {"path": str(self.path), "sha256": digest([self.text.encode()])}


_named: list[EquationFile] = []


def named() -> EquationFile | None:
    """The file of equations in use, if any."""
    return _named[-1] if _named else None


@contextmanager
def using(path: Path | None, run: str = "") -> Iterator[None]:
    """Context manager with the equations of a file; without a file it changes nothing.

    **Arguments:**

    - `path`: the file named on the command line; None for the run's file.
    - `run`: the directory of a run. Its file of equations is used only if this user has named that file in a command before.
    """
    if path is None and (path := _typed_before(Path(run)) if run else None) is None:
        yield
        return
    _named.append(_load(path))
    # without a folder that can be written, the file is named again
    with suppress(OSError):
        mark = _mark(_named[-1].recorded)
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()
    try:
        yield
    finally:
        _named.pop()


def _typed_before(directory: Path) -> Path | None:
    """The equation file of a run, if its user has typed its name with its present content; else None."""
    recorded = RunFiles(directory).provenance.get("equations")
    if isinstance(recorded, Mapping) and _mark(recorded).is_file():
        path = Path(str(recorded.get("path")))
        with suppress(PdefitError):
            return path if digest([text_of(path, "file of equations").encode()]) == recorded.get("sha256") else None
    return None


def _mark(recorded: Mapping[str, Any]) -> Path:
    """The file that marks a typed name of a file with this content."""
    return cache_folder("equations") / digest([f"{recorded.get('path')!r} {recorded.get('sha256')!r}".encode()])


def check_named_again(recorded: Any, directory: Path, verb: str) -> None:
    """Refuse to work on a run with equations other than its own.

    **Arguments:**

    - `recorded`: the entry `equations` in the provenance of the run; None for a run of installed equations.
    - `directory`, `verb`: the directory of the run, and the verb, for errors.
    """
    file = named()
    if recorded is None and file is None:
        return
    if not isinstance(recorded, Mapping):
        raise PdefitError(f"'{directory}' was made by installed equations; leave '{file.path if file else ''}' out")
    if file is None:
        raise PdefitError(
            f"'{directory}' was made by the equations in '{recorded.get('path')}', which only you can trust; name the file "
            f"again: pdefit {verb} {quote(str(directory))} {quote(str(recorded.get('path')))}, in Python load_run(..., "
            f"equations=...)"
        )
    if file.recorded["sha256"] != recorded.get("sha256"):
        raise PdefitError(
            f"'{file.path}' is not the file that '{directory}' was made with; {directory / COPY} shows what it was: put it "
            f"back, or start a new run"
        )


def text_of(path: Path, what: str) -> str:
    """Content of a file named on the command line; errors call it `what`."""
    # opening a pipe or a device could block for ever
    if not path.is_file():
        raise PdefitError(f"The {what} '{path}' does not exist, or is no file; correct the path")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise PdefitError(f"'{path}' is not in UTF-8; save it as UTF-8") from None


def snake_case(name: str) -> str:
    """`LevenbergMarquardt` as `levenberg_marquardt`, `FisherKPP` as `fisher_kpp`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def _load(path: Path) -> EquationFile:
    """Execute a file of equations as a separate module."""
    text = text_of(path, "file of equations")
    module = ModuleType(MODULE)
    module.__file__ = str(path.resolve())
    # type hints of its classes are looked up there
    sys.modules[MODULE] = module
    try:
        exec(compile(text, module.__file__, "exec"), vars(module))
    except ModuleNotFoundError as error:
        raise PdefitError(
            f"'{path}' imports '{error.name}', which is not installed; install it, or write what it holds into the file, which "
            f"stands alone (pdefit new NAME makes a package)"
        ) from None
    # whatever the user's own code raises, and the end of the program that it asks for
    except (Exception, SystemExit) as error:
        raise PdefitError(f"'{path}', line {_line(error, module.__file__)}: {_message(error)}") from None
    module.SYSTEMS = _systems(module)  # pyright: ignore[reportAttributeAccessIssue]
    if not module.SYSTEMS:
        raise PdefitError(
            f"'{path}' defines no system; write a class on pdefit.ReactionDiffusion or pdefit.AbstractSystem, or start from "
            f"`pdefit new {path.stem}_new.py`"
        )
    return EquationFile(path.resolve(), text, module)


def _systems(module: ModuleType) -> dict[str, type]:
    """Concrete systems defined in a module, by their names in a configuration."""
    # only here, because it loads JAX
    from pdefit.systems.system import AbstractSystem

    return {
        snake_case(name): cls
        for name, cls in vars(module).items()
        if inspect.isclass(cls) and issubclass(cls, AbstractSystem) and cls.__module__ == MODULE
        if not inspect.isabstract(cls) and not name.startswith("_")
    }


def _line(error: BaseException, file: str) -> int:
    """The line of a file that raised an error."""
    if isinstance(error, SyntaxError) and error.lineno:
        return error.lineno
    lines = [frame.lineno or 0 for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return lines[-1] if lines else 1


def _message(error: BaseException) -> str:
    message = error.msg if isinstance(error, SyntaxError) else first_line(error)
    return message if isinstance(error, PdefitError) else f"{type(error).__name__}: {message}"
