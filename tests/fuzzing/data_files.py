"""Random damage to a laboratory's files: HDF5, MATLAB, NumPy and CSV."""

import functools
import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import scipy.io

from fuzzing.configurations import flipped

FRAMES, CELLS = 8, 40
TIME = np.linspace(0.0, 7.0, FRAMES)
U = 0.5 + 0.1 * np.sin(TIME)[:, None] * np.linspace(0.5, 1.0, CELLS)
FILM = ("~twin", "noise=0", "+data.path=film.h5", "+data.variables.u=u", "+data.sigma.u=noise")


def film(path: Path) -> None:
    """A good film with its noise and units."""
    with h5py.File(path, "w") as file:
        file["time"], file["u"], file["noise"] = TIME, U, np.full(CELLS, 0.1)
        file["time"].attrs["units"], file["u"].attrs["units"] = "s", "1"
        file.create_dataset("extra", data=U, chunks=(2, 10), compression="gzip")


def damage(path: Path, rng: random.Random) -> str:
    """Make a film at `path` and damage it; says how."""
    film(path)
    if rng.random() < 0.4:
        return _bytes(path, rng)
    change = rng.choice(_CHANGES)
    with h5py.File(path, "r+") as file:
        name = rng.choice(["time", "u", "u", "noise"])
        change(file, name, rng)
    return f"{change.__name__} of {name}"


def _bytes(path: Path, rng: random.Random) -> str:
    raw = path.read_bytes()
    how = rng.choice(["cut", "bit", "bits", "burst", "tail", "block"])
    at = rng.randrange(len(raw))
    if how == "cut":
        raw = raw[:at]
    elif how == "tail":
        raw += bytes(rng.randrange(256) for _ in range(100))
    elif how == "block":
        raw = raw[:at] + bytes(rng.choice([0, 255]) for _ in range(16)) + raw[at + 16 :]
    else:
        raw = flipped(raw, rng, {"bit": 1, "bits": 20, "burst": 200}[how])
    path.write_bytes(raw)
    return f"{how} at {at}"


def _set(file: Any, name: str, value: Any, **options: Any) -> Any:
    if name in file:
        del file[name]
    return file.create_dataset(name, data=value, **options)


def dtype(file: Any, name: str, rng: random.Random) -> None:
    old = np.asarray(file[name])
    kinds: list[Callable[[], Any]] = [
        lambda: old.astype("f2"),
        lambda: old.astype(">f4"),
        lambda: old.astype("i1"),
        lambda: old.astype("u8"),
        lambda: old.astype(bool),
        lambda: old.astype(complex),
        lambda: old.astype("S5"),
        lambda: np.full(old.shape, "ü", object),
        lambda: np.full(old.shape, 1, [("a", "f8"), ("b", "i4")]),
        lambda: old.astype("V8"),
        lambda: old.astype(np.longdouble),
        lambda: np.full(old.shape, b"\xff\xfe"),
    ]
    special = {
        "enum": h5py.enum_dtype({"A": 0, "B": 1}, basetype="i1"),
        "ref": h5py.ref_dtype,
        "region": h5py.regionref_dtype,
        "vlen": h5py.vlen_dtype("f8"),
        "opaque": h5py.opaque_dtype(np.dtype("M8[s]")),
        "array": np.dtype(("f8", (3,))),
        "text": h5py.string_dtype(),
    }
    if rng.random() < 0.4:
        del file[name]
        file.create_dataset(name, old.shape, special[rng.choice(sorted(special))])
    else:
        _set(file, name, rng.choice(kinds)())


def shape(file: Any, name: str, rng: random.Random) -> None:
    old = np.asarray(file[name])
    shapes = [
        old.T,
        old[:0],
        old[:1],
        old[:3],
        old[None],
        old[..., None],
        old.ravel(),
        old[:, None],
        1.0,
        np.zeros(0),
        np.zeros((8, 0)),
        np.zeros((0, 40)),
        h5py.Empty("f8"),
        np.zeros((1,) * 32),
        np.zeros((8, 41)),
        [[1.0]],
    ]
    _set(file, name, rng.choice(shapes))


def values(file: Any, name: str, rng: random.Random) -> None:
    new = np.array(file[name], float)
    bad = rng.choice([np.nan, np.inf, -np.inf, 0.0, -1.0, 1e308, -1e308, 1e-308, 1e30, 9.969209968386869e36])
    where = rng.choice([slice(None), slice(0, 1), slice(-1, None), slice(3, 5), slice(None, None, 2)])
    new[where] = bad
    _set(file, name, new)


def number(file: Any, name: str, rng: random.Random) -> None:
    _set(file, name, rng.choice([1, 0.0, "text", b"bytes", True, np.nan, 10**18]))


def enormous(file: Any, name: str, rng: random.Random) -> None:
    del file[name]
    sizes = [(10**12,), (8, 10**11), (10**6, 10**6, 10**6), (8, 2**40), (10**10, 40), (2**60,)]
    file.create_dataset(name, rng.choice(sizes), rng.choice(["f8", "i1"]), chunks=rng.choice([True, None]))


