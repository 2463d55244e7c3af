"""Films of a camera: choice of frames, crop, mask and bins."""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path

import imageio.v3
import numpy as np
import tifffile

from pdefit._util.errors import PdefitError
from pdefit.data.importers.film.images import Images, reading
from pdefit.data.importers.film.npy import npy
from pdefit.data.importers.film.tiff import tiff
from pdefit.data.importers.film.video import video
from pdefit.data.importers.options import number, numbers
from pdefit.data.importers.recording import Recording, frame_numbers
from pdefit.data.importers.scale import SCALE_OPTIONS, refuse_unknown, scale_of

IMAGE_OPTIONS = ("channel", "z", "series", "crop", "bin", "mask", "nan", "every", "frames")
_READERS = {".npy": npy, **dict.fromkeys((".tif", ".tiff", ".btf", ".lsm", ".stk"), tiff)}
_READERS |= dict.fromkeys((".avi", ".mp4", ".mov", ".mkv", ".m4v", ".webm", ".mpg"), video)


class Film:
    """Grey images of files in natural order, with the size of their pixels and the times between them.

    **Arguments:**

    - `files`: the files.
    - `options`: `IMAGE_OPTIONS` and those of the scale.
    """

    def __init__(self, files: list[Path], options: Mapping[str, str]):
        self.notes: list[str] = []
        found = dict[Path, Images]()
        for file in (Path(name) for name in tifffile.natural_sorted(map(str, files))):
            if not any(str(file.resolve()) in part.files for part in found.values()):
                found[file] = _opened(file, options)
        self.parts = [*found.values()]
        inside = {Path(name) for part in self.parts for name in part.files} - {file.resolve() for file in found}
        self.source = [Path(name) for name in tifffile.natural_sorted(map(str, {*found, *inside}))]
        first = self.parts[0]
        for file, part in found.items():
            if (part.shape[1:], part.dtype) != (first.shape[1:], first.dtype):
                raise PdefitError(
                    f"'{file.name}' holds {part.dtype} images of shape {part.shape[1:]}, but those before are "
                    f"{first.dtype} of shape {first.shape[1:]}; import them apart"
                )
        count = sum(part.shape[0] for part in self.parts)
        self.kept, (stated, note) = _kept(count, options), frame_numbers([*found])
        self.has_gaps = bool(stated[-1] >= len(found))
        if count > len(found) and self.has_gaps:
            raise PdefitError(
                "Files of several images must follow each other, but numbers in their names are missing; import them apart, "
                "or number them one by one"
            )
        self.numbers = np.array(self.kept) if count > len(found) else stated[self.kept]
        self.notes += [] if note is None or count > len(found) else [note]
        self.colour = number("channel", options["channel"]) if "channel" in options and len(first.shape) == 4 else None
        if self.colour is not None and self.colour >= first.shape[3]:
            raise PdefitError(f"channel={self.colour} does not exist; choose a colour from 0 to {first.shape[3] - 1}")
        self.nan = numbers("nan", options["nan"], "0", (1,), whole=False)[0] if "nan" in options else math.nan
        self.corner, self.bins = self._window(first.shape[1:3], options), number("bin", options.get("bin", "1"), 1)
        self.mask = _mask(Path(options["mask"]), first.shape[1:3]) if "mask" in options else None
        self.shape = tuple((b - a) // self.bins for a, b in self.corner)
        if 0 in self.shape:
            raise PdefitError(f"bin={self.bins} is larger than the image; choose a smaller one")
        mean = len(first.shape) == 4 and self.colour is None
        exact = first.dtype.kind != "f" and self.bins == 1 and self.mask is None and not mean
        self.dtype = first.dtype.newbyteorder("=") if exact else np.dtype("f4")
        self.dtype = np.dtype("u1") if self.dtype.kind == "b" else self.dtype
        if mean:
            self.notes.append("Grey values are means of the colours; channel=0 takes the first of them.")
        if "nan" in options:
            self.notes.append(f"NaN in the images is taken as {self.nan:g}.")
        if self.mask is not None:
            self.notes.append(f"{np.mean(~self.mask):.1%} of the pixels are masked and missing.")
        if self.bins > 1:
            self.notes.append(
                f"Values are means over {self.bins} x {self.bins} pixels; one with a missing pixel is missing."
            )
        if any((b - a) % self.bins for a, b in self.corner):
            self.notes.append("Rows at the bottom or columns at the right that fill no bin are left out.")
        scale = scale_of(options)
        known = first.pixel is not None and scale.pixel is None and not scale.unknown
        size, self.length_unit = (1.0, "m") if known else scale.length("pixel")
        width, height = first.pixel if known and first.pixel else (size, size)
        self.pixel = width * self.bins, height * self.bins
        known = first.frame is not None and scale.frame is None and not scale.unknown
        self.frame, self.time_unit = (first.frame or 1.0, "s") if known else scale.time("frame")

    def images(self) -> Iterator[np.ndarray]:
        """The images, one at a time, row 0 at the top. NaN means missing."""
        before = 0
        (top, bottom), (left, right) = self.corner
        rows, columns = self.shape
        for part in self.parts:
            for values in part.read([k - before for k in self.kept if before <= k < before + part.shape[0]]):
                if values.ndim == 3:
                    grey = values[..., : 3 if values.shape[2] > 2 else 1].mean(2, dtype="f8")
                    values = grey if self.colour is None else values[..., self.colour]
                if values.dtype.kind == "f":
                    values = np.where(np.isnan(values), self.nan, np.where(np.isinf(values), np.nan, values))
                if self.mask is not None:
                    values = np.where(self.mask, values, np.nan)
                values = values[top:bottom, left:right][: rows * self.bins, : columns * self.bins]
                if self.bins > 1:
                    values = values.reshape(rows, self.bins, columns, self.bins).mean((1, 3), dtype="f8")
                yield values.astype(self.dtype, copy=False)
            before += part.shape[0]

    def _window(self, shape: tuple[int, ...], options: Mapping[str, str]) -> tuple[tuple[int, int], tuple[int, int]]:
        """First row and the row behind the last, and the same of columns."""
        rows, columns = shape
        if "crop" not in options:
            return (0, rows), (0, columns)
        x0, x1, y0, y1 = (int(n) for n in numbers("crop", options["crop"], "[x0,x1,y0,y1]", (4,)))
        if not (x0 < x1 <= columns and y0 < y1 <= rows):
            raise PdefitError(f"crop=[{x0},{x1},{y0},{y1}] leaves the image of {columns} x {rows} pixels; correct it")
        self.notes.append(
            f"Images are cut to columns {x0} to {x1 - 1} and rows {y0} to {y1 - 1}, where row 0 is the top."
        )
        return (y0, y1), (x0, x1)


def film(files: list[Path], options: dict[str, str]) -> Recording:
    """Frames of images, with x along columns and y upward.

    **Arguments:**

    - `files`: TIFF, AVI, MP4 or NumPy files, joined in natural order.
    - `options`: `pixel`, `frame`, `scale`, `channel`, `z`, `series`, `crop`, `bin`, `mask`, `nan`, `every`,
      `frames`, `name`.
    """
    refuse_unknown("film", options, (*SCALE_OPTIONS, *IMAGE_OPTIONS, "name"))
    source, name = Film(files, options), options.get("name", "intensity")
    if not name.isidentifier() or name in ("time", "x", "y"):
        raise PdefitError(f"name expects a word such as u, but got '{name}'; choose another")
    axes = {
        dim: (np.arange(n) + 0.5) * size
        for dim, n, size in zip("xy", reversed(source.shape), source.pixel, strict=True)
    }
    source.notes.append(
        "Rows of images run down and y runs up, so they are flipped; x = y = 0 is their lower left corner."
    )
    return Recording(
        ts=source.frame * source.numbers,
        time_unit=source.time_unit,
        axes=axes,
        length_unit=source.length_unit,
        units={name: "1"},
        frames=({name: image[::-1].T} for image in source.images()),
        notes=source.notes,
        source=[file.name for file in source.source],
        title="Film",
        dtype=source.dtype.str,
    )


def _opened(file: Path, options: Mapping[str, str]) -> Images:
    reader = _READERS.get(file.suffix.lower())
    if reader is None:
        raise PdefitError(
            f"'{file.name}' is no film that is known; convert it to TIFF ({', '.join(_READERS)} are read)"
        )
    with reading(file):
        return reader(file, options)


def _kept(count: int, options: Mapping[str, str]) -> range:
    """Numbers of the frames that `frames=0:100 every=2` choose."""
    first, colon, end = options.get("frames", "0:").partition(":")
    start, stop = (number("frames", text) if text.strip() else default for text, default in ((first, 0), (end, count)))
    kept = range(start, min(stop if colon else start + 1, count), number("every", options.get("every", "1"), 1))
    if not kept:
        raise PdefitError(f"frames={options.get('frames')} chooses none of {count} frames; write frames=0:{count}")
    return kept


def _mask(file: Path, shape: tuple[int, ...]) -> np.ndarray:
    """True where the picture of a mask is not zero."""
    if not file.is_file():
        raise PdefitError(f"The mask '{file}' does not exist; correct its name")
    with reading(file):
        mask: np.ndarray = np.asarray(imageio.v3.imread(file))
        # colours and transparency are in the last axis
        mask = np.any(mask[..., : 3 if mask.shape[2] > 2 else 1] if mask.ndim == 3 else mask[..., None], axis=2)
        if mask.shape != shape:
            raise PdefitError(f"the mask has shape {mask.shape}, but the images have {shape}; draw it on an image")
    return mask
