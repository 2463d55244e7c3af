"""history.h5: loss, gradient norm and controls of every evaluation of a fit, appended as it runs."""

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pdefit._util.atomic import beside
from pdefit._util.errors import PdefitError
from pdefit._util.interrupts import uninterrupted
from pdefit.data.readers.formats import opened
from pdefit.output.store import _surviving as surviving

# columns of a history, besides one for each control
COLUMNS = {
    "iteration": (np.int64, "evaluation of the functional, from 1"),
    "stage": (np.int16, "stage, from 1"),
    "loss": (np.float64, "J, with the weights in force at the time"),
    "gradient_norm": (np.float64, "norm of dJ/dtheta"),
    "accepted": (np.int8, "1 if the optimizer took the step"),
    "seconds": (np.float64, "wall time of the evaluation"),
    "step_error": (np.float64, "largest error of adaptive steps at the point, 1 at the tolerance; NaN: not measured"),
}


# the room of a new file, in rows
_FEWEST = 1024


class HistoryFile:
    """Writer of history.h5, one row for each evaluation.

    While the file is open it has room for more rows than the `n_done` that are written.

    **Arguments:**

    - `path`: the path of the file.
    - `names` (p,): the names of the controls whose physical values are stored in `control` (n, p).
    - `keep`: the number of rows of an existing file to keep; 0 for a new file.
    """

    def __init__(self, path: Path, names: Sequence[str], keep: int = 0):
        self._path, self._names = path, list(names)
        self._create(_FEWEST, _rows(path, keep) if keep else {})

    def _create(self, room: int, kept: Mapping[str, Any]) -> None:
        """Create a file for `room` rows or more. An old file stays in place until the new one holds the rows `kept`."""
        count = len(kept.get("iteration", ()))
        room = max(room, count)
        with beside(self._path) as beginning, surviving.created(beginning, self._path) as file:
            for column, (dtype, long_name) in COLUMNS.items():
                surviving.rows(file, column, (room,), dtype).attrs["long_name"] = long_name
            surviving.rows(file, "control", (room, len(self._names)), np.float64)
            file.create_dataset("control_name", data=np.asarray(self._names, object), dtype=surviving.TEXT)
            surviving.start(file)
            if kept:
                _write(file, 0, kept)
        self._file, self._room, self._count = file, room, count

    def append(self, rows: Sequence[Any], controls: np.ndarray) -> None:
        """Append records, whose attributes are the columns, and their physical controls (n, p)."""
        last = self._count + len(rows)
        if last > self._room:
            self._move(2 * last)
        _write(self._file, self._count, {c: [getattr(row, c) for row in rows] for c in COLUMNS} | {"control": controls})
        self._count = last

    @uninterrupted()
    def _move(self, room: int) -> None:
        """Move the rows into a file with more room, or with none to spare."""
        old = self._file
        self._create(room, {name: old[name][: self._count] for name in (*COLUMNS, "control")})
        old.close()

    def __enter__(self) -> "HistoryFile":
        return self

    def __exit__(self, *_: Any) -> None:
        try:
            if self._file.sink.failure is None:
                self._move(self._count)
        finally:
            self._file.close()


@uninterrupted()
def _write(file: Any, first: int, columns: Mapping[str, Any]) -> None:
    """Write rows from number `first` on."""
    last = first + len(columns["iteration"])
    for column, values in columns.items():
        file[column][first:last] = values
    surviving.commit(file, last)


def read_history(path: Path) -> dict[str, np.ndarray]:
    """Complete rows of a history: each column by its name, and each control by its own.

    A control with the name of a column is left out.
    """
    try:
        count, columns, names = _complete(path)
        controls = dict(zip(names, columns.pop("control").T, strict=True))
        if {x.shape for x in (*columns.values(), *controls.values())} == {(count,)}:
            return {**controls, **columns}
    except PdefitError:
        raise
    # h5py answers damaged bytes with almost any exception
    except Exception:
        pass
    raise PdefitError(f"'{path}' is damaged, or no history that pdefit wrote; put it back from a copy")


def _rows(path: Path, keep: int) -> dict[str, np.ndarray]:
    """The first `keep` rows of a history, even if its writer was killed."""
    # as damaged bytes may raise almost anything
    with contextlib.suppress(Exception):
        count, columns, _ = _complete(path)
        if count >= keep:
            return {name: column[:keep] for name, column in columns.items()}
    raise PdefitError(
        f"'{path}' lacks some of the {keep} evaluations that the saved state has behind it; put it back from a copy, "
        f"or start a new run"
    )


def _complete(path: Path) -> tuple[int, dict[str, np.ndarray], list[str]]:
    """Number of complete rows, the columns with those rows, and the names of the controls."""
    with opened(path) as file:
        columns: dict[str, Any] = {c: file[c].checked().stored for c in ("n_done", *COLUMNS, "control", "control_name")}
        count, names = int(columns.pop("n_done")[()]), columns.pop("control_name").asstr()[()]
        return count, {name: np.asarray(column[:count]) for name, column in columns.items()}, [*map(str, names)]
