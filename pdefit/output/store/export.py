"""Export of fields: NetCDF, TIFF stacks, NumPy archives. Frames are copied one at a time."""

import dataclasses
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tifffile

from pdefit._util.atomic import beside
from pdefit._util.errors import PdefitError, unknown
from pdefit.data.readers.fields import Field, Film, open_film
from pdefit.output.store.fields import FieldsFile
from pdefit.systems.capabilities import FieldCoords

# bytes; more would not fit the 32-bit offsets of ImageJ's TIFF
_LARGEST_TIFF = 4_000_000_000


def export(fields: Path, folder: Path, form: str, wanted: Sequence[str] | None = None) -> list[Path]:
    """Export of fields into a folder; returns the files.

    **Arguments:**

    - `fields`: path of a fields.h5.
    - `folder`: where the files go; made if it does not exist.
    - `form`: netcdf, tiff or numpy.
    - `wanted`: names of fields and diagnostics (default: all).
    """
    if form not in _FORMS:
        raise unknown("format", form, list(_FORMS))
    with open_film(fields) as film:
        every = film.fields | film.diagnostics
        for name in wanted or ():
            if name not in every:
                raise unknown("field", name, list(every))
        chosen = [f for n, f in every.items() if wanted is None or n in wanted]
        folder.mkdir(parents=True, exist_ok=True)
        return _FORMS[form](film, chosen, folder)


def _netcdf(film: Film, fields: list[Field], folder: Path) -> list[Path]:
    """One NetCDF-4 file with the complete frames, coordinates and units.

    It is written by the writer of fields.h5, whose format is NetCDF-4 already.
    """
    path = folder / "fields.nc"
    stated = [part.name for part in dataclasses.fields(FieldCoords)]
    coords = {f.name: FieldCoords(**{part: getattr(f, part) for part in stated}) for f in fields}
    scalars = [f.name for f in fields if f.name in film.diagnostics]
    kinds, dtype = {f.name: f.kinds for f in fields}, str(_dtype(film, fields[0], fields[0].kinds[0]))
    with (
        beside(path) as neighbour,
        FieldsFile(neighbour, film.ts, film.time_unit, coords, kinds, dtype, _phase(film), film.title, scalars) as file,
    ):
        for number in range(film.ts.size):
            file.append({f"{f.name}_{k}": film.frame(f.name, k, number) for f in fields for k in f.kinds})
    return [path]


def _tiff(film: Film, fields: list[Field], folder: Path) -> list[Path]:
    """Stack of float32 images for each kind of each field on one to three axes.

    Pixel sizes and frame times are written as ImageJ reads them. The first axis runs to the right, the last one through
    the slices. A line over time is one image, with time downwards. Fields with labels have no image.
    """
    written = []
    for field in fields:
        if not 1 <= len(field.dims) <= 3 or any(field.coords[d].dtype.kind in "US" for d in field.dims):
            continue
        for kind in field.kinds:
            path = folder / f"{field.name}_{kind}.tif"
            shape, axes = (film.ts.size, *field.shape[::-1]), {1: "YX", 2: "TYX", 3: "TZYX"}[len(field.dims)]
            if 4 * int(np.prod(shape)) > _LARGEST_TIFF:
                raise PdefitError(
                    f"'{path.name}' would take more than 4 GB, which ImageJ cannot read; use format=netcdf"
                )
            frames = (np.ascontiguousarray(frame.T, np.float32) for frame in _frames(film, field, kind))
            data: Any = np.stack(list(frames)) if axes == "YX" else frames
            with beside(path) as neighbour:
                tifffile.imwrite(
                    neighbour, data, shape=shape, dtype=np.float32, imagej=True, photometric="minisblack",
                    resolution=_resolution(field), metadata=_metadata(film, field, axes),
                )  # fmt: skip
            written.append(path)
    if not written:
        raise PdefitError("No field lies on a grid, so there is no image to write; use format=netcdf or format=numpy")
    return written


def _resolution(field: Field) -> tuple[float, float]:
    """Pixels for each unit of length along the two axes of an image."""
    return tuple([1.0 / _step(field, d) for d in field.dims[:2]] + [1.0])[:2]  # pyright: ignore[reportReturnType]


def _step(field: Field, dim: str) -> float:
    places = np.asarray(field.coords[dim], float)
    return float(abs(places[-1] - places[0]) / (places.size - 1)) if places.size > 1 else 1.0


def _metadata(film: Film, field: Field, axes: str) -> dict[str, Any]:
    # ASCII with escapes for other characters, as ImageJ writes them
    length = field.coord_units[field.dims[0]].encode("ascii", "backslashreplace").decode()
    found: dict[str, Any] = {"axes": axes, "unit": length}
    if film.ts.size > 1:
        found["finterval"] = float(np.median(np.diff(film.ts)))
        found["tunit"] = film.time_unit.encode("ascii", "backslashreplace").decode()
    if "Z" in axes:
        found["spacing"] = _step(field, field.dims[2])
    return found


def _numpy(film: Film, fields: list[Field], folder: Path) -> list[Path]:
    """One .npz without pickle: times, coordinates, and every kind of every field."""
    path = folder / "fields.npz"
    with beside(path) as neighbour, zipfile.ZipFile(neighbour, "w", zipfile.ZIP_STORED) as archive:
        whole = {"time": film.ts, "phase": _phase(film)}
        for field in fields:
            whole |= {d: np.asarray(c, str) if c.dtype.kind in "US" else c for d, c in field.coords.items()}
        for name, values in whole.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, values, allow_pickle=False)
        for field in fields:
            for kind in field.kinds:
                dtype = _dtype(film, field, kind)
                header = {"descr": dtype.str, "fortran_order": False, "shape": (film.ts.size, *field.shape)}
                with archive.open(f"{field.name}_{kind}.npy", "w", force_zip64=True) as file:
                    np.lib.format.write_array_header_1_0(file, header)
                    for frame in _frames(film, field, kind):
                        file.write(np.ascontiguousarray(frame).tobytes())
    return [path]


def _phase(film: Film) -> np.ndarray:
    """Zero for the frames of the fit, one for those of the forecast."""
    return (np.arange(film.ts.size) >= film.forecast).astype(np.int8)


def _dtype(film: Film, field: Field, kind: str) -> np.dtype:
    return np.dtype(f"<f{film.item_size(field.name, kind)}")


def _frames(film: Film, field: Field, kind: str) -> Iterator[np.ndarray]:
    return (film.frame(field.name, kind, number) for number in range(film.ts.size))


_FORMS: dict[str, Callable[[Film, list[Field], Path], list[Path]]] = {"netcdf": _netcdf, "tiff": _tiff, "numpy": _numpy}
