"""Lines of source code behind the operations of a traced program."""

import dataclasses
import importlib.util
import linecache
import os
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from jax.extend.core import JaxprEqn

# frames of these packages may lie between the user's line and the operation, and are skipped
_LIBRARIES = ("jax", "jaxlib", "equinox", "diffrax", "optax", "lineax", "optimistix", "jaxtyping", "beartype", "numpy")


@runtime_checkable
class _Frame(Protocol):
    """A frame of a traceback of XLA."""

    @property
    def file_name(self) -> str: ...
    @property
    def function_name(self) -> str: ...
    @property
    def line_num(self) -> int: ...


@dataclasses.dataclass(frozen=True)
class SourceLine:
    """A line of source code; `own` is true if it belongs to pdefit and not to the user."""

    file: str
    line: int
    text: str
    own: bool

    def __str__(self) -> str:
        """`folder/file.py:41`, and the line itself."""
        return f"{'/'.join(Path(self.file).parts[-2:])}:{self.line} `{self.text}`"


def source_line(path: Sequence[JaxprEqn]) -> SourceLine | None:
    """The innermost line of user code that led to an operation; if there is none, of pdefit's code.

    **Arguments:**

    - `path`: nested equations, each inside the previous one; the last is the operation.
    """
    lines = [_line(frame, own=False) for frame in map(_users, _inside(path)) if frame]
    if lines:
        return lines[-1]
    own = [_line(frames[0], own=True) for frames in map(_pdefits, _inside(path)) if frames]
    return own[-1] if own else None


def _inside(path: Sequence[JaxprEqn]) -> list[list[_Frame]]:
    """Frames of every equation of a path, innermost first.

    A separately compiled function may have been traced for another caller. Frames outside that function are ignored.
    """
    found, function = [], None
    for equation in path:
        traceback = equation.source_info.traceback
        frames = list(traceback.frames) if traceback is not None else []
        if function is not None:
            names = [frame.function_name.rpartition(".")[2] for frame in frames]
            frames = frames[: names.index(function) + 1] if function in names else []
        found.append(frames)
        function = equation.params["name"] if equation.primitive.name in ("jit", "pjit") else function
    return found


def _users(frames: list[_Frame]) -> _Frame | None:
    """The innermost user frame that pdefit called; frames that called pdefit are ignored."""
    called = [i for i, frame in enumerate(frames) if _within(frame, _PDEFIT)]
    # without a frame of pdefit this is a function compiled on its own, which is the user's as a whole or not at all
    for frame in frames[: called[-1]] if called else frames:
        if Path(frame.file_name).is_file() and not _within(frame, _OTHERS):
            return frame
    return None


def _pdefits(frames: list[_Frame]) -> list[_Frame]:
    return [frame for frame in frames if _within(frame, _PDEFIT) and not _within(frame, _SEARCHING)]


def _within(frame: _Frame, folders: tuple[str, ...]) -> bool:
    return any(frame.file_name.startswith(folder + os.sep) for folder in folders) or (
        folders is _OTHERS and frame.file_name.startswith(_STANDARD) and "site-packages" not in frame.file_name
    )


def _line(frame: _Frame, own: bool) -> SourceLine:
    text = linecache.getline(frame.file_name, frame.line_num).strip()
    return SourceLine(frame.file_name, frame.line_num, text, own)


def _folder(package: str) -> list[str]:
    spec = importlib.util.find_spec(package)
    return list(spec.submodule_search_locations or ()) if spec else []


_PDEFIT = (str(Path(__file__).parents[1]),)
# the search itself
_SEARCHING = (str(Path(__file__).parent), str(Path(__file__).parents[1] / "lab" / "doctor"))
_OTHERS = (*_PDEFIT, *(folder for name in _LIBRARIES for folder in _folder(name)))
_STANDARD = sysconfig.get_path("stdlib") + os.sep
