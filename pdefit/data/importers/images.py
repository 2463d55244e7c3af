"""Film images in one file: TIFF with OME and ImageJ metadata, video, and NumPy arrays.

A further format needs a function from a file and the options to `Images`, and a row of `_FORMATS`.
"""

import contextlib
import dataclasses
import itertools
import logging
import math
import re
import xml.etree.ElementTree
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import imageio.v3
import numpy as np
import tifffile

from pdefit._util.errors import PdefitError, first_line
from pdefit.data.importers.options import number
from pdefit.data.units import conversion

# larger images do not fit into one chunk of an HDF5 file
_MOST_PIXELS = 2**28
# more are those of a damaged header, and their times alone fill the memory
_MOST_FRAMES = 2**28
# characters of a library's error, which may list a whole directory of a file
_LONGEST = 120
_NAMES = {"C": "channel", "Z": "z"}
# formats of grey pixels in videos; all others are decoded to colours
_GREY = {"gray", "gray16le", "gray16be"}


@dataclasses.dataclass
class Images:
    """Images of one shape, read one at a time.

    **Arguments:**

    - `shape`: the number of images, rows and columns, and of colours if there are several.
    - `dtype`: the type of their values.
    - `read`: maps increasing indices of images to the images, row 0 at the top.
    - `pixel`: the width and height of a pixel in m; None if the file does not state them.
    - `frame`: the time between images in s; None if the file does not state it.
    - `files`: files that hold the images.
    - `remark`: a sentence about possibly missing data.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    read: Callable[[Iterable[int]], Iterator[np.ndarray]]
    pixel: tuple[float, float] | None = None
    frame: float | None = None
    files: frozenset[Path] = frozenset()
    remark: str = ""

    def __post_init__(self) -> None:
        good = len(self.shape) == 3 or (len(self.shape) == 4 and self.shape[3] <= 4)
        if not (good and all(self.shape)) or self.dtype.kind not in "buif" or math.prod(self.shape[1:]) > _MOST_PIXELS:
            raise PdefitError(
                f"grey or colour images of up to {_MOST_PIXELS} pixels are expected, but it holds {self.dtype} of shape "
                f"{self.shape}; store them as (time, rows, columns)"
            )
        _refuse_number(self.shape[0])


def open_images(file: Path, options: Mapping[str, str]) -> Images:
    """Images of a file in the format of its suffix.

    **Arguments:**

    - `file`: the file.
    - `options`: `channel`, `z` and `series` select one of several. `z=time` takes the planes of a stack as times.
    """
    form = _FORMATS.get(file.suffix.lower())
    if form is None:
        raise PdefitError(
            f"'{file.name}' is no film that is known; convert it to TIFF ({', '.join(_FORMATS)} are read)"
        )
    with reading(file):
        return form(file, options)


@contextlib.contextmanager
def reading(file: Path) -> Iterator[None]:
    """Context manager that turns any library's error about a damaged file into one sentence."""
    try:
        yield
    except PdefitError as error:
        raise PdefitError(f"'{file.name}': {error}") from None
    # damaged bytes may raise any exception
    except Exception as error:
        raise PdefitError(
            f"'{file.name}' cannot be read as images ({first_line(error)[:_LONGEST]}); copy it again, or store it as TIFF"
        ) from error


def _refuse_number(count: int) -> None:
    """Refuse an implausible number of frames."""
    if count > _MOST_FRAMES:
        raise PdefitError(f"it declares {count} frames, where at most {_MOST_FRAMES} are expected; cut it into parts")


def _npy(file: Path, options: Mapping[str, str]) -> Images:
    """Images in an array (time, rows, columns) saved by `numpy.save`, which stays on disk."""

    def stack() -> np.ndarray:
        return np.load(file, mmap_mode="r", allow_pickle=False)

    def read(wanted: Iterable[int]) -> Iterator[np.ndarray]:
        with reading(file):
            for k in wanted:
                # mapped anew for each image, so that what was read leaves the memory
                yield np.array(stack()[k])

    return Images(stack().shape, stack().dtype, read)


