"""Drawable quantities of a film: fields on zero, one or two axes, and moving bodies."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.image import AxesImage

from pdefit._util.errors import with_space
from pdefit.data.readers.fields import Field, Film
from pdefit.output.pictures.style import NAMES, with_unit

# more values than this along an axis without coordinates are taken for places, fewer for components
_FEW = 16
_MOST_COMPONENTS = 6
_FIRST = ("x", "longitude", "lon")


@dataclasses.dataclass(frozen=True)
class Axis:
    """Positions along one axis of space (n,), increasing or not, in a unit."""

    name: str
    unit: str
    values: np.ndarray

    @property
    def label(self) -> str:
        return with_unit(self.name, self.unit)

    @property
    def edges(self) -> tuple[float, float]:
        """Outer edges of the outer cells."""
        first, last = float(self.values[0]), float(self.values[-1])
        half = (last - first) / (2 * (self.values.size - 1)) if self.values.size > 1 else 0.5
        return first - half, last + half

    @property
    def is_uniform(self) -> bool:
        steps = np.diff(self.values)
        return steps.size == 0 or bool(np.ptp(steps) <= 1e-6 * np.abs(steps).max())


class View(Protocol):
    """Interface of a plugin's projection of fields onto an image, such as a map of a curved surface.

    Methods take values on the grid of the film. `points` resamples them to the pixels of the image.
    """

    @property
    def axes(self) -> tuple[np.ndarray, np.ndarray]:
        """Positions of the rows and columns of the image, evenly spaced."""
        ...

    @property
    def label(self) -> str:
        """Text below the image."""
        ...

    @property
    def coarse(self) -> "View":
        """A view with fewer pixels, for arrows."""
        ...

    def points(self, values: np.ndarray) -> np.ndarray:
        """Values of a scalar's frame at the points of the image."""
        ...

    def curl(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Curl of a vector with components along the two axes, at the same points."""
        ...

    def across(self, horizontal: bool, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Image of a component of a vector, to the right or upwards."""
        ...

    def image(self, values: np.ndarray) -> np.ndarray:
        """Image of values at the points."""
        ...

    def draw(self, axes: Axes, image: AxesImage | QuadMesh) -> list[Artist]:
        """Draw the surroundings of the image; returns the image and all other artists."""
        ...


@dataclasses.dataclass(frozen=True)
class Quantity:
    """A drawable quantity: scalar, line (n,) or image (rows, columns).

    **Arguments:**

    - `field`: the field.
    - `name`: the name of the quantity, for labels.
    - `select`: the index of the part (a label, the middle of a third axis); `note` names it.
    - `axes`: its axes.
    - `flip`: whether the two axes are exchanged, so that columns run along x, or along the longer side.
    - `arrows`: the components, along the horizontal and the vertical axis, of the vector drawn over it; by default the
      vector in its plane.
    - `parts`, `combined`: for a derived quantity, the quantities that it is made of, and the function that combines
      frames.
    - `is_signed`: whether its colour scale is symmetric about zero.
    - `view`: a plugin's view, whose image has these axes; frames are values at its points.
    """

    field: Field
    name: str
    select: tuple[int | slice, ...]
    axes: tuple[Axis, ...]
    note: str = ""
    flip: bool = False
    arrows: "tuple[Quantity, Quantity] | None" = None
    parts: "tuple[Quantity, ...]" = ()
    combined: Callable[..., np.ndarray] | None = dataclasses.field(default=None, compare=False)
    is_signed: bool = False
    view: View | None = None

    @property
    def label(self) -> str:
        return with_unit(self.name, self.field.unit)

    def label_of(self, panel: str, between: str = " ") -> str:
        """Label of a panel: name and unit of the quantity, or of its error; `between` then precedes the name."""
        return with_unit(f"error of{between}{self.name}", self.field.unit) if panel == "error" else self.label

    @property
    def panels(self) -> list[str]:
        """Names of the panels drawn side by side."""
        reference = self.field.reference
        return ["prediction"] if reference is None else [NAMES[reference], "prediction", "error"]

    @property
    def slug(self) -> str:
        """Name for a part of a file name."""
        return "".join(c if c.isascii() and c.isalnum() else "_" for c in self.name)

    def frames(self, film: Film, kind: str, numbers: Sequence[int]) -> Iterator[np.ndarray]:
        """Frames in float64, in the order of `axes`; infinite values count as missing."""
        if self.combined is not None:
            yield from map(self.combined, *(part.frames(film, kind, numbers) for part in self.parts))
            return
        for frame in film.frames(self.field.name, kind, numbers):
            part = _finite(frame[self.select])
            yield part.T if self.flip else part

    def image(self, values: np.ndarray) -> np.ndarray:
        """A frame, or the difference of two, as an image on the axes."""
        return values if self.view is None else self.view.image(values)

    def at(self, values: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """A frame at other positions in its plane, by linear interpolation along both axes, with extrapolation outside."""
        for i, (axis, places) in enumerate(zip(self.axes, (rows, columns), strict=True)):
            below = np.clip(np.searchsorted(axis.values, places) - 1, 0, axis.values.size - 2)
            low, high = axis.values[below], axis.values[below + 1]
            part = np.expand_dims((places - low) / (high - low), 1 - i)
            values = values.take(below, i) * (1 - part) + values.take(below + 1, i) * part
        return values

    def compared(
        self, film: Film, numbers: Sequence[int], names: Sequence[str] | None = None
    ) -> Iterator[dict[str, np.ndarray]]:
        """Frames by the names of their panels; the error is prediction minus the first panel.

        **Arguments:**

        - `film`, `numbers`: the film, and the indices of the frames.
        - `names`: the names of the panels (default: all of `panels`).
        """
        names = self.panels if names is None else names
        kinds = {name: kind for kind, name in NAMES.items() if name in names}
        for frames in zip(*(self.frames(film, kind, numbers) for kind in kinds.values()), strict=True):
            values = dict(zip(kinds, frames, strict=True))
            if "error" in names:
                values["error"] = values["prediction"] - values[names[0]]
            yield values


@dataclasses.dataclass(frozen=True)
class Bodies:
    """Moving bodies: positions (n, 2 or 3) with the names of bodies and axes."""

    field: Field
    names: tuple[str, ...]
    axis_names: tuple[str, ...]

    def positions(self, film: Film, kind: str, numbers: Sequence[int]) -> np.ndarray:
        """Positions (frames, n, d)."""
        return _finite(np.stack(list(film.frames(self.field.name, kind, numbers))))


def _finite(values: np.ndarray) -> np.ndarray:
    x = np.asarray(values, float)
    return np.where(np.isfinite(x), x, np.nan)


def bodies(film: Film) -> Bodies | None:
    """Bodies of a film: the field on (anything, axis) called `position`, or else the first such field."""
    found = [f for f in film.fields.values() if len(f.dims) == 2 and f.dims[1] == "axis" and f.shape[1] in (2, 3)]
    found.sort(key=lambda f: f.name != "position")
    if not found or "predicted" not in found[0].kinds:
        return None
    first = found[0]
    names, axes = (tuple(str(label) for label in first.coords[d]) for d in first.dims)
    return Bodies(first, names, axes)


def widest(positions: np.ndarray) -> list[int]:
    """Indices of the two axes with the largest spread of bodies."""
    spread = np.ptp(np.nan_to_num(positions), axis=(0, 1))
    return sorted(np.argsort(-spread, kind="stable")[:2].tolist())


def quantities(film: Film) -> list[Quantity]:
    """All quantities with a prediction, observed ones first; vectors and lists of species are split into components.

    Components of vectors in a plane come late, because arrows show them on the maps of other fields. Derived fields
    come last.
    """
    fields = sorted(
        film.fields.values(), key=lambda f: (f.name in film.derived, f.vector != "", "observed" not in f.kinds)
    )
    return [q for field in fields if "predicted" in field.kinds for q in _parts(field)]


def vorticity(right: Quantity, up: Quantity) -> Quantity:
    """Vorticity of a vector with components along the horizontal and the vertical axis of a plane, at cell centres."""
    axes, parts = (right.axes[0], up.axes[1]), (right, up)
    places = [axis.values for axis in axes]

    def curl(*values: np.ndarray) -> np.ndarray:
        along, across = (part.at(x, *places) for part, x in zip(parts, values, strict=True))
        return np.gradient(across, places[1], axis=1) - np.gradient(along, places[0], axis=0)

    return curl_of(parts, axes, axes[0].unit, parts=parts, combined=curl, arrows=parts)


def curl_of(vector: tuple[Quantity, Quantity], axes: tuple[Axis, ...], length: str, **made: Any) -> Quantity:
    """Curl of a vector; its unit is a rate if the unit of the vector contains the length."""
    first, second = (part.field for part in vector)
    unit = first.unit.removeprefix(length) if first.unit.startswith(f"{length}/") else first.unit
    unit = f"1{unit}" if unit.startswith("/") else unit if length == "1" else f"{unit}/{length}"
    name = "vorticity" if first.vector == "velocity" else f"curl of {first.vector}"
    coords = {axis.name: axis.values for axis in axes}
    kinds = tuple(kind for kind in first.kinds if kind in second.kinds)
    field = Field(name, name, unit, (*coords,), coords, {axis.name: axis.unit for axis in axes}, kinds)
    return Quantity(field, name, (), axes, is_signed=True, **made)


def _parts(field: Field) -> list[Quantity]:
    """One quantity for each combination of labels."""
    listed = [d for d in field.dims if _is_list(field, d)]
    spatial = [d for d in field.dims if d not in listed]
    found = []
    sizes = [field.coords[d].size for d in listed]
    for combination in list(np.ndindex(*sizes))[: _MOST_COMPONENTS if spatial else None]:
        chosen: dict[str, int] = dict(zip(listed, combination, strict=True))
        labels = [str(field.coords[d][i]) for d, i in chosen.items()]
        long = field.long_name if field.long_name == field.name else f"{field.long_name} {field.name}"
        notes = []
        for dim in spatial[2:]:
            chosen[dim] = field.coords[dim].size // 2
            notes.append(f"{dim} = {field.coords[dim][chosen[dim]]:.4g}{with_space(field.coord_units[dim])}")
        axes = tuple(
            Axis(_axis_name(field, d), field.coord_units[d], np.asarray(field.coords[d], float)) for d in spatial[:2]
        )
        select = tuple(chosen.get(d, slice(None)) for d in field.dims)
        flip = len(axes) == 2 and not field.radius and _rows_are_columns(*axes)
        found.append(
            Quantity(field, " ".join([long, *labels]), select, axes[::-1] if flip else axes, ", ".join(notes), flip)
        )
    return found


def _axis_name(field: Field, dim: str) -> str:
    """Name of an axis of positions, without suffixes of faces or rasters."""
    own = f"{field.name}_" if field.coords[dim].dtype.kind == "f" else ""
    return dim.removesuffix("_face").removeprefix(own)


def _is_list(field: Field, dim: str) -> bool:
    """True if an axis lists items (species, components) rather than positions."""
    values = field.coords[dim]
    return values.dtype.kind in "US" or (dim.startswith(f"{field.name}_") and int(np.prod(field.shape)) <= _FEW)


def _rows_are_columns(first: Axis, second: Axis) -> bool:
    """True if the first axis should run to the right: x, or a much longer side. Heights z run upwards."""
    if "z" in (first.name, second.name):
        return second.name == "z"
    if first.unit == second.unit:
        long = [abs(a.edges[1] - a.edges[0]) for a in (first, second)]
        if max(long) > 2 * min(long):
            return long[0] > long[1]
    return second.name not in _FIRST
