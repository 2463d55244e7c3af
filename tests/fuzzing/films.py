"""Damage to the films of cameras: stacks of TIFF images, and videos; and what is wrong with what an import makes of it."""

import functools
import io
import random
import resource
import signal
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import h5py
import imageio.v3
import numpy as np
import tifffile
from rich.console import Console

from fuzzing.configurations import flipped
from pdefit._util.errors import PdefitError
from pdefit.cli.commands.import_ import run_import

FRAMES, ROWS, COLUMNS = 4, 32, 48
GREY = np.random.default_rng(0).integers(0, 2**12, (FRAMES, ROWS, COLUMNS)).astype("u2")
_NAN = np.where(GREY % 7 == 0, np.nan, GREY).astype("f4")
_VIDEO = {"in_pixel_format": "gray", "out_pixel_format": "gray"}
# how each film is written
FILMS: dict[str, Callable[[Path], object]] = {
    "plain.tif": lambda path: _paged(path, GREY),
    "imagej.tif": lambda path: tifffile.imwrite(path, GREY, imagej=True, metadata={"axes": "TYX"}),
    "zlib.ome.tif": lambda path: tifffile.imwrite(path, GREY, ome=True, compression="zlib", metadata={"axes": "TYX"}),
    "tiled.tif": lambda path: _paged(path, GREY, order=">", tile=(16, 16), compression="zlib"),
    "float.tif": lambda path: tifffile.imwrite(path, _NAN, bigtiff=True, photometric="minisblack"),
    "film.avi": lambda path: imageio.v3.imwrite(path, _bytes(GREY), plugin="pyav", codec="rawvideo", fps=25, **_VIDEO),
    "film.mp4": lambda path: imageio.v3.imwrite(path, _colours(GREY), plugin="pyav", codec="libx264", fps=25),
}
# entries of a directory of an image that a reader goes by, and numbers that they should not have
_TAGS = (256, 257, 258, 259, 262, 273, 277, 278, 279, 284, 317, 322, 323, 324, 325, 339)
_NUMBERS = (0, 1, 3, 7, 12, 64, 257, 5000, 8, 32946, 34712, 2**14, 2**15, 65535, 2**31 - 1, 2**32 - 1)


def _bytes(grey: np.ndarray) -> np.ndarray:
    return (grey >> 4).astype("u1")


def _colours(grey: np.ndarray) -> np.ndarray:
    return np.repeat(_bytes(grey)[..., None], 3, axis=3)


def _paged(path: Path, pages: Iterable[np.ndarray], at: int | None = None, order: str = "<", **options: Any) -> None:
    """Write images one by one, as a camera does; `options` are those of the image `at`, or of all."""
    with tifffile.TiffWriter(path, byteorder=order) as file:
        for number, page in enumerate(pages):
            kind = "rgb" if page.shape[-1] == 3 else "minisblack"
            file.write(page, photometric=kind, metadata=None, **(options if at in (None, number) else {}))


@functools.cache
def whole(name: str) -> bytes:
    """The bytes of a film that is in order."""
    with tempfile.TemporaryDirectory() as folder:
        FILMS[name](path := Path(folder) / name)
        return path.read_bytes()


@functools.cache
def _entries(name: str) -> tuple[str, list[tuple[int, int]], list[tuple[int, int]]]:
    """Byte order, place and width of the value of every entry in `_TAGS`, and place and length of the stored images."""
    with tempfile.TemporaryDirectory() as folder:
        (path := Path(folder) / name).write_bytes(whole(name))
        with tifffile.TiffFile(path) as file:
            tags = [tag for page in file.pages for tag in page.tags if tag.code in _TAGS]
            stored = [pair for page in file.pages for pair in zip(page.dataoffsets, page.databytecounts, strict=True)]
            return file.byteorder, [(tag.offset, tag.valueoffset) for tag in tags], stored


def damaged(name: str, rng: random.Random) -> tuple[bytes, str]:
    """The bytes of a damaged film, and how it was damaged."""
    raw = whole(name)
    how = rng.choice(_ANY + (_OF_TIFF if name.endswith(".tif") else ()))
    return how(name, raw, rng), how.__name__.strip("_")


def _cut(_: str, raw: bytes, rng: random.Random) -> bytes:
    return raw[: rng.choice([0, 1, 4, 8, rng.randrange(len(raw)), rng.randrange(len(raw)), len(raw) - 1])]


def _header(_: str, raw: bytes, rng: random.Random) -> bytes:
    end = rng.choice([8, 16, 400])
    return flipped(raw[:end], rng, rng.choice([1, 3, 20])) + raw[end:]


def _anywhere(_: str, raw: bytes, rng: random.Random) -> bytes:
    return flipped(raw, rng, rng.choice([1, 20, 200]))


def _tail(_: str, raw: bytes, rng: random.Random) -> bytes:
    return raw[:-400] + flipped(raw[-400:], rng, rng.choice([1, 20]))


def _block(_: str, raw: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(raw))
    return raw[:at] + bytes([rng.choice([0, 255])] * 64) + raw[at + 64 :]


def _order(_: str, raw: bytes, rng: random.Random) -> bytes:
    """The other order of bytes in the first two of them."""
    return (b"MM" if raw[:2] == b"II" else b"II") + raw[2:]


def _entry(name: str, raw: bytes, rng: random.Random) -> bytes:
    """Another number in one or all entries of a kind: sizes, bits, compression, places."""
    order, entries, _ = _entries(name)
    place, value = rng.choice(entries)
    code, number = raw[place : place + 2], rng.choice(_NUMBERS)
    changed = bytearray(raw)
    for where, at in entries if rng.random() < 0.5 else [(place, value)]:
        if raw[where : where + 2] == code:
            short = raw[where + 2 : where + 4] in (b"\3\0", b"\0\3")
            new = number.to_bytes(4, "little" if order == "<" else "big")
            changed[at : at + (2 if short else 4)] = (new[:2] if order == "<" else new[2:]) if short else new
    return bytes(changed)


