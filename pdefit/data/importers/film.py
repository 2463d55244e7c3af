"""Camera films: choice of frames, crop, mask and bins."""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path

import imageio.v3
import numpy as np
import tifffile

from pdefit._util.errors import PdefitError
from pdefit.data.importers.images import Images, open_images, reading
from pdefit.data.importers.options import SCALE_OPTIONS, number, numbers, refuse_unknown, scale_of, whole_numbers
from pdefit.data.importers.recording import Recording, frame_numbers

_LARGEST = float(np.finfo("f4").max)
FILM_OPTIONS = (
    *SCALE_OPTIONS, "channel", "z", "series", "crop", "bin", "mask", "nan", "dark", "per_count", "every", "frames", "name",
)  # fmt: skip


def film(files: list[Path], options: dict[str, str]) -> Recording:
    """Frames of images, with x along columns and y upward.

    **Arguments:**

    - `files`: TIFF, AVI, MP4 or NumPy files, joined in natural order.
    - `options`: `pixel`, `frame`, `scale`, `channel`, `z`, `series`, `crop`, `bin`, `mask`, `nan`, `dark`,
      `per_count`, `every`, `frames`, `name`.
    """
    refuse_unknown("film", options, FILM_OPTIONS)
    name = options.get("name", "intensity")
    if not name.isidentifier() or name in ("time", "x", "y"):
        raise PdefitError(f"name expects a word such as u, but got '{name}'; choose another")
    parts = _parts(files, options)
    first, notes = next(iter(parts.values())), list[str]()
    chosen, times = _numbers(parts, options, notes)
    values, scale = _Values(first, options, notes), scale_of(options)
    sizes = [scale.completed(size).length("pixel") for size in first.pixel or (None, None)]
    step, unit = scale.completed(frame=first.frame).time("frame")
    axes: dict[str, tuple[np.ndarray, str]] = {"time": (step * times, unit)}
    for dim, n, (pixel, unit) in zip("xy", reversed(values.shape), sizes, strict=True):
        axes[dim] = ((np.arange(n) + 0.5) * (pixel * values.bins), unit)
    notes += [part.remark for part in parts.values() if part.remark]
    notes.append("Rows of images run down and y runs up, so they are flipped; x = y = 0 is their lower left corner.")

    def frames() -> Iterator[Mapping[str, np.ndarray]]:
        before = 0
        for part in parts.values():
            for image in part.read([k - before for k in chosen if before <= k < before + part.shape[0]]):
                yield {name: values.grey(image)[::-1].T}
            before += part.shape[0]
        if values.absent and "nan" not in options:
            notes.append("NaN in the images counts as not measured; nan=0 takes it as zero.")

    # the other files of a set are sources, too
    inside = {file for part in parts.values() for file in part.files} - {file.resolve() for file in parts}
    source = [Path(path).name for path in tifffile.natural_sorted(map(str, {*parts, *inside}))]
    return Recording(axes, {name: "1"}, frames(), notes, source, "Film", values.dtype.str, values.packing)


def _parts(files: list[Path], options: Mapping[str, str]) -> dict[Path, Images]:
    """Images by file, in natural order of names. A set of files is listed once."""
    parts = dict[Path, Images]()
    for file in (Path(name) for name in tifffile.natural_sorted(map(str, files))):
        if any(file.resolve() in part.files for part in parts.values()):
            continue
        parts[file] = part = open_images(file, options)
        first = next(iter(parts.values()))
        if (part.shape[1:], part.dtype) != (first.shape[1:], first.dtype):
            raise PdefitError(
                f"'{file.name}' holds {part.dtype} images of shape {part.shape[1:]}, but those before are "
                f"{first.dtype} of shape {first.shape[1:]}; import them apart"
            )
    return parts


def _numbers(parts: Mapping[Path, Images], options: Mapping[str, str], notes: list[str]) -> tuple[range, np.ndarray]:
    """Indices of the images that `frames=0:100 every=2` select, and their times in frames."""
    count, (start, colon, end) = (
        sum(part.shape[0] for part in parts.values()),
        options.get("frames", "0:").partition(":"),
    )
    first = number("frames", start) if start.strip() else 0
    stop = number("frames", end) if end.strip() else count if colon else first + 1
    chosen = range(first, min(stop, count), number("every", options.get("every", "1"), 1))
    if not chosen:
        raise PdefitError(f"frames={options.get('frames')} chooses none of {count} frames; write frames=0:{count}")
    stated, remarks = frame_numbers([*parts])
    if count > len(parts):
        if stated[-1] >= len(parts):
            raise PdefitError(
                "Files of several images must follow each other, but numbers in their names are missing; import them apart, "
                "or number them one by one"
            )
        return chosen, np.array(chosen)
    notes += remarks
    return chosen, stated[chosen]


