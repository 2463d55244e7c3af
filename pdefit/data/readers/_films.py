"""A variable of a data file as seen by a fit: range, noise, positions, and remarks."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from pdefit._util.errors import PdefitError
from pdefit.data.noise import NoiseEstimate, estimate_noise
from pdefit.data.observations import Observations
from pdefit.data.readers._beside_values import Coordinate
from pdefit.data.readers.frames import Frames
from pdefit.data.readers.odd_values import (
    about_drift,
    about_ends,
    about_first_frame,
    about_frames,
    about_piles,
    about_pixels,
    inner_part,
)
from pdefit.data.readers.source import DataSource, Wanted
from pdefit.data.readers.variable import DataFile, Variable

# names of the axes of a grid
AXES = ("x", "y", "z")
# names of the angles on a sphere
ANGLES = ("theta", "phi")
# values that are looked at, and those from which noise is estimated
_MOST, _MOST_OF_NOISE = 16_000_000, 2_000_000


@dataclasses.dataclass(frozen=True)
class Film:
    """A variable that a fit can use, with values at every time.

    **Arguments:**

    - `name`, `shape`: the name of the variable, and the shape of one frame.
    - `grid`: the part of this shape along spatial axes, without a last axis of named entries, such as components. Empty
      for separate points.
    - `low`, `high`, `missing`: the range of its values in the unit of the file, and the missing fraction.
    - `noise`: the estimate for `sigma: auto`; None without an estimate.
    - `positions`: the positions stated in the file, by axis of a grid.
    - `coordinates`: variables with positions whose names a fit must be told, by axis.
    - `remarks`: sentences about suspicious values.
    - `sigma`: a variable that seems to hold its standard deviation.
    - `dims`: the names of its spatial axes: axes of a grid, or angles on a sphere.
    - `components`: the length of a last axis of nameless components; 0 without one.
    - `crop`: for each axis of the grid the range with values, if the outermost points never have any. `grid` and
      `positions` refer to this range.
    - `moves`: whether its points move, so that a place in the list has no time series.
    """

    name: str
    shape: tuple[int, ...]
    grid: tuple[int, ...]
    low: float
    high: float
    missing: float
    noise: NoiseEstimate | None
    positions: dict[str, Coordinate]
    coordinates: dict[str, str]
    remarks: tuple[str, ...]
    sigma: str | None = None
    dims: tuple[str, ...] = AXES
    components: int = 0
    crop: tuple[tuple[int, int], ...] = ()
    moves: bool = False


def measured(films: Sequence[Film]) -> list[Film]:
    """Films that are neither standard deviations nor counts of other films."""
    sigmas = {film.sigma for film in films} - {None}
    left = {*sigmas, *(["count"] if sigmas else [])}
    return [film for film in films if not {film.name, film.name.rpartition("/")[2]} & left]


def read_film(file: DataFile, source: DataSource, dims: tuple[str, ...] = AXES) -> Film:
    """A variable with its statistics. For a large one only the first frames are read.

    **Arguments:**

    - `file`, `source`: an open file, and the one variable in it.
    - `dims`: the names of the spatial axes.

    **Errors:** PdefitError if a fit would refuse the variable.
    """
    (name,), remarks = source.variables, list[str]()
    with Frames(source, Wanted(dims=dims), file=file) as frames:
        remarks += frames.remarks
        inside, step, total = frames.shapes[name], frames.step(name), frames.ts.size
        size = int(np.prod(inside))
        if size == 0:
            raise PdefitError(
                f"'{name}' in '{file.path.name}' has frames of shape {inside}, which hold no value; name another"
            )
        count = min(total, max(_MOST // size, 2))
        values = frames.arrays(0, count)[0][name]
        variable = frames.file[name]
        coordinates = _coordinates(variable, dims)
        positions = _positions(frames, dims, name, len(inside), coordinates, remarks)
        # a list of points that no axis can hold
        points = dict(frames.points) or _moving(frames.file, variable, dims)
        scattered = len(points) > 1 or (bool(points) and not positions)
        if scattered:
            coordinates, positions = points, {}
        places = [frames.file[where].array() for where in points.values()] if scattered else []
        moves = any(x.ndim > 1 and not np.array_equal(x[1:], x[:-1], equal_nan=True) for x in places)
    seen = np.isfinite(values)
    if not seen.any():
        raise PdefitError(
            f"All values of '{name}' in '{file.path.name}' are missing (NaN), or fill values, or outside of the valid range; "
            f"name another variable, or correct its attributes"
        )
    if count < total:
        remarks.append(f"Only the first {count} of {total} frames of '{name}' were looked at, since it is large")
    known, top = values[seen], np.inf if step is None else float(np.iinfo(variable.stored.dtype).max)
    low, high, missing = float(known.min()), float(known.max()), 1 - known.size / values.size
    remarks += about_frames(name, values.reshape(count, -1)) + about_piles(name, known, top)
    if step is not None:
        remarks += about_drift(name, values.reshape(count, -1))
        remarks.append(
            f"'{name}' holds whole numbers up to {high:g} without a scale; give it the attribute scale_factor, write the model "
            f"in counts, or let observe: {{name: camera, gain: ..., offset: ...}} make counts of the model's fields"
        )
    noise = None
    try:
        some = values.reshape(count, -1)[:, :: -(-values.size // _MOST_OF_NOISE)]
        noise = None if moves else estimate_noise(Observations.build(frames.ts[:count], {name: some}), name)
    except PdefitError as error:
        remarks.append(str(error))
    # a last axis as long as there are others, without positions of its own
    last = dims[len(inside) - 1] if len(inside) <= len(dims) else None
    has_components, entries = _has_components(frames.file, variable), (0, *inside)[-1]
    bare = len(inside) > 2 and entries == len(inside) - 1 and last not in positions
    components = entries if bare and not has_components and not scattered else 0
    if components:
        remarks.append(
            f"The last axis of '{name}' has {components} entries and no positions, so it is taken for components: "
            f"'{name}[0]' to '{name}[{components - 1}]'"
        )
    grid = () if scattered else inside[: len(inside) - (has_components or components > 0)]
    order = dims[: len(grid)]
    if positions and dims == AXES and len({*grid}) < len(grid) and not (file.is_foreign or any(variable.labels)):
        remarks.append(
            f"'{name}' names no axes, of which some are equally long, so their order is open: time, {', '.join(order)} is "
            f"taken; if the file has another one, state that (data.axes)"
        )
    ends = [about_ends(name, values, i, dims[i - 1]) for i in range(1, 1 + len(grid)) if len(grid) <= len(dims)]
    remarks += [remark for remark in ends if remark]
    ever = np.asarray(seen.any(axis=0))
    remarks += about_first_frame(name, values) if grid else []
    remarks += about_pixels(name, values) if len(inside) == len(grid) == 2 and dims == AXES else []
    crop = inner_part(ever, len(grid)) if 1 <= len(grid) <= len(dims) and dims == AXES else ()
    if crop:
        grid = tuple(stop - start for start, stop in crop)
        inner = {dim: slice(*ends) for dim, ends in zip(dims, crop, strict=False)}
        positions = {dim: where._replace(values=where.values[inner[dim]]) for dim, where in positions.items()}
        remarks.append(
            f"The outermost points of '{name}' never have a value; leave them out (data.crop={[list(ends) for ends in crop]})"
        )
    return Film(
        name, inside, grid, low, high, missing, noise, positions, coordinates, tuple(remarks), None, dims, components, crop,
        moves,
    )  # fmt: skip


def _moving(file: DataFile, variable: Variable, dims: tuple[str, ...]) -> dict[str, str]:
    """Variables with the coordinates of a variable's points at every time, by axis."""
    beside = {dim: f"{variable.name.rpartition('/')[0]}/{dim}".strip("/") for dim in dims}
    is_line = len(variable.shape) == 2
    return {
        dim: where for dim, where in beside.items() if is_line and where in file and file[where].shape == variable.shape
    }