def link(file: Any, name: str, rng: random.Random) -> None:
    del file[name]
    target: Any = rng.choice(
        [
            h5py.SoftLink("/nowhere"),
            h5py.SoftLink(f"/{name}"),
            h5py.SoftLink("/"),
            h5py.SoftLink("/extra"),
            h5py.ExternalLink("/etc/passwd", "/"),
            h5py.ExternalLink("film.h5", f"/{name}"),
            h5py.ExternalLink("other.h5", "/u"),
            h5py.ExternalLink("film.h5", "/extra"),
        ]
    )
    file[name] = target


def foreign_bytes(file: Any, name: str, rng: random.Random) -> None:
    del file[name]
    file.create_dataset(name, (8, 40), "i1", external=[(rng.choice(["/etc/passwd", "/dev/zero", "none.raw"]), 0, 320)])


def virtual(file: Any, name: str, rng: random.Random) -> None:
    del file[name]
    layout = h5py.VirtualLayout((8, 40), "f8")
    layout[:] = h5py.VirtualSource(
        rng.choice(["other.h5", ".", "film.h5", "/etc/passwd"]), rng.choice(["u", name]), (8, 40)
    )
    file.create_virtual_dataset(name, layout)


def group(file: Any, name: str, rng: random.Random) -> None:
    del file[name]
    file.create_group(name)
    if rng.random() < 0.5:
        file[f"{name}/u"] = U
    if rng.random() < 0.3:
        file[f"{name}/again"] = file["/"]


def named_type(file: Any, name: str, rng: random.Random) -> None:
    del file[name]
    file[name] = np.dtype("f8")


def unit(file: Any, name: str, rng: random.Random) -> None:
    for key in ("units", "unit"):
        file[name].attrs.pop(key, None)
    words: list[Any] = [
        "",
        "mm",
        "days since 1970-01-01",
        "1e400",
        "m" * 500,
        "((((",
        "10**10**10",
        b"\xff\xfe",
        3,
        1.5,
        [1, 2],
        ["s", "s"],
        np.nan,
        "ü",
        "degC",
        "%",
        "0",
        "-1",
        "nan",
        "inf",
        "km/s/Mpc",
        "dB",
        "\x01",
        True,
        h5py.Empty("f8"),
        h5py.Empty("S1"),
        file.ref,
        np.zeros((2, 2)),
        np.array(1, [("a", "f8")]),
    ]
    file[name].attrs[rng.choice(["units", "unit"])] = rng.choice(words)


def packed(file: Any, name: str, rng: random.Random) -> None:
    words: list[Any] = [
        0.1, 0, -1, np.nan, np.inf, 1e308, np.int8(-1), np.uint64(2**64 - 1), [1, 2], [2, 1], [1, 2, 3], [np.nan, 1], "0.1",
        "true", b"\xff", h5py.Empty("f8"), h5py.Empty("S1"), True, file.ref, 1j, np.zeros((0,)), np.array(1, [("a", "f8")]),
        np.float16(0.5), np.longdouble(3),
    ]  # fmt: skip
    keys = [
        "scale_factor",
        "add_offset",
        "_FillValue",
        "missing_value",
        "valid_range",
        "valid_min",
        "valid_max",
        "_Unsigned",
    ]
    if rng.random() < 0.5:
        units = {key: value for key, value in file[name].attrs.items() if key == "units"}
        _set(
            file,
            name,
            (np.asarray(file[name]) * 100).astype(rng.choice(["i1", "u1", "i2", ">i4", "u8", "f2", ">f4", "?"])),
        )
        file[name].attrs.update(units)
    for key in rng.sample(keys, rng.randint(1, 3)):
        file[name].attrs[key] = rng.choice(words)


def coordinates(file: Any, name: str, rng: random.Random) -> None:
    x = np.arange(CELLS) + 0.5
    kinds: list[Any] = [
        x, x - 0.5, x[::-1], x * 1000, x.astype("f2"), x.astype("i4"), x[:5], x[:, None], x * np.nan, np.zeros(CELLS), 1.0,
        x.astype("S5"), x.astype(complex), h5py.Empty("f8"), np.where(x > 9, np.inf, x), 1e300 * x, np.zeros(CELLS, bool),
    ]  # fmt: skip
    called = rng.choice(["x", "x", "x", "X", "lon", "g/x", "ü"])
    file[called] = rng.choice(kinds)
    for key, value in (("units", ["mm", "um", "s", "", 3, b"\xff"]), ("axis", ["X", "Y", b"x", 3, file.ref, ""])):
        if rng.random() < 0.5:
            file[called].attrs[key] = rng.choice(value)
    if rng.random() < 0.7 and file["u"].ndim > 1 and file[called].shape is not None:
        file[called].make_scale(rng.choice(["", called, "This is a netCDF dimension but not a netCDF variable"]))
        file["u"].dims[rng.randrange(file["u"].ndim)].attach_scale(file[called])
        if rng.random() < 0.3:
            del file[called]
        elif rng.random() < 0.2:
            file["u"].attrs["DIMENSION_LIST"] = rng.choice([3, "x", file.ref, np.zeros(2)])
    if rng.random() < 0.2 and "x" not in file:
        file["x"] = h5py.ExternalLink("other.h5", "/u")


