"""Vectors in a plane: arrows on the maps of other fields, and the vorticity if there is no other field."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from pdefit._util.errors import with_space
from pdefit.data.readers.fields import Film
from pdefit.output.pictures._quantities import Quantity, View, quantities, vorticity
from pdefit.output.pictures._views import viewed
from pdefit.output.pictures.style import NAMES

# arrows along the longer side of a plane, in large and in small panels, which are less than some inches wide
_ACROSS, _FEWER, _SMALL = 18, 13, 1.6
# across an image of a plugin
_VIEWED = 24
# the longest arrow, in units of their distance
_LONGEST = 1.6


@dataclasses.dataclass(frozen=True)
class Arrows:
    """A vector as arrows at evenly spaced points of a plane.

    **Arguments:**

    - `film`: the film.
    - `parts`: the components along the horizontal and the vertical axis of the plane.
    - `rows`, `columns`: the positions of the points.
    - `size`: the magnitude of the longest arrow, the same in all panels and at all times.
    - `width`: the width of the arrows, in units of their distance.
    """

    film: Film
    parts: tuple[Quantity, Quantity]
    rows: np.ndarray
    columns: np.ndarray
    size: float = 1.0
    width: float = 0.1

    @property
    def kinds(self) -> dict[str, str]:
        """Kinds common to both components, by the name of the panel. Errors have no arrows."""
        return {NAMES[k]: k for k in self.parts[0].field.kinds if k in self.parts[1].field.kinds}

    def frames(self, kind: str, numbers: Sequence[int]) -> Iterator[np.ndarray]:
        """Both components at the points, (2, rows, columns)."""
        both = (part.frames(self.film, kind, numbers) for part in self.parts)
        for values in zip(*both, strict=True):
            yield np.stack([p.at(x, self.rows, self.columns) for p, x in zip(self.parts, values, strict=True)])

    def draw(self, axes: Axes, values: np.ndarray, is_dark: bool = False) -> Any:
        """Draw the arrows on a map.

        **Arguments:**

        - `axes`, `values`: the panel, and both components, (2, rows, columns).
        - `is_dark`: whether the arrows are dark, for a scale with a white middle, which is light everywhere.
        """
        step = np.diff(self.rows if self.rows.size > self.columns.size else self.columns).max()
        look = {"angles": "xy", "scale_units": "xy", "scale": self.size / (_LONGEST * step), "pivot": "mid"}
        return axes.quiver(
            self.columns, self.rows, *values, units="xy", width=self.width * step, minlength=0.3,
            facecolor="#333333" if is_dark else "white",
            edgecolor="black", linewidth=0.25, zorder=3, **look,
        )  # fmt: skip

    def name(self, axes: Axes, x: float, y: float, **place: Any) -> None:
        """Draw an arrow as legend, labelled with its magnitude, a round number.

        **Arguments:**

        - `axes`: a panel.
        - `x`, `y`: the position, in units of the panel unless `place` says otherwise, as in matplotlib's `quiverkey`.
        """
        power = 10.0 ** np.floor(np.log10(self.size))
        length = max(n * power for n in (1, 2, 5) if n * power <= self.size)
        field = self.parts[0].field
        text = f"{field.vector} {length:g}{with_space(field.unit)}"
        look = {"labelpos": "E", "fontproperties": {"size": 8}, "facecolor": "black"}
        # the scale is that of arrows which are not seen, so that those of any frame may come and go
        unseen = self.draw(axes, np.full((2, self.rows.size, self.columns.size), np.nan))
        axes.quiverkey(unseen, x, y, length, text, **look | place)


def arrows_on(film: Film, quantity: Quantity, numbers: Sequence[int], width: float) -> Arrows | None:
    """Arrows of a vorticity's vector, or else of the first vector in the plane of a scalar.

    None for a component, or if nothing moves.

    **Arguments:**

    - `film`: the film.
    - `quantity`: the scalar to draw.
    - `numbers`: the frames that determine the scale of the arrows.
    - `width`: the width of a panel, in inches.
    """
    there = [quantity.arrows] if quantity.arrows else _vectors(quantities(film))
    found = [v for v in there if _names(v[0]) == _names(quantity) and not quantity.note]
    if quantity.field.vector or not found:
        return None
    sides = [axis.edges for axis in quantity.axes]
    across = _VIEWED if quantity.view else _FEWER if width < _SMALL else _ACROSS
    step = max(high - low for low, high in sides) / across
    counts = [max(1, round((high - low) / step)) for low, high in sides]
    rows, columns = (
        low + (np.arange(n) + 0.5) * (high - low) / n for (low, high), n in zip(sides, counts, strict=True)
    )
    arrows = Arrows(film, found[0], rows, columns, width=0.08 if quantity.view else 0.1)
    sizes = [np.hypot(*uv) for kind in arrows.kinds.values() for uv in arrows.frames(kind, numbers)]
    size = float(np.max(np.nan_to_num(sizes), initial=0.0))
    return dataclasses.replace(arrows, size=size) if size else None


def planes(
    film: Film, own: Mapping[str, float] | None = None, like: View | None = None, measured: bool = False
) -> list[Quantity]:
    """Fields on a plane, preceded by vorticities of vectors, and by images of fields drawn by plugins.

    Vorticities are shown for vectors without a scalar in their plane, and for derived vectors.

    **Arguments:** as in `viewed`.
    """
    shown = [q for q in quantities(film) if len(q.axes) == 2 and not q.field.view]
    scalars = [_names(q) for q in shown if not q.field.vector and q.field.name not in film.derived]
    first = [v for v in _vectors(shown) if _names(v[0]) not in scalars or v[0].field.name in film.derived]
    return [vorticity(*v) for v in first] + shown + viewed(film, own, like, measured)


def without_components(shown: Sequence[Quantity]) -> list[Quantity]:
    """Fields on a plane without the components that arrows show."""
    parts = [part for vector in _vectors(shown) for part in vector]
    return [q for q in shown if q not in parts]


def _vectors(shown: Sequence[Quantity]) -> list[tuple[Quantity, Quantity]]:
    """Pairs of components along the horizontal and the vertical axis of a plane whose axes are increasing lengths."""
    found: dict[tuple[str, ...], dict[str, Quantity]] = {}
    for q in shown:
        if len(q.axes) == 2 and q.field.vector and not q.note and q.axes[0].unit == q.axes[1].unit:
            if all(axis.values.size > 1 and np.all(np.diff(axis.values) > 0) for axis in q.axes):
                # of a vector that an instrument observed and its state the first, which was observed
                found.setdefault((q.field.vector, *_names(q)), {}).setdefault(q.field.component, q)
    return [(parts[right], parts[up]) for (_, up, right), parts in found.items() if {up, right} <= {*parts}]


def _names(quantity: Quantity) -> tuple[str, ...]:
    return tuple(axis.name for axis in quantity.axes)
