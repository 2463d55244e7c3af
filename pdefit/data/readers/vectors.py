"""Plane vectors among the variables of a data file: their displacements, and the order of their components."""

import dataclasses

import numpy as np

from pdefit._util.errors import PdefitError
from pdefit.data.readers.survey import AXES, Film, Survey, is_even
from pdefit.data.units import conversion

_PAIRS = (("u", "v"), ("vx", "vy"), ("ux", "uy"), ("v_x", "v_y"), ("u_x", "u_y"), ("velocity_x", "velocity_y"))
# most frames from which derivatives are taken
_MOST = 5
# a divergence smaller than that as given by this factor is told; below it, one is small by itself
_SMALLER = 0.5


@dataclasses.dataclass(frozen=True)
class Vectors:
    """Two components of a vector on a grid in the plane.

    **Arguments:**

    - `names`: the names of the components in the file, along x and along y.
    - `film`: the variable of the first component, with the grid and positions of both.
    - `unit`: the unit of the components.
    - `factor`: from that unit to the unit of positions per unit of time; None if either is not stated.
    """

    names: tuple[str, str]
    film: Film
    unit: str | None
    factor: float | None


def vectors_of(found: Survey) -> Vectors | None:
    """Vectors in a file, as two variables or as an axis of components; None without any."""
    planar = {film.name: film for film in found.films if len(film.grid) == 2 and film.dims == AXES}
    for name, film in planar.items():
        if film.components == 2:
            return _vectors(found, (f"{name}[0]", f"{name}[1]"), film)
        base, _, entry = name.partition("[")
        other = next((n for n in planar if n.startswith(f"{base}[") and n != name), None) if entry else None
        if other is not None:
            return _vectors(found, (name, other), film)
        folder, cut, last = name.rpartition("/")
        second = f"{folder}{cut}{dict(_PAIRS).get(last)}"
        if second in planar and planar[second].grid == film.grid:
            return _vectors(found, (name, second), film)
    return None


def _vectors(found: Survey, names: tuple[str, str], film: Film) -> Vectors:
    entry = found.entries.get(names[0]) or found.entries[names[0].partition("[")[0]]
    lengths = {where.unit for where in film.positions.values()} if len(film.positions) == 2 else set()
    length = lengths.pop() if len(lengths) == 1 else None
    factor = None
    if entry.unit not in (None, "", "1") and length not in (None, "", "1") and found.time_unit:
        try:
            factor = conversion(entry.unit, f"{length}/{found.time_unit}").factor
        # vectors of something else than a velocity
        except PdefitError:
            pass
    return Vectors(names, film, entry.unit, factor)


def about_vectors(found: Survey, vectors: Vectors) -> str:
    """Speed in cells per frame, and the divergence as given, with components exchanged, and with one axis reversed.

    The divergence is relative to the divergence of unrelated components: small for a flow in the plane.
    """
    film, names = vectors.film, vectors.names
    numbers = np.unique(np.linspace(0, found.ts.size - 1, _MOST).astype(int))
    with found.frames(names, film.dims, crop=film.crop) as frames:
        parts = [frames.arrays(i, i + 1)[0] for i in numbers]
    u, v = (np.concatenate([part[name] for part in parts]) for name in names)
    stated = [film.positions.get(dim) for dim in ("x", "y")]
    where = [np.arange(float(n)) if p is None else p.values for p, n in zip(stated, film.grid, strict=True)]
    if min(film.grid) < 3 or not all(is_even(x) for x in where):
        return ""
    steps = [float(x[1] - x[0]) for x in where]
    (ux, uy), (vx, vy) = (np.gradient(w, *steps, axis=(1, 2)) for w in (u, v))
    ratios = [_relative(a, b) for a, b in ((ux, vy), (vx, uy), (ux, -vy))]
    if not np.all(np.isfinite(ratios)):
        return ""
    given, exchanged, turned = (f"{ratio:.0%}" for ratio in ratios)
    text = (
        f"divergence, relative to that of independent components: {given} as given, {exchanged} with components exchanged, "
        f"{turned} with one axis turned round"
    )
    best = int(np.argmin(ratios))
    if max(ratios[:2]) < _SMALLER:
        text += "; this does not tell whether components are exchanged"
    elif best and ratios[best] < _SMALLER * ratios[0]:
        text += "; " + ("exchange them?" if best == 1 else "negate one of them?")
    if vectors.factor is not None and found.ts.size > 1:
        cells = vectors.factor * float(np.median(np.diff(found.ts))) * np.hypot(u / steps[0], v / steps[1])
        text = f"{np.nanmedian(cells):.2g} cells a frame, {np.nanmax(cells):.2g} at most; {text}"
    return f"{names[0]}, {names[1]}: {text}"


def _relative(a: np.ndarray, b: np.ndarray) -> float:
    known = np.isfinite(a) & np.isfinite(b)
    both = np.sum(a[known] ** 2 + b[known] ** 2)
    return float(np.sqrt(np.sum((a + b)[known] ** 2) / both)) if both > 0 else np.nan
