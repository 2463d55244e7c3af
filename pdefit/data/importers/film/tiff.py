"""Films in TIFF files, with the metadata of OME and ImageJ."""

import contextlib
import logging
import math
import re
import xml.etree.ElementTree
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tifffile

from pdefit._util.errors import PdefitError
from pdefit.data.importers.film.images import Images, reading, refuse_number
from pdefit.data.importers.options import number
from pdefit.data.units import conversion

_NAMES = {"C": "channel", "Z": "z"}


def tiff(file: Path, options: Mapping[str, str]) -> Images:
    """Images of a TIFF file, or of the set of OME files that it belongs to.

    **Arguments:**

    - `file`: the TIFF file.
    - `options`: `channel`, `z` and `series` choose one of several. `z=time` takes the planes of a stack as times.
    """
    with _warnings() as told, tifffile.TiffFile(file) as opened:
        # tifffile lists as many images as the metadata state
        for stated in xml.etree.ElementTree.fromstring(opened.ome_metadata or "<none/>").iterfind(".//{*}Pixels"):
            refuse_number(math.prod(int(stated.get(f"Size{axis}", 1)) for axis in "ZCT"))
        which = _one_of("series", len(opened.series), options)
        if any("invalid page offset" in text for text in told):
            raise PdefitError("images at its end are missing; copy it again")
        series = opened.series[which]
        image = re.search("S?YXS?$", series.axes)
        if image is None:
            raise PdefitError(f"images are expected, but its axes are {series.axes}; store it as (time, rows, columns)")
        lead = series.axes[: image.start()]
        shape, dtype = series.shape[len(lead) :], series.dtype
        times = next((a for a in "TIQ" if a in lead), "Z" if options.get("z") == "time" else "")
        # numbers of the planes of the chosen channel, by time
        planes = np.arange(math.prod(series.shape[: len(lead)])).reshape(series.shape[: len(lead)])
        for axis in reversed(range(len(lead))):
            if lead[axis] != times:
                name = _NAMES.get(lead[axis], f"axis {lead[axis]}")
                planes = planes.take(_one_of(name, planes.shape[axis], options), axis)
        planes = planes.ravel()
        # planes of a page, and the place of the first where nothing lies between them
        within = math.prod(series.keyframe.shape) // math.prod(shape)
        start, order = series.dataoffset, opened.byteorder
        pages = series.pages if opened.is_ome else []
        if any(page is None for page in pages):
            raise PdefitError("it belongs to a set of files, of which some are missing; put them beside it")
        files = frozenset(str(page.parent.filehandle.path) for page in pages if page is not None)
        for other in files:
            if not Path(other).is_relative_to(file.resolve().parent):
                raise PdefitError(f"it takes images from '{other}', outside of its folder; copy them beside it")
        pixel, frame = _ome(opened.ome_metadata or "", which) if opened.is_ome else _imagej(opened)

    def read(wanted: Iterable[int]) -> Iterator[np.ndarray]:
        with reading(file), tifffile.TiffFile(file) as opened:
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
                    if closed:
                        page.parent.filehandle.close()
                yield np.moveaxis(values, 0, 2) if image[0][0] == "S" else np.array(values)

    planar = (*shape[1:], shape[0]) if image[0][0] == "S" else shape
    return Images((planes.size, *planar), dtype, read, pixel, frame, files)


@contextlib.contextmanager
def _warnings() -> Iterator[list[str]]:
    """Texts that tifffile writes into its log, since it leaves out pages that it cannot find."""
    told: list[str] = []
    handler, log = logging.Handler(), logging.getLogger("tifffile")
    handler.emit = lambda record: told.append(record.getMessage())
    log.addHandler(handler)
    try:
        yield told
    finally:
        log.removeHandler(handler)


def _one_of(name: str, count: int, options: Mapping[str, str]) -> int:
    """The chosen one of several channels, planes or series."""
    if name not in options and count != 1:
        planes = ", or z=time where its planes are times" if name == "z" else ""
        raise PdefitError(f"it holds {count} of {name}, where one is expected; choose with {name}=0{planes}")
    chosen = number(name, options.get(name, "0"))
    if chosen >= count:
        raise PdefitError(f"{name}={chosen} does not exist; choose one from 0 to {count - 1}")
    return chosen


def _in_si(value: object, unit: object, expected: str) -> float | None:
    """A length in m or a time in s; None where the file states none that makes sense."""
    try:
        # ImageJ writes µ as an escape; inches are its default, not a measurement
        name = str(unit).replace("\\u00B5", "u").replace("micron", "um").replace("ums", "um")
        size = float(str(value)) * conversion(name, expected).factor
    except (PdefitError, ValueError):
        return None
    return size if math.isfinite(size) and size > 0 and name not in ("inch", "pixel", "1", "") else None


def _ome(text: str, which: int) -> tuple[tuple[float, float] | None, float | None]:
    """Size of a pixel and time between frames in the metadata of OME."""
    found = xml.etree.ElementTree.fromstring(text).findall(".//{*}Pixels")[which].attrib
    width, height = (_in_si(found.get(f"PhysicalSize{a}"), found.get(f"PhysicalSize{a}Unit", "um"), "m") for a in "XY")
    time = _in_si(found.get("TimeIncrement"), found.get("TimeIncrementUnit", "s"), "s")
    return (width, height) if width and height else None, time


def _imagej(opened: tifffile.TiffFile) -> tuple[tuple[float, float] | None, float | None]:
    """Size of a pixel and time between frames in the metadata of ImageJ."""
    about = opened.imagej_metadata or {}
    across = [opened.pages.first.tags.valueof(f"{a}Resolution") for a in "XY"]
    units = about.get("unit"), about.get("yunit", about.get("unit"))
    sizes = [_in_si(r[1] / r[0], unit, "m") if r and r[0] else None for r, unit in zip(across, units, strict=True)]
    time = _in_si(about.get("finterval"), about.get("tunit", "s"), "s")
    width, height = sizes
    return (width, height) if width and height else None, time