def _video(file: Path, options: Mapping[str, str]) -> Images:
    """Images of a video, such as AVI or MP4, in display order.

    They are counted, since the header may be wrong. `frame` or `scale` must be given: a video states its display rate,
    which need not be the recording rate.
    """
    about = imageio.v3.immeta(file, plugin="pyav")
    if not {"frame", "scale"} & options.keys():
        raise PdefitError(
            f"it is shown with {about.get('fps', 'unknown')} images a second, which may differ from the camera's rate; add "
            f"pixel=LENGTH (such as 19.53um) and frame=TIME (such as 40ms), or scale=unknown"
        )
    form = str(about.get("video_format", about.get("pix_fmt"))).split("(")[0]

    def images() -> Iterator[np.ndarray]:
        return imageio.v3.imiter(file, plugin="pyav", format=form if form in _GREY else "rgb24")

    def read(wanted: Iterable[int]) -> Iterator[np.ndarray]:
        chosen = {*wanted}
        with reading(file):
            for k, image in enumerate(itertools.islice(images(), max(chosen, default=-1) + 1)):
                if k in chosen:
                    yield image

    first, count = next(images()), sum(1 for _ in images())
    stated, remark = round(about.get("duration", 0) * about.get("fps", 0)), ""
    # one image more or less is the rounding of the duration
    if count < stated - 1:
        remark = (
            f"'{file.name}' lasts as long as {stated} images, but {count} can be read; copy it again if it was cut off."
        )
    return Images((count, *first.shape), first.dtype, read, remark=remark)