def _huge(name: str, raw: bytes, rng: random.Random) -> bytes:
    """Images whose sides no memory holds, or nearly so."""
    changed, (order, entries, _) = bytearray(raw), _entries(name)
    side = rng.choice([2**13, 2**14, 2**15, 2**16 - 1])
    for where, at in entries:
        if int.from_bytes(raw[where : where + 2], "little" if order == "<" else "big") in (256, 257):
            changed[at : at + 2] = side.to_bytes(2, "little" if order == "<" else "big")
    return bytes(changed)


def _count(name: str, raw: bytes, rng: random.Random) -> bytes:
    """Another type or number of the values of an entry."""
    place, _ = rng.choice(_entries(name)[1])
    at = place + rng.choice([2, 3, 4, 5, 6, 7])
    return raw[:at] + bytes([rng.randrange(256)]) + raw[at + 1 :]


def _stream(name: str, raw: bytes, rng: random.Random) -> bytes:
    """Other bytes in a stored image, which may be compressed."""
    start, length = rng.choice(_entries(name)[2])
    return raw[:start] + flipped(raw[start : start + length], rng, rng.choice([1, 8, 80])) + raw[start + length :]


def _made(pages: Iterable[np.ndarray], at: int | None = None, **options: Any) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        _paged(path := Path(folder) / "film.tif", pages, at, **options)
        return path.read_bytes()


def _page(_: str, raw: bytes, rng: random.Random) -> bytes:
    """A page of another size, type, or number of colours, or of another compression, among the others."""
    at = rng.randrange(FRAMES)
    odd: list[np.ndarray] = [
        GREY[at, :16], GREY[at, :, :7], GREY[at].astype("u1"), GREY[at].astype("f4"), GREY[at].astype("i4"),
        _colours(GREY)[at], GREY[:2], GREY[at, :1, :1], GREY[at].astype("f8"), GREY[at].astype("c8"),
    ]  # fmt: skip
    pages = [*GREY[:at], rng.choice(odd), *GREY[at + 1 :]]
    return _made(pages, at, **rng.choice([{}, {"compression": "zlib"}, {"tile": (16, 16)}]))


def _values(_: str, raw: bytes, rng: random.Random) -> bytes:
    """Numbers that no camera gives."""
    bad = rng.choice([np.nan, np.inf, -np.inf, 1e308, -1e-320, 3.4028235e38])
    pages = GREY.astype(rng.choice(["f4", "f8"]))
    with np.errstate(over="ignore"):
        pages[rng.choice([slice(None), slice(1, 2)]), :: rng.choice([1, 5])] = bad
    return _made([*pages])


_ANY = (_cut, _cut, _header, _anywhere, _tail, _block)
_OF_TIFF = (_order, _entry, _entry, _entry, _entry, _huge, _count, _stream, _page, _page, _values)


# of so many damaged films one is a video, which takes a hundred times as long
_VIDEOS = 20
# seconds of a case, and its bytes of memory at the most
_LIMIT, _MOST_BYTES = 120, 1e9
_KILO = 1 if sys.platform == "darwin" else 1024


def faults(count: int, folder: Path) -> tuple[list[str], int]:
    """Faults of the import of damaged films, a line for each, and the number of films that are refused."""
    wrong, refused = list[str](), 0
    videos = [name for name in FILMS if not name.endswith(".tif")]
    stacks = [name for name in FILMS if name.endswith(".tif")]
    signal.signal(signal.SIGALRM, _stop)
    for seed in range(count):
        rng = random.Random(f"film {seed}")
        name = rng.choice(stacks if seed % _VIDEOS else videos)
        raw, how = damaged(name, rng)
        (folder / name).write_bytes(raw)
        before = _peak()
        signal.alarm(_LIMIT)
        said = _imported(folder / name)
        signal.alarm(0)
        told = [said] if said and not said.startswith(_REFUSED) else []
        refused += said.startswith(_REFUSED)
        if said.startswith(_REFUSED) and ("\n" in said or len(said) > 300 or name not in said):
            told.append(f"no readable sentence: {said!r}")
        if _peak() - before > _MOST_BYTES:
            told.append(f"takes {(_peak() - before) / 1e9:.1f} GB")
        if {path.name for path in folder.iterdir()} != {name} or (folder / name).read_bytes() != raw:
            told.append("leaves other files than it found")
        wrong += [f"film {seed}, {name}, {how}: {fault}" for fault in told]
        (folder / name).unlink()
    return wrong, refused


_REFUSED = "refused: "


def _imported(file: Path) -> str:
    """Import a film: why it was refused, what is wrong, or nothing."""
    out = file.with_name("data.h5")
    try:
        run_import(["film", str(file), f"out={out}", "scale=unknown"], Console(file=io.StringIO()))
    except PdefitError as error:
        return f"{_REFUSED}{error}"
    # anything else is a traceback or a hang for a user
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    with h5py.File(out) as recording:
        values, times = recording["intensity"][()], recording["time"][()]
    out.unlink()
    is_sane = values.size and values.ndim == 3 and len(values) == len(times) and np.all(np.diff(times) > 0)
    return "" if is_sane and not np.isinf(values).any() else f"values {values.dtype} of shape {values.shape}"


def _peak() -> float:
    """The most bytes of memory that this process has had."""
    return _KILO * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _stop(*_: object) -> None:
    raise TimeoutError(f"longer than {_LIMIT} s")
