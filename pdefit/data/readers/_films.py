"""A variable of a data file as a fit would find it: range, noise, positions, and what looks odd."""

import dataclasses
from collections.abc import Mapping

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
    about_piles,
    about_pixels,
    inner_part,
)
from pdefit.data.readers.variable import DataFile, Variable

# names of the axes of a grid
AXES = ("x", "y", "z")
# names of the angles on a sphere
ANGLES = ("theta", "phi")
# values that are looked at, at a time and in all; and those from which noise is estimated
_BLOCK, _MOST, _MOST_OF_NOISE = 4_000_000, 64_000_000, 2_000_000
# frames in which single points are compared
_SPREAD = 8


@dataclasses.dataclass(frozen=True)
class Film:
    """A variable that a fit would take: values at every time.

    **Arguments:**

    - `name`, `shape`: of the variable, and the shape of one frame.
    - `grid`: the part of this shape along axes in space: without a last axis whose entries have names, such as components.
      Empty for points of their own.
    - `low`, `high`, `missing`: range of its values in the unit of the file, and the fraction that is missing.
    - `noise`: the estimate of `sigma: auto`; None where there is none.
    - `positions`: those that the file states, by axis of a grid.
    - `coordinates`: variables that hold them under names that a fit must be told, by axis.
    - `remarks`: sentences about what looks odd.
    - `sigma`: a variable that seems to hold its standard deviation.
    - `dims`: names of its axes in space: those of a grid, or angles on a sphere.
    - `components`: the length of a last axis of components without names; 0 where there is none.
    - `crop`: for each axis of the grid the part with values, where the outermost points never have one. `grid` and
      `positions` are those of this part.
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


@dataclasses.dataclass
class _Counts:
    """Counts over the frames that were read.

    **Arguments:**

    - `still`, `flat`: frames that equal the one before, and frames with one value everywhere.
    - `missing`: values that are NaN.
    - `lows`, `highs`: range of each block.
    - `means`: of each frame.
    """

    still: int = 0
    flat: int = 0
    missing: int = 0
    lows: list[float] = dataclasses.field(default_factory=list)
    highs: list[float] = dataclasses.field(default_factory=list)
    means: list[float] = dataclasses.field(default_factory=list)

    def add(self, values: np.ndarray, before: np.ndarray) -> None:
        """Count frames (n, points), after the frame `before` (0 or 1, points)."""
        finite, both = np.isfinite(values), np.concatenate([before, values])
        known = values[finite]
        self.still += int(np.sum(np.all(both[1:] == both[:-1], axis=1)))
        self.flat += int(np.sum(np.all(values == values[:, :1], axis=1))) if values.shape[1] > 1 else 0
        with np.errstate(invalid="ignore"):
            self.means += (np.where(finite, values, 0.0).sum(axis=1) / finite.sum(axis=1)).tolist()
        self.missing += values.size - known.size
        if known.size:
            self.lows.append(float(known.min()))
            self.highs.append(float(known.max()))


def read_film(
    file: DataFile,
    name: str,
    time: str,
    select: Mapping[str, str | int] | None = None,
    dims: tuple[str, ...] = AXES,
    named: Mapping[str, str] | None = None,
) -> Film:
    """A variable with its statistics. Of a large one only the first frames are read.

    **Arguments:**

    - `file`, `name`: an open file, and the variable.
    - `time`: the variable with the times.
    - `select`: the recording, for an axis that the file has recordings along.
    - `dims`: names of the axes in space.
    - `named`: variables that hold the coordinates of points, by axis.

    **Errors:** PdefitError where a fit would refuse the variable.
    """
    remarks: list[str] = []
    with Frames(file, {name: name}, time=time, dims=dims, select=select, coordinates=named) as frames:
        remarks += frames.remarks
        inside, step, total = frames.shapes[name], frames.step(name), frames.ts.size
        size = int(np.prod(inside))
        if size == 0:
            raise PdefitError(
                f"'{name}' in '{file.path.name}' has frames of shape {inside}, which hold no value; name another"
            )
        count = min(total, max(_MOST // size, 2))
        stride, block = -(-size * count // _MOST_OF_NOISE), max(_BLOCK // size, 1)
        top = np.inf if step is None else frames.largest(name)
        counts, kept, before, seen = _Counts(), [], np.zeros((0, size)), np.zeros(size, bool)
        start = frames.arrays(0, min(block, count))[0][name]
        for first in range(0, count, block):
            values = frames.arrays(first, min(first + block, count))[0][name].reshape(-1, size)
            counts.add(values, before)
            seen |= np.isfinite(values).any(axis=0)
            kept.append(values[:, ::stride])
            before = values[-1:]
        spread = np.unique(np.linspace(0, count - 1, _SPREAD).astype(int)) if len(inside) == 2 and dims == AXES else []
        some = [frames.arrays(number, number + 1)[0][name] for number in spread]
        variable = frames.file[name]
        coordinates = _coordinates(variable, dims)
        positions = _positions(frames, dims, name, len(inside), coordinates, remarks)
        # a list of points that no axis can hold
        points = dict(frames.points) or _moving(frames.file, variable, dims)
        scattered = len(points) > 1 or (bool(points) and not positions)
        if scattered:
            coordinates, positions = points, {}
    if not counts.lows:
        raise PdefitError(
            f"All values of '{name}' in '{file.path.name}' are missing (NaN), or fill values, or outside of the valid range; "
            f"name another variable, or correct its attributes"
        )
    if count < total:
        remarks.append(f"Only the first {count} of {total} frames of '{name}' were looked at, since it is large")
    remarks += _odd(name, counts, count * size, top)
    values = np.concatenate(kept)
    remarks += about_piles(name, values[np.isfinite(values)], top)
    noise = None
    try:
        record = Observations.build(frames.ts[:count], {name: values})
        noise = estimate_noise(record, name)
    except PdefitError as error:
        remarks.append(str(error))
    low, high, missing = min(counts.lows), max(counts.highs), counts.missing / count / size
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
    ends = [about_ends(name, start, i, dims[i - 1]) for i in range(1, 1 + len(grid)) if len(grid) <= len(dims)]
    remarks += [remark for remark in ends if remark]
    remarks += about_first_frame(name, start[0], seen.reshape(inside)) if grid else []
    remarks += about_pixels(name, np.concatenate(some)) if some and grid else []
    crop = inner_part(seen.reshape(inside), len(grid)) if 1 <= len(grid) <= len(dims) and dims == AXES else ()
    if crop:
        grid = tuple(stop - start for start, stop in crop)
        inner = {dim: slice(*ends) for dim, ends in zip(dims, crop, strict=False)}
        positions = {dim: where._replace(values=where.values[inner[dim]]) for dim, where in positions.items()}
        remarks.append(
            f"The outermost points of '{name}' never have a value; leave them out (data.crop={[list(ends) for ends in crop]})"
        )
    return Film(
        name,
        inside,
        grid,
        low,
        high,
        missing,
        noise,
        positions,
        coordinates,
        tuple(remarks),
        None,
        dims,
        components,
        crop,
    )


def _odd(name: str, counts: _Counts, values: int, top: float) -> list[str]:
    """Remarks on what was counted.

    **Arguments:**

    - `name`, `counts`: the variable, and what was counted.
    - `values`: the number of values that were read.
    - `top`: the largest number that its type holds; infinite for types that are not of whole numbers.
    """
    remarks = []
    if counts.missing:
        remarks.append(f"{counts.missing / values:.2%} of the values of '{name}' are missing; a fit leaves them out")
    if counts.still:
        remarks.append(
            f"Frames of '{name}' that equal the one before: {counts.still}; leave out what was written twice"
        )
    if counts.flat:
        remarks.append(
            f"Frames of '{name}' with one value everywhere: {counts.flat}; leave out dark or empty ones (times.start, "
            f"times.stop)"
        )
    if np.isfinite(top):
        remarks += about_drift(name, np.asarray(counts.means))
        remarks.append(
            f"'{name}' holds whole numbers up to {max(counts.highs):g} without a scale; give it the attribute scale_factor, or "
            f"write the model in counts"
        )
    return remarks


def _moving(file: DataFile, variable: Variable, dims: tuple[str, ...]) -> dict[str, str]:
    """Variables beside this one that hold the coordinates of its points at every time, by axis."""
    beside = {dim: f"{variable.name.rpartition('/')[0]}/{dim}".strip("/") for dim in dims}
    is_line = len(variable.shape) == 2
    return {
        dim: where for dim, where in beside.items() if is_line and where in file and file[where].shape == variable.shape
    }


def _has_components(file: DataFile, variable: Variable) -> bool:
    """Test for names of the entries along the last of several axes."""
    scales = variable.scales[-1] if variable.scales else ()
    return len(variable.shape) > 2 and bool(scales) and file[scales[0].name].dtype.kind not in "iuf"


def _coordinates(variable: Variable, dims: tuple[str, ...]) -> dict[str, str]:
    """Dimension scales with names other than those of a grid, by axis: a fit must be told of them."""
    along = variable.scales[1:] if len(variable.shape) <= 1 + len(dims) else ()
    first = [(dim, scales[0]) for dim, scales in zip(dims, along, strict=False) if scales]
    return {dim: scale.name for dim, scale in first if scale.has_positions and scale.label not in dims}


def _positions(
    frames: Frames, dims: tuple[str, ...], name: str, axes: int, named: dict[str, str], remarks: list[str]
) -> dict[str, Coordinate]:
    """Positions along the axes of a variable, in the unit of the file; a remark where a fit would refuse them."""
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
