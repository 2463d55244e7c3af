"""Single states in files, in the format of fields.h5."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from pdefit._util.atomic import beside
from pdefit._util.errors import PdefitError
from pdefit.data.readers.formats import opened
from pdefit.output.store.fields import FieldsFile
from pdefit.systems.capabilities import FieldCoords

_KIND = "predicted"


def write_frame(
    path: Path,
    fields: Mapping[str, np.ndarray],
    t: float,
    time_unit: str,
    coords: Mapping[str, FieldCoords],
    title: str,
) -> None:
    """Write a state as a fields.h5 of one frame, which appears under its name when it is complete.

    **Arguments:**

    - `path`: where it is written; folders are made.
    - `fields`: arrays by name.
    - `t`: time of the state, in `time_unit`.
    - `coords`: axes, coordinates and unit of each field.
    - `title`: of the file; it names the model.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    kinds = {name: (_KIND,) for name in fields}
    dtype = str(next(iter(fields.values())).dtype)
    with (
        beside(path, shared=True) as neighbour,
        FieldsFile(neighbour, np.asarray([t]), time_unit, coords, kinds, dtype, np.zeros(1), title) as film,
    ):
        film.append({f"{name}_{_KIND}": value for name, value in fields.items()})


def read_frame(path: Path, shapes: Mapping[str, tuple[int, ...]], model: str) -> dict[str, np.ndarray]:
    """State in a file: the last complete frame of `<field>_predicted`, or of `<field>`, for every field.

    A file of another model, or of another grid, is refused.

    **Arguments:**

    - `path`: of the file.
    - `shapes`: of the expected fields, by name.
    - `model`: its name, for errors.
    """
    with opened(path) as file:
        has = {*file, *file.links}
        names = {f: next((n for n in (f"{f}_{_KIND}", f) if n in has), None) for f in shapes}
        missing = [f for f, name in names.items() if name is None]
        if missing:
            raise PdefitError(
                f"'{path.name}' is no state of {model}: it holds {', '.join(sorted(has)) or 'nothing'}, but not "
                f"{', '.join(missing)}; name the fields.h5 of a run of {model}"
            )
        count = _count(file["n_done"].array(), path) if "n_done" in has else None
        out = {}
        for field, expected in shapes.items():
            name = str(names[field])
            found = file[name].shape
            if len(found) != 1 + len(expected) or found[1:] != expected:
                raise PdefitError(
                    f"'{name}' in '{path.name}' has frames of shape {found[1:]}, but {field} of {model} has {expected}; "
                    f"use a state of the same grid"
                )
            last = (found[0] if count is None else min(count, found[0])) - 1
            if last < 0:
                raise PdefitError(f"'{path.name}' holds no complete frame yet; use another file")
            value = file[name].array(slice(last, last + 1))[0]
            if value.dtype.kind != "f":
                raise PdefitError(f"'{name}' in '{path.name}' is text; numbers are expected")
            if not np.all(np.isfinite(value)):
                raise PdefitError(f"The last frame of '{name}' in '{path.name}' is not finite; use another file")
            out[field] = value
    return out


def _count(n_done: np.ndarray, path: Path) -> int:
    """Number of complete frames."""
    if n_done.shape != () or n_done.dtype.kind != "f" or not np.isfinite(n_done):
        raise PdefitError(f"'n_done' in '{path.name}' is no number of frames; the file is damaged, copy it again")
    return int(n_done)