def filtered(file: Any, name: str, rng: random.Random) -> None:
    old = np.asarray(file[name])
    options = rng.choice([{"compression": "lzf"}, {"compression": "gzip", "shuffle": True}, {"fletcher32": True}])
    _set(file, name, old, chunks=True, **options)
    offset = file[name].id.get_chunk_info(0).byte_offset
    file.flush()
    with open(file.filename, "r+b") as raw:
        raw.seek(offset)
        raw.write(bytes(rng.randrange(256) for _ in range(rng.choice([1, 16]))))


def renamed(file: Any, name: str, rng: random.Random) -> None:
    file.move(name, rng.choice(["U", "ü", "a/b/c", "u ", "x" * 300, "Time", "." * 3]))


_CHANGES = [
    dtype,
    dtype,
    shape,
    shape,
    values,
    number,
    enormous,
    link,
    foreign_bytes,
    virtual,
    group,
    named_type,
    unit,
    unit,
    packed,
    packed,
    coordinates,
    coordinates,
    filtered,
    renamed,
]


@functools.cache
def foreign(kind: str) -> bytes:
    """A good film as MATLAB, NumPy or a table of points would write it."""
    content = {"time": TIME, "u": U.T, "x": np.arange(CELLS) + 0.5, "name": np.array(["film"])}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"film.{kind.split()[-1]}"
        if kind in ("packed mat", "mat"):
            extra = {"s": {"a": U}, "c": np.array([1, "b"], object)}
            scipy.io.savemat(path, content | extra, do_compression=kind != "mat")
        elif kind == "4 mat":
            scipy.io.savemat(path, {k: v for k, v in content.items() if k != "name"}, format="4")
        elif kind == "7.3 mat":
            with h5py.File(path, "w", userblock_size=512) as file:
                for name, values in content.items():
                    if name != "name":
                        file[name] = np.atleast_2d(values).T
                        file[name].attrs["MATLAB_class"] = np.bytes_("double")
            raw = path.read_bytes()
            path.write_bytes(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM" + raw[128:])
        elif kind == "npz":
            np.savez_compressed(path, **content)
        else:
            rows = np.column_stack([np.repeat(TIME, CELLS), np.tile(content["x"], FRAMES), U.ravel()])
            np.savetxt(path, rows, delimiter=",", header="time,x,u", comments="")
        return path.read_bytes()


FOREIGN = ("mat", "packed mat", "4 mat", "7.3 mat", "npz", "csv")


def damaged_foreign(rng: random.Random) -> tuple[str, bytes, str]:
    """The name of a file, its damaged content, and how it was damaged."""
    kind = rng.choice(FOREIGN)
    raw, how = foreign(kind), rng.choice(["cut", "bit", "bits", "burst", "header", "block", "suffix"])
    suffix = kind.split()[-1]
    at = rng.randrange(len(raw)) if rng.random() < 0.5 else rng.randrange(min(len(raw), 700))
    if how == "cut":
        raw = raw[:at]
    elif how == "header":
        raw = bytes(rng.randrange(256) for _ in range(rng.choice([4, 128, 256]))) + raw[256:]
    elif how == "block":
        raw = raw[:at] + bytes(rng.choice([0, 255]) for _ in range(16)) + raw[at + 16 :]
    elif how == "suffix":
        suffix = rng.choice(["mat", "npz", "csv", "h5", "dat"])
    else:
        raw = raw[:at] + flipped(raw[at : at + 200], rng, {"bit": 1, "bits": 8, "burst": 80}[how]) + raw[at + 200 :]
    return f"film.{suffix}", raw, f"{kind}: {how} at {at}"


def damaged_table(text: str, rng: random.Random) -> tuple[bytes, str]:
    """A CSV table with something wrong."""
    raw, at = text.encode(), rng.randrange(len(text))
    pieces = [
        b"\x00",
        b"\xff",
        b'"',
        b",",
        b",,,,",
        b"\n",
        b"\r",
        b"nan",
        b"inf",
        b"1e999",
        b"x",
        "ü".encode(),
        b"\xef\xbb\xbf",
        b";",
        b"9" * 200000,
        b"1_0",
    ]
    piece = rng.choice(pieces)
    lines = text.splitlines(keepends=True)
    ways: list[tuple[bytes, str]] = [
        (raw[:at], f"cut at {at}"),
        (raw[:at] + piece + raw[at:], f"{piece[:20]!r} at {at}"),
        (flipped(raw, rng, rng.choice([1, 3, 30])), "bits flipped"),
        (b"", "empty"),
        (b"\n" * 10, "blank"),
        (lines[0].encode(), "header alone"),
        ("".join(lines[1:]).encode(), "no header"),
        (text.replace(",", ";").encode(), "semicolons"),
        (text.encode("utf-16"), "utf-16"),
        ("".join(lines + lines[1:]).encode(), "rows twice"),
    ]
    return rng.choice(ways)
