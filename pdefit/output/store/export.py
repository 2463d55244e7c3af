"""Export of fields: NetCDF, TIFF stacks, NumPy archives. Frames are copied one at a time."""

import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tifffile

from pdefit._util.atomic import beside
from pdefit._util.errors import PdefitError, unknown
from pdefit.data.readers.fields import Field, Film, open_film
from pdefit.output.store.fields import FieldsFile
from pdefit.output.store.tables import write_frames

# bytes; more would not fit the 32-bit offsets of ImageJ's TIFF
_LARGEST_TIFF = 4_000_000_000


def export(fields: Path, folder: Path, form: str, wanted: Sequence[str] | None = None) -> list[Path]:
    """Export fields into a folder; returns the files.

    **Arguments:**

    - `fields`: the path of a fields.h5.
    - `folder`: the target folder, created if it does not exist.
    - `form`: the format: netcdf, tiff, numpy or csv.
    - `wanted`: the names of fields and diagnostics (default: all).
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
    """Write one NetCDF-4 file with the complete frames, coordinates and units.

    The writer of fields.h5 is used, whose format is NetCDF-4 already.
    """
    path = folder / "fields.nc"
    coords, kinds = {f.name: f for f in fields}, {f.name: f.kinds for f in fields}
    dtype = str(film.dtype(fields[0].name, fields[0].kinds[0]))
    scalars = [name for name in coords if name in film.diagnostics]
    about = film.ts, film.time_unit, coords, kinds, dtype, film.phase, film.title, scalars
    with beside(path) as neighbour, FieldsFile(neighbour, *about) as file:
        for number in range(film.ts.size):
            file.append({f"{f.name}_{k}": film.frame(f.name, k, number) for f in fields for k in f.kinds})
    return [path]


def _tiff(film: Film, fields: list[Field], folder: Path) -> list[Path]:
    """Write a stack of float32 images for each kind of each field on one to three axes.

    Pixel sizes and frame times are in ImageJ's form. The first axis runs to the right, the second upwards, the third
    through the slices, so that `pdefit import film` recovers the field. A line over time is one image, with time
    downwards. Fields with labels have no image.
    """
    written = []
    for field in fields:
        if not 1 <= len(field.dims) <= 3 or any(places.dtype.kind in "US" for places in field.coords.values()):
            continue
        shape, axes = (film.ts.size, *field.shape[::-1]), {1: "YX", 2: "TYX", 3: "TZYX"}[len(field.dims)]
        if 4 * int(np.prod(shape)) > _LARGEST_TIFF:
            raise PdefitError(f"'{field.name}' would take more than 4 GB, which ImageJ cannot read; use format=netcdf")
        steps = [float(abs(x[-1] - x[0]) / (x.size - 1)) if x.size > 1 else 1.0 for x in field.coords.values()]
        about: dict[str, Any] = {"axes": axes, "unit": _ascii(field.coord_units[field.dims[0]])}
        if film.ts.size > 1:
            about |= {"finterval": float(np.median(np.diff(film.ts))), "tunit": _ascii(film.time_unit)}
        if len(steps) == 3:
            about["spacing"] = steps[2]
        for kind in field.kinds:
            # rows of an image run down
            every = film.frames(field.name, kind, range(film.ts.size))
            frames = (frame.T if axes == "YX" else np.flip(frame.T, -2) for frame in every)
            images = (np.ascontiguousarray(image, np.float32) for image in frames)
            written.append(folder / f"{field.name}_{kind}.tif")
            with beside(written[-1]) as neighbour:
                tifffile.imwrite(
                    neighbour, np.stack([*images]) if axes == "YX" else images, shape=shape, dtype=np.float32, imagej=True,
                    photometric="minisblack", resolution=(1.0 / steps[0], 1.0 / [*steps, 1.0][1]), metadata=about,
                )  # fmt: skip
    if not written:
        raise PdefitError("No field lies on a grid, so there is no image to write; use format=netcdf or format=numpy")
    return written


def _ascii(text: str) -> str:
    """ASCII text with escapes for other characters, in ImageJ's form."""
    return text.encode("ascii", "backslashreplace").decode()


def _numpy(film: Film, fields: list[Field], folder: Path) -> list[Path]:
    """Write one .npz without pickle: times, coordinates, and every kind of every field."""
    path, every = folder / "fields.npz", range(film.ts.size)
    whole = {"time": film.ts, "phase": film.phase}
    for field in fields:
        whole |= {d: np.asarray(c, str) if c.dtype.kind in "US" else c for d, c in field.coords.items()}
    # type, shape and parts of each array
    arrays: dict[str, Any] = {name: (values.dtype, values.shape, [values]) for name, values in whole.items()}
    for f in fields:
        shape = (film.ts.size, *f.shape)
        arrays |= {f"{f.name}_{k}": (film.dtype(f.name, k), shape, film.frames(f.name, k, every)) for k in f.kinds}
    with beside(path) as neighbour, zipfile.ZipFile(neighbour, "w", zipfile.ZIP_STORED) as archive:
        for name, (dtype, shape, parts) in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                header = {"descr": dtype.str, "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(file, header)
                for part in parts:
                    file.write(np.ascontiguousarray(part, dtype).tobytes())
    return [path]


def _csv(film: Film, fields: list[Field], folder: Path) -> list[Path]:
    """Write a table for each field, with a row for each time and position: its coordinates and every kind of the field."""
    import xarray

    for field in fields:
        frames = (
            xarray.Dataset(
                {f"{field.name}_{k}": (field.dims, film.frame(field.name, k, number)) for k in field.kinds},
                field.coords,
            ).expand_dims(time=[t])
            for number, t in enumerate(film.ts)
        )
        write_frames(folder / f"{field.name}.csv", frames)
    return [folder / f"{field.name}.csv" for field in fields]


_FORMS: dict[str, Callable[[Film, list[Field], Path], list[Path]]] = {
    "netcdf": _netcdf,
    "tiff": _tiff,
    "numpy": _numpy,
    "csv": _csv,
}
