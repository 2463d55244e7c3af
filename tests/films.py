"""Films of every shape for the tests of what reads and draws them."""

from collections.abc import Collection
from pathlib import Path

import numpy as np

from pdefit._util.atomic import write_json
from pdefit.output.store.fields import FieldsFile
from pdefit.systems.coordinates import FieldCoords

NUMBER = FieldCoords((), {}, "1", "population")
LINE = FieldCoords(("s",), {"s": np.linspace(-1.0, 1.0, 33)}, "mV", "voltage", {"s": "mm"})
PLANE = FieldCoords(("x", "y"), {"x": np.arange(24.0), "y": np.arange(17.0)}, "K", "heat", {"x": "mm", "y": "mm"})
STRIP = FieldCoords(("a", "b"), {"a": np.arange(60.0), "b": np.arange(6.0)}, "K", "heat", {"a": "mm", "b": "mm"})
CELL = FieldCoords(("x", "y"), {"x": np.zeros(1), "y": np.zeros(1)}, "K", "heat", {"x": "mm", "y": "mm"})
UNEVEN = FieldCoords(
    ("p", "q"), {"p": np.arange(9.0) ** 2, "q": np.arange(7.0)}, "K", "heat", {"p": "mm", "q": "mm"}
)  # fmt: skip
BOX = FieldCoords(
    ("i", "j", "k"), {"i": np.arange(6.0), "j": np.arange(5.0), "k": np.arange(4.0)}, "1", "density",
    {"i": "mm", "j": "mm", "k": "mm"},
)  # fmt: skip
SPHERE = FieldCoords(
    ("colatitude", "longitude"), {"colatitude": np.linspace(0.1, 3.0, 9), "longitude": np.linspace(0.0, 6.0, 12)}, "m",
    "height", {"colatitude": "rad", "longitude": "rad"}, radius=2.0, view="sphere",
)  # fmt: skip
BODIES = FieldCoords(
    ("body", "axis"), {"body": np.asarray(["Sun", "Venus", "Ceres <1>"]), "axis": np.asarray(["x", "y", "z"])}, "au"
)  # fmt: skip
SPECIES = FieldCoords(("species",), {"species": np.asarray(["fox", "hare"])}, "1", "number")
# a scalar at the centres of cells, and a vector on their faces: periodic along x, between walls along z
_AT = {
    "x": (np.arange(12) + 0.5) / 6,
    "z": (np.arange(8) + 0.5) / 8,
    "x_face": np.arange(12) / 6,
    "z_face": np.arange(1, 8) / 8,
}


def _staggered(dims: tuple[str, ...], unit: str, name: str, component: str = "") -> FieldCoords:
    where = {d: _AT[d] for d in dims}
    return FieldCoords(dims, where, unit, name, dict.fromkeys(dims, "mm"), "velocity" if component else "", component)


STAGGERED = {
    "T": _staggered(("x", "z"), "K", "temperature"),
    "u": _staggered(("x_face", "z"), "mm/s", "velocity along x", "x"),
    "w": _staggered(("x", "z_face"), "mm/s", "velocity along z", "z"),
}
SCALARS = {name: FieldCoords((), {}) for name in ("nusselt_top", "nusselt_bottom", "reynolds")}
ALL = {
    "number": NUMBER, "line": LINE, "plane": PLANE, "strip": STRIP, "uneven": UNEVEN, "box": BOX, "sphere": SPHERE,
    "position": BODIES, "species": SPECIES, "cell": CELL,
}  # fmt: skip
KINDS = ("observed", "predicted", "true")


def shape_of(where: FieldCoords) -> tuple[int, ...]:
    return tuple(where.coords[d].size for d in where.dims)


def wave(where: FieldCoords, t: float, shift: float = 0.0) -> np.ndarray:
    """A wave along the first axis, in every other point the same."""
    shape = shape_of(where)
    along = np.linspace(0, 6, shape[0]).reshape(-1, *[1] * (len(shape) - 1)) if shape else np.zeros(())
    return np.broadcast_to(np.sin(along - t - shift), shape).copy()


def write_film(
    path: Path,
    fields: dict[str, FieldCoords],
    frames: int = 6,
    fitted: int | None = None,
    kinds: tuple[str, ...] = KINDS,
    values=None,
    total: int | None = None,
    dtype: str = "float64",
    diagnostics: dict[str, FieldCoords] | None = None,
    derived: Collection[str] = (),
) -> Path:
    """Write a fields.h5; `values(field, kind, frame)` replaces the waves, `total` announces more frames than there are."""
    total = total or frames
    path.parent.mkdir(parents=True, exist_ok=True)
    ts = np.arange(total) * 0.5
    phase = (np.arange(total) >= (total if fitted is None else fitted)).astype(np.int8)
    rng = np.random.default_rng(0)
    shifts = {"true": 0.0, "predicted": 0.05, "observed": 0.0}
    scalars = diagnostics or {}
    have = dict.fromkeys(fields, kinds) | dict.fromkeys(scalars, tuple(k for k in kinds if k != "observed"))
    fields = fields | scalars
    with FieldsFile(path, ts, "s", fields, have, dtype, phase, "test/film", scalars, derived) as film:
        for i in range(frames):
            row = {}
            for name, where in fields.items():
                for kind in have[name]:
                    frame = wave(where, ts[i], shifts[kind]) if values is None else values(name, kind, i)
                    noise = 0.02 * rng.standard_normal(frame.shape) if kind == "observed" and values is None else 0.0
                    row[f"{name}_{kind}"] = frame + noise
            film.append(row)
    return path


def write_run(folder: Path, fields: dict[str, FieldCoords], name: str = "test/run", **film) -> Path:
    """The directory of a simulation."""
    write_film(folder / "fields.h5", fields, **film)
    write_json(
        folder / "provenance.json",
        {"experiment": name, "command": ["pdefit", "simulate", f"experiment={name}"], "started": "2026-01-01T00:00:00"},
    )
    write_json(folder / "summary.json", {"experiment": name, "status": "done", "time_unit": "s"})
    (folder / "DONE").touch()
    return folder