def _has_components(file: DataFile, variable: Variable) -> bool:
    """True if the entries along the last of several axes have names."""
    scales = variable.scales[-1] if variable.scales else ()
    return len(variable.shape) > 2 and bool(scales) and file[scales[0].name].stored.dtype.kind not in "iuf"


def _coordinates(variable: Variable, dims: tuple[str, ...]) -> dict[str, str]:
    """Dimension scales with names that differ from the grid's, by axis; a fit must be told of them."""
    along = variable.scales[1:] if len(variable.shape) <= 1 + len(dims) else ()
    first = [(dim, scales[0]) for dim, scales in zip(dims, along, strict=False) if scales]
    return {dim: scale.name for dim, scale in first if scale.has_positions and scale.label not in dims}


def _positions(
    frames: Frames, dims: tuple[str, ...], name: str, axes: int, named: dict[str, str], remarks: list[str]
) -> dict[str, Coordinate]:
    """Positions along the axes of a variable, in the unit of the file, with a remark if a fit would refuse them."""
    found: dict[str, Coordinate] = {}
    for i, dim in enumerate(dims[:axes] if axes <= len(dims) else (), 1):
        try:
            where = frames.coordinate(name, i, dims[:axes], named, None)
        except PdefitError as error:
            remarks.append(str(error))
            continue
        if where is not None:
            found[dim] = where
    return found