class _Values:
    """Processing of image values.

    **Arguments:**

    - `first`: the images of the first file.
    - `options`: `channel`, `nan`, `crop`, `mask`, `bin`, `dark`, `per_count`.
    - `notes`: the list of notes to extend.
    """

    def __init__(self, first: Images, options: Mapping[str, str], notes: list[str]):
        rows, columns, *colours = first.shape[1:]
        self._colour = number("channel", options["channel"]) if "channel" in options and colours else None
        if self._colour is not None and self._colour >= colours[0]:
            raise PdefitError(f"channel={self._colour} does not exist; choose a colour from 0 to {colours[0] - 1}")
        self._nan = numbers("nan", options["nan"], "0", (1,))[0] if "nan" in options else math.nan
        x0, x1, y0, y1 = whole_numbers("crop", options.get("crop", f"0,{columns},0,{rows}"), "[x0,x1,y0,y1]", (4,))
        if not (x0 < x1 <= columns and y0 < y1 <= rows):
            raise PdefitError(f"crop=[{x0},{x1},{y0},{y1}] leaves the image of {columns} x {rows} pixels; correct it")
        self.absent = False
        self.bins = bins = number("bin", options.get("bin", "1"), 1)
        self._mask = _mask(Path(options["mask"]), (rows, columns)) if "mask" in options else np.True_
        self._dark = _dark(options.get("dark", "0"), (rows, columns))
        self._per_count = numbers("per_count", options.get("per_count", "1"), "0.001", (1,))[0]
        if self._per_count == 0:
            raise PdefitError("per_count expects the value of one count, but got 0; correct it")
        self.shape = (y1 - y0) // bins, (x1 - x0) // bins
        if 0 in self.shape:
            raise PdefitError(f"bin={bins} is larger than the image; choose a smaller one")
        # whole bins only
        self._window = tuple(slice(low, low + n * bins) for low, n in zip((y0, x0), self.shape, strict=True))
        mean, masked = bool(colours) and self._colour is None, "mask" in options
        whole_dark, self._scaled = self._dark.ndim == 0, bool({"dark", "per_count"} & options.keys())
        exact = first.dtype.kind != "f" and bins == 1 and not masked and not mean and whole_dark
        native = np.dtype("u1") if first.dtype.kind == "b" else first.dtype.newbyteorder("=")
        self.dtype = native if exact else np.dtype("f4")
        # whole numbers stay as they are, and readers apply both
        self.packing = dict[str, float]()
        if exact and self._scaled:
            self.packing = {"scale_factor": self._per_count, "add_offset": -self._per_count * float(self._dark)}
        dark = f"{self._dark:g} counts" if whole_dark else f"the image {Path(options['dark']).name}"
        remarks = {
            f"Images are cut to columns {x0} to {x1 - 1} and rows {y0} to {y1 - 1}, where row 0 is the top.": "crop"
            in options,
            "Grey values are means of the colours; channel=0 takes the first of them.": mean,
            f"Values are counts less the dark ({dark}), times {self._per_count:g}.": self._scaled,
            "The counts are stored as they are, with attributes scale_factor and add_offset.": bool(self.packing),
            f"NaN in the images is taken as {self._nan:g}.": "nan" in options,
            f"{np.mean(~self._mask):.1%} of the pixels are masked and missing.": masked,
            f"Values are means over {bins} x {bins} pixels; one with a missing pixel is missing.": bins > 1,
            "Rows at the bottom or columns at the right that fill no bin are left out.": (y1 - y0) % bins
            or (x1 - x0) % bins,
        }
        notes += [remark for remark, holds in remarks.items() if holds]

    def grey(self, image: np.ndarray) -> np.ndarray:
        """The grey values of an image, row 0 at the top. NaN means missing."""
        if image.ndim == 3 and self._colour is None:
            # colours without transparency
            image = image[..., : 3 if image.shape[2] > 2 else 1].mean(2, dtype="f8")
        elif image.ndim == 3:
            image = image[..., self._colour]
        if image.dtype.kind == "f":
            image = image.astype(np.promote_types(image.dtype, "f4"), copy=False)
            # infinite values, and those that do not fit into the file, are missing
            with np.errstate(invalid="ignore"):
                finite = np.where(np.abs(image) <= _LARGEST, image, np.nan)
            self.absent |= bool(np.isnan(image).any())
            image = np.where(np.isnan(image), self._nan, finite)
        if self._scaled and not self.packing:
            image = (image - self._dark) * self._per_count
        if self._mask is not np.True_:
            image = np.where(self._mask, image, np.nan)
        image = image[self._window]
        if self.bins > 1:
            rows, columns = self.shape
            image = image.reshape(rows, self.bins, columns, self.bins).mean((1, 3), dtype="f8")
        return image.astype(self.dtype, copy=False)


def _mask(file: Path, shape: tuple[int, ...]) -> np.ndarray:
    """True for pixels where the mask image is not zero."""
    if not file.is_file():
        raise PdefitError(f"The mask '{file}' does not exist; correct its name")
    with reading(file):
        mask: np.ndarray = np.asarray(imageio.v3.imread(file))
        # colours and transparency are in the last axis
        mask = np.any(mask[..., : 3 if mask.shape[2] > 2 else 1] if mask.ndim == 3 else mask[..., None], axis=2)
        if mask.shape != shape:
            raise PdefitError(f"the mask has shape {mask.shape}, but the images have {shape}; draw it on an image")
    return mask


def _dark(given: str, shape: tuple[int, ...]) -> np.ndarray:
    """Dark counts: a number, or an image of all pixels, row 0 at the top."""
    file = Path(given)
    if not file.suffix or not file.is_file():
        return np.asarray(numbers("dark", given, "400 or an image that exists", (1,))[0])
    with reading(file):
        dark = np.load(file, allow_pickle=False) if file.suffix == ".npy" else np.asarray(imageio.v3.imread(file))
        if dark.shape != shape:
            raise PdefitError(
                f"the dark image has shape {dark.shape}, but the images have {shape}; give one grey image"
            )
        return dark.astype(float)