def _tiff(file: Path, options: Mapping[str, str]) -> Images:
    """Images of a TIFF file, or of the set of OME files that it belongs to."""
    with _warnings() as warned, tifffile.TiffFile(file) as opened:
        # tifffile lists as many images as the metadata state
        metadata = xml.etree.ElementTree.fromstring(opened.ome_metadata or "<none/>").findall(".//{*}Pixels")
        for pixels in metadata:
            _refuse_number(math.prod(int(pixels.get(f"Size{axis}", 1)) for axis in "ZCT"))
        which = _one_of("series", len(opened.series), options)
        if any("invalid page offset" in text for text in warned):
            raise PdefitError("images at its end are missing; copy it again")
        series = opened.series[which]
        image = re.search("S?YXS?$", series.axes)
        if image is None:
            raise PdefitError(f"images are expected, but its axes are {series.axes}; store it as (time, rows, columns)")
        lead = series.axes[: image.start()]
        if not {"C", "S"} & {*series.axes}:
            _one_of("channel", 1, options)
        shape, dtype = series.shape[len(lead) :], series.dtype
        times = next((a for a in "TIQ" if a in lead), "Z" if options.get("z") == "time" else "")
        counts = series.shape[: len(lead)]
        chosen = [
            slice(None) if axis == times else _one_of(_NAMES.get(axis, f"axis {axis}"), count, options)
            for axis, count in zip(reversed(lead), reversed(counts), strict=True)
        ]
        # numbers of the planes of the chosen channel, by time
        planes = np.arange(math.prod(counts)).reshape(counts)[tuple(reversed(chosen))].ravel()
        # planes of a page, and the place of the first where nothing lies between them
        within = math.prod(series.keyframe.shape) // math.prod(shape)
        start, order = series.dataoffset, opened.byteorder
        pages = series.pages if opened.is_ome else []
        if any(page is None for page in pages):
            raise PdefitError("it belongs to a set of files, of which some are missing; put them beside it")
        files = frozenset(Path(page.parent.filehandle.path) for page in pages if page is not None)
        for other in files:
            if not other.is_relative_to(file.resolve().parent):
                raise PdefitError(f"it takes images from '{other}', outside of its folder; copy them beside it")
        pixel, frame = _stated(opened, metadata[which].attrib if opened.is_ome else {})

    def read(wanted: Iterable[int]) -> Iterator[np.ndarray]:
        with reading(file), _warnings() as warned, tifffile.TiffFile(file) as opened:
            stored, size = opened.series[which], math.prod(shape) * dtype.itemsize
            for plane in (int(planes[k]) for k in wanted):
                if start is not None:
                    values = np.memmap(file, dtype.newbyteorder(order), "r", start + plane * size, shape)
                else:
                    page: Any = stored.pages[plane // within]
                    # other files of a set are closed
                    if closed := page.parent.filehandle.closed:
                        page.parent.filehandle.open()
                    values = page.asarray().reshape(within, *shape)[plane % within]
                    # tifffile fills them with zeros
                    if any("segments" in text for text in warned):
                        raise PdefitError("parts of its images are missing; copy it again")
                    if closed:
                        page.parent.filehandle.close()
                yield np.moveaxis(values, 0, 2) if image[0][0] == "S" else np.array(values)

    planar = (*shape[1:], shape[0]) if image[0][0] == "S" else shape
    return Images((planes.size, *planar), dtype, read, pixel, frame, files)


@contextlib.contextmanager
def _warnings() -> Iterator[list[str]]:
    """Context manager that collects tifffile's log messages, since it skips pages and parts that it cannot find."""
    warned: list[str] = []
    handler, log = logging.Handler(), logging.getLogger("tifffile")
    handler.emit = lambda record: warned.append(record.getMessage())
    log.addHandler(handler)
    try:
        yield warned
    finally:
        log.removeHandler(handler)


def _one_of(name: str, count: int, options: Mapping[str, str]) -> int:
    """Index of the selected channel, plane or series."""
    if name not in options and count != 1:
        planes = ", or z=time where its planes are times" if name == "z" else ""
        raise PdefitError(f"it holds {count} of {name}, where one is expected; choose with {name}=0{planes}")
    chosen = number(name, options.get(name, "0"))
    if chosen >= count:
        raise PdefitError(f"{name}={chosen} does not exist; choose one from 0 to {count - 1}")
    return chosen


def _in_si(value: object, unit: object, expected: str) -> float | None:
    """A length in m or a time in s; None if the file states no plausible value."""
    try:
        # ImageJ writes µ as an escape; inches are its default, not a measurement
        name = str(unit).replace("\\u00B5", "u").replace("micron", "um").replace("ums", "um")
        size = float(str(value)) * conversion(name, expected).factor
    except (PdefitError, ValueError):
        return None
    return size if math.isfinite(size) and size > 0 and name not in ("inch", "pixel", "1", "") else None


def _stated(opened: tifffile.TiffFile, ome: Mapping[str, str]) -> tuple[tuple[float, float] | None, float | None]:
    """Pixel size and time between frames in the metadata of OME or ImageJ."""
    if opened.is_ome:
        sizes = [(ome.get(f"PhysicalSize{a}"), ome.get(f"PhysicalSize{a}Unit", "um")) for a in "XY"]
        time = ome.get("TimeIncrement"), ome.get("TimeIncrementUnit", "s")
    else:
        about = opened.imagej_metadata or {}
        across = [opened.pages.first.tags.valueof(f"{a}Resolution") for a in "XY"]
        units = about.get("unit"), about.get("yunit", about.get("unit"))
        sizes = [(r[1] / r[0] if r and r[0] else None, unit) for r, unit in zip(across, units, strict=True)]
        time = about.get("finterval"), about.get("tunit", "s")
    width, height = (_in_si(*size, "m") for size in sizes)
    return (width, height) if width and height else None, _in_si(*time, "s")


_FORMATS: dict[str, Callable[[Path, Mapping[str, str]], Images]] = {
    ".npy": _npy,
    **dict.fromkeys((".tif", ".tiff", ".btf", ".lsm", ".stk"), _tiff),
    **dict.fromkeys((".avi", ".mp4", ".mov", ".mkv", ".m4v", ".webm", ".mpg"), _video),
}
