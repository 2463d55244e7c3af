"""history.h5: what happened in every evaluation of a fit, appended as it runs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pdefit.files import growing

_COLUMNS = {
    "iteration": (np.int64, "evaluation of the functional, from 1"),
    "stage": (np.int16, "stage, from 1"),
    "loss": (np.float64, "J, with the weights in force at the time"),
    "gradient_norm": (np.float64, "norm of dJ/dtheta"),
    "accepted": (np.int8, "1 if the optimizer took the step"),
    "seconds": (np.float64, "wall time of the evaluation"),
}


class HistoryFile:
    """One row for each evaluation; `control` (n, p) holds the physical values of few controls, named in `control_name`."""

    def __init__(self, path: Path, names: Sequence[str]):
        self._file = growing.create(path)
        self._rows = 0
        for column, (dtype, long_name) in _COLUMNS.items():
            self._file.create_dataset(column, (0,), dtype, maxshape=(None,), chunks=(1024,))
            self._file[column].attrs["long_name"] = long_name
        self._file.create_dataset("control_name", data=np.asarray(list(names), object), dtype=growing.TEXT)
        self._file.create_dataset(
            "control",
            (0, len(names)),
            np.float64,
            maxshape=(None, len(names) or None),
            chunks=(256, max(len(names), 1)),
        )
        growing.start(self._file)

    def append(self, rows: Sequence[Any], controls: np.ndarray) -> None:
        """Rows with the attributes named as the columns, and the physical controls (n, p) of each."""
        last = self._rows + len(rows)
        for column in _COLUMNS:
            self._file[column].resize((last,))
            self._file[column][self._rows :] = [getattr(row, column) for row in rows]
        self._file["control"].resize((last, self._file["control"].shape[1]))
        self._file["control"][self._rows :] = controls
        growing.commit(self._file, last)
        self._rows = last

    def __enter__(self) -> "HistoryFile":
        return self

    def __exit__(self, *_: Any) -> None:
        self._file.close()
