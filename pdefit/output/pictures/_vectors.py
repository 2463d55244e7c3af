"""Vectors in a plane: arrows upon the maps of other fields, and the vorticity where there is no other field."""

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from pdefit._util.errors import with_space
from pdefit.data.readers.fields import Film
from pdefit.output.pictures._quantities import Axis, Quantity, curl_of, quantities, vorticity
from pdefit.output.pictures._sphere import View, facing, point
from pdefit.output.pictures.style import NAMES

# arrows along the longer side of a plane, in large and in small panels, which are less than some inches wide
_ACROSS, _FEWER, _SMALL = 18, 13, 1.6
# across both halves of a sphere
_ROUND = 24
# the longest arrow, in units of their distance
_LONGEST = 1.6
# pixels across an image from which arrows upon a sphere are taken; and angles from which a sphere is seen by default
_COARSE, _ASIDE = 48, (np.asarray(1.2), np.asarray(0.0))


@dataclasses.dataclass(frozen=True)
class Arrows:
    """A vector as arrows at points of a plane that are equally far apart.

    **Arguments:**

    - `film`: the film.
    - `parts`: the components along the horizontal and the vertical axis of the plane.
    - `rows`, `columns`: the positions of the points.
    - `size`: the size of the vector that the longest arrow stands for, the same in all panels and at all times.
    - `width`: of the arrows, in units of their distance.
    """

    film: Film
    parts: tuple[Quantity, Quantity]
    rows: np.ndarray
    columns: np.ndarray
    size: float = 1.0
    width: float = 0.1

    @property
    def kinds(self) -> dict[str, str]:
        """The kinds that both components have, by the name of the panel. Errors have no arrows."""
        return {NAMES[k]: k for k in self.parts[0].field.kinds if k in self.parts[1].field.kinds}

    def frames(self, kind: str, numbers: Sequence[int]) -> Iterator[np.ndarray]:
        """Both components at the points, (2, rows, columns)."""
        both = (part.frames(self.film, kind, numbers) for part in self.parts)
        for values in zip(*both, strict=True):
            yield np.stack([p.at(x, self.rows, self.columns) for p, x in zip(self.parts, values, strict=True)])

    def draw(self, axes: Any, values: np.ndarray, is_dark: bool = False) -> Any:
        """Draw the arrows upon a map.

        **Arguments:**

        - `axes`, `values`: the panel, and both components, (2, rows, columns).
        - `is_dark`: whether the arrows are dark, for a scale with a white middle, which is light all over.
        """
        step = np.diff(self.rows if self.rows.size > self.columns.size else self.columns).max()
        look = {"angles": "xy", "scale_units": "xy", "scale": self.size / (_LONGEST * step), "pivot": "mid"}
        return axes.quiver(
            self.columns, self.rows, *values, units="xy", width=self.width * step, minlength=0.3,
            facecolor="#333333" if is_dark else "white",
            edgecolor="black", linewidth=0.25, zorder=3, **look,
        )  # fmt: skip

    def name(self, axes: Any, x: float, y: float, **place: Any) -> None:
        """Draw an arrow of round length, with the size of the vector that it stands for.

        **Arguments:**

        - `axes`: a panel.
        - `x`, `y`: the place, in units of the panel unless `place` says otherwise, as of matplotlib's `quiverkey`.
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
    """The arrows of the vector of a vorticity, or else the first in the plane of a scalar.

    None for a component, or if nothing moves.

    **Arguments:**

    - `film`: the film.
    - `quantity`: the scalar that is drawn.
    - `numbers`: the frames from which the scale of the arrows is chosen.
    - `width`: of a panel, in inches.
    """
    there = [quantity.arrows] if quantity.arrows else _vectors(quantities(film))
    found = [v for v in there if _names(v[0]) == _names(quantity) and not quantity.note]
    if quantity.field.vector or not found:
        return None
    sides = [axis.edges for axis in quantity.axes]
    across = _ROUND if quantity.view else _FEWER if width < _SMALL else _ACROSS
    step = max(high - low for low, high in sides) / across
    counts = [max(1, round((high - low) / step)) for low, high in sides]
    rows, columns = (
        low + (np.arange(n) + 0.5) * (high - low) / n for (low, high), n in zip(sides, counts, strict=True)
    )
    arrows = Arrows(film, found[0], rows, columns, width=0.08 if quantity.view else 0.1)
    sizes = [np.hypot(*uv) for kind in arrows.kinds.values() for uv in arrows.frames(kind, numbers)]
    size = float(np.max(np.nan_to_num(sizes), initial=0.0))
    return dataclasses.replace(arrows, size=size) if size else None


def planes(film: Film, turn: np.ndarray | None = None, measured: bool = False) -> list[Quantity]:
    """Fields on a plane or a sphere, after the vorticities of vectors.

    In a plane those are of vectors without a scalar in their plane, and of derived ones.

    **Arguments:**

    - `film`: the film.
    - `turn`: from where a sphere is seen, as of `facing`; by default the middle of what was observed is in front.
    - `measured`: test for vorticities on a sphere that have all kinds of their vectors; else they are those of the system
      where it has them.
    """
    every = [q for q in quantities(film) if len(q.axes) == 2]
    shown = [q for q in every if not q.field.radius]
    scalars = [_names(q) for q in shown if not q.field.vector and q.field.name not in film.derived]
    first = [v for v in _vectors(shown) if _names(v[0]) not in scalars or v[0].field.name in film.derived]
    return [vorticity(*v) for v in first] + shown + _on_sphere(film, every, turn, measured)


def _on_sphere(film: Film, every: Sequence[Quantity], turn: np.ndarray | None, measured: bool) -> list[Quantity]:
    """Images of fields on a sphere as it is seen from outside: vorticities of vectors, and then scalars."""
    every = [q for q in every if q.field.radius]
    vectors: dict[tuple[str, ...], dict[str, Quantity]] = {}
    for q in every:
        if q.field.vector:
            vectors.setdefault((q.field.vector, *q.field.dims), {})[q.field.component] = q
    found, scalars = list[Quantity](), [q for q in every if not q.field.vector]
    upon: dict[tuple[str, ...], tuple[Quantity, Quantity]] = {}
    for (_, *dims), parts in vectors.items():
        if {*dims} != {*parts}:
            scalars += parts.values()
            continue
        vector = parts[dims[0]], parts[dims[1]]
        view = _view(film, vector[0], turn)
        coarse = dataclasses.replace(view, pixels=_COARSE)
        right, up = (
            dataclasses.replace(
                _image_of(vector[0], coarse), parts=vector, combined=functools.partial(coarse.across, is_first)
            )
            for is_first in (True, False)
        )
        upon.setdefault((*dims,), (right, up))
        made = {"parts": vector, "combined": view.curl, "arrows": (right, up), "view": view}
        length = vector[0].field.unit.partition("/")[0]
        curl = curl_of(vector, _axes(view), length, **made)
        # what the system derived is exact; errors of differences cancel beside those of what was observed
        exact = [q for q in scalars if q.name == curl.name and curl.field.reference in (None, *q.field.kinds)]
        if exact and not measured:
            curl = dataclasses.replace(curl, field=exact[0].field, parts=(exact[0],), combined=view.points)
        found.append(curl)
    for q in scalars:
        if q.name not in [curl.name for curl in found]:
            signed = q.field.name in film.derived
            seen = _image_of(q, _view(film, q, turn))
            found.append(dataclasses.replace(seen, arrows=upon.get(q.field.dims), is_signed=signed))
    return found


def _image_of(quantity: Quantity, view: View) -> Quantity:
    """A quantity on a sphere as an image of it."""
    return Quantity(quantity.field, quantity.name, (), _axes(view), parts=(quantity,), combined=view.points, view=view)


def _axes(view: View) -> tuple[Axis, Axis]:
    y, x = view.axes
    return Axis("", "", y), Axis(view.label, "", x)


def _view(film: Film, quantity: Quantity, turn: np.ndarray | None) -> View:
    """The view of the grid of a quantity; by default towards the middle of all that was observed."""
    theta, phi = (axis.values for axis in quantity.axes)
    view = View(theta, phi, quantity.field.radius, np.eye(3) if turn is None else turn)
    if turn is not None:
        return view
    first = next((q for q in quantities(film) if q.field.radius and "observed" in q.field.kinds), None)
    centre = np.zeros(3)
    if first is not None:
        down, around = np.meshgrid(*(axis.values for axis in first.axes), indexing="ij")
        seen = sum(np.isfinite(x) for x in first.frames(film, "observed", film.chosen(8))) * np.sin(down)
        centre = (point(down, around) * seen).sum((1, 2)) / max(float(np.sum(seen)), 1e-12)
    # what is observed all over has no middle
    return dataclasses.replace(view, turn=facing(centre if np.linalg.norm(centre) > 0.02 else point(*_ASIDE)))


def without_components(shown: Sequence[Quantity]) -> list[Quantity]:
    """Fields on a plane without the components that arrows show."""
    parts = [part for vector in _vectors(shown) for part in vector]
    return [q for q in shown if q not in parts]


def _vectors(shown: Sequence[Quantity]) -> list[tuple[Quantity, Quantity]]:
    """Components along the horizontal and the vertical axis of the same plane, whose axes are lengths that increase."""
    found: dict[tuple[str, ...], dict[str, Quantity]] = {}
    for q in shown:
        if len(q.axes) == 2 and q.field.vector and not q.note and q.axes[0].unit == q.axes[1].unit:
            if all(axis.values.size > 1 and np.all(np.diff(axis.values) > 0) for axis in q.axes):
                # of a vector that an instrument observed and its state the first, which was observed
                found.setdefault((q.field.vector, *_names(q)), {}).setdefault(q.field.component, q)
    return [(parts[right], parts[up]) for (_, up, right), parts in found.items() if {up, right} <= {*parts}]


def _names(quantity: Quantity) -> tuple[str, ...]:
    return tuple(axis.name for axis in quantity.axes)
