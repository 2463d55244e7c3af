"""Movies of fields and bodies: truth, prediction and error beside each other."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D

from pdefit._util.errors import PdefitError
from pdefit.data.readers.fields import Film
from pdefit.output.pictures._encode import write_movie
from pdefit.output.pictures._maps import Map, aspect, colorbar, map_of
from pdefit.output.pictures._orbits import Orbits
from pdefit.output.pictures._quantities import Quantity, bodies, quantities
from pdefit.output.pictures._scales import margin, scale_of, scale_of_errors
from pdefit.output.pictures._vectors import planes, without_components
from pdefit.output.pictures.style import BAD, BEYOND, NAMES, looks, styled

_DPI = 100
# number of frames from which scales are chosen, and most fields of a movie
_LOOKED_AT = 24
_MOST_ROWS = 3
# width over height of a plane above which its panels lie below each other
_STRIP = 2.2
# inches: a panel's longer side, that of both halves of a sphere, with and without a colour bar beside it
_SIDE, _HALVES, _LONG, _BESIDE = 2.7, 3.5, 6.6, 1.0
# length of the way behind a body, as a fraction of all frames
_TAIL = 0.06


class Scene(Protocol):
    """What a movie shows."""

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in inches."""
        ...

    def arrange(self, fig: Any) -> None:
        """Add all that is the same in every frame."""
        ...

    def draw(self, number: int) -> list[Any]:
        """Draw a frame upon it; returns what was drawn."""
        ...


def draw_movie(path: Path, film: Film, most_frames: int = 300) -> Path:
    """Write the movie of a run: planes as images, lines as curves, bodies as points with tails.

    Frames are read, drawn and encoded one at a time.

    **Arguments:**

    - `path`: ends in .mp4; a GIF takes its place where there is no encoder.
    - `film`: the content of fields.h5.
    - `most_frames`: most frames of the movie, evenly taken, so that it costs seconds however long a run is.
    """
    if film.ts.size == 0:
        raise PdefitError(f"'{film.path}' holds no frame yet; wait for the run, or resume it")
    numbers = film.chosen(most_frames)
    with styled():
        frames = _frames(film, _scene(film, numbers), numbers)
        path.parent.mkdir(parents=True, exist_ok=True)
        return write_movie(path, frames, len(numbers))


def has_movie(film: Film) -> bool:
    """Whether there is something that moves in space."""
    return bodies(film) is not None or any(q.axes for q in quantities(film))


def _scene(film: Film, numbers: Sequence[int]) -> Scene:
    moving = bodies(film)
    if moving is not None:
        return Orbits(film, moving, numbers, _TAIL)
    shown = [q for q in quantities(film) if q.axes]
    if not shown:
        raise PdefitError(f"'{film.path}' has no field in space, so there is nothing to move")
    return _Maps(film) if len(shown[0].axes) == 2 else _Curves(film, shown)


def _frames(film: Film, scene: Scene, numbers: Sequence[int]) -> Iterator[np.ndarray]:
    """Frames as bytes (height, width, 3). What is the same in all of them is drawn once."""
    height = scene.size[1]
    # axes are placed by matplotlib, below the line with the time
    layout = ConstrainedLayoutEngine(compress=True, rect=(0, 0, 1, 1 - 0.3 / height))
    fig = Figure(figsize=scene.size, dpi=_DPI, layout=layout)
    canvas = FigureCanvasAgg(fig)
    scene.arrange(fig)
    drawn = scene.draw(numbers[0])
    for artist in drawn:
        artist.set_animated(True)
    canvas.draw()
    fig.set_layout_engine("none")
    background: Any = canvas.copy_from_bbox(fig.bbox)
    for number in numbers:
        for artist in drawn:
            artist.remove()
        drawn = [*scene.draw(number), *_clock(fig, film, number)]
        canvas.restore_region(background)
        for artist in sorted(drawn, key=lambda artist: artist.zorder):
            fig.draw_artist(artist)
        yield np.asarray(canvas.buffer_rgba())[..., :3].copy()


def _clock(fig: Figure, film: Film, number: int) -> list[Any]:
    """The time of a frame, and whether the model was fitted to it."""
    told: list[Any] = [fig.text(0.012, 0.985, f"t = {film.when(number)}", ha="left", va="top", fontsize=10)]
    if film.forecast < film.ts.size:
        phase, color = ("forecast", BEYOND) if number >= film.forecast else ("fit", "black")
        told.append(fig.text(0.988, 0.985, phase, ha="right", va="top", fontsize=10, weight="bold", color=color))
    return told


class _Maps:
    """Up to three fields on a plane, each in a row: truth, prediction and error.

    Predictions of which nothing is known share a row, the last.
    Of long planes only the first field is shown, with the panels below each other. Vectors are arrows upon the fields,
    and their components have no rows of their own.
    """

    def __init__(self, film: Film):
        shown = without_components(planes(film))
        self._is_strip = aspect(shown[0]) > _STRIP
        numbers = film.chosen(_LOOKED_AT)
        self._maps = [map_of(film, q, numbers, _SIDE) for q in shown[: 1 if self._is_strip else _MOST_ROWS]]
        self._names = max((m.names for m in self._maps), key=len)
        alone = [m for m in self._maps if len(m.names) < len(self._names)]
        self._rows = [[m] for m in self._maps if m not in alone] + ([alone] if alone else [])
        side = _LONG if self._is_strip else _HALVES if any(m.quantity.view for m in self._maps) else _SIDE
        self._heights = [max(round(side / aspect(m.quantity), 2), 0.1) for m, *_ in self._rows]
        self._panels: list[Any] = []
        if self._is_strip:
            self.size = _LONG + 1.75, 0.75 + len(self._names) * (self._heights[0] + 0.34)
        else:
            self.size = len(self._names) * (side + _BESIDE), 0.85 + sum(h + 0.2 for h in self._heights)

    def arrange(self, fig: Any) -> None:
        if self._is_strip:
            grid = fig.subplots(len(self._names), 1, squeeze=False).T
        else:
            grid = fig.subplots(len(self._rows), len(self._names), squeeze=False, height_ratios=self._heights)
        for r, (members, row) in enumerate(zip(self._rows, grid, strict=True)):
            parts = [row[k : k + 1] for k in range(len(members))] if len(members[0].names) < len(row) else [row]
            for axes in row[sum(map(len, parts)) :]:
                axes.set_visible(False)
            for one, panels in zip(members, parts, strict=True):
                self._panels.append((one, panels))
                self._label(fig, one, panels, is_first=r == 0)

    def _label(self, fig: Any, one: Map, panels: Any, is_first: bool) -> None:
        """Names, axes and colour bars of the panels of a field."""
        quantity, arrows = one.quantity, one.arrows
        for axes, name in zip(panels, one.names, strict=True):
            axes.set(xlabel=quantity.axes[1].label, ylabel=quantity.axes[0].label)
            axes.locator_params(nbins=4, axis="y")
            axes.label_outer()
            label = quantity.error_label() if name == "error" else quantity.label
            if self._is_strip:
                title = label if name == "error" else f"{name}, {label}"
            else:
                # an empty title leaves room to name arrows
                title = name if is_first or len(panels) == 1 else " " * bool(quantity.arrows)
            axes.set_title(title, fontsize=9)
            # truth and prediction share one colour bar, beside the prediction
            if self._is_strip or name in ("prediction", "error"):
                place: dict[str, Any] = {"aspect": 8, "pad": 0.01} if self._is_strip else {"aspect": 25, "pad": 0.02}
                bar = colorbar(fig, one.scale(name), "" if self._is_strip else label, ax=axes, **place)
                bar.ax.tick_params(labelsize=7)
                bar.ax.yaxis.label.set_size(8)
        if arrows and is_first:
            # in the line with the time
            arrows.name(panels[0], 0.5, 1 - 0.13 / self.size[1], coordinates="figure")
        elif arrows and quantity.arrows:
            beside = panels[one.names.index("prediction")]
            arrows.name(beside, 0.05 if len(panels) > 1 else 0.4, 1 + 0.1 / _SIDE)

    def draw(self, number: int) -> list[Any]:
        return [artist for one, panels in self._panels for artist in one.draw(panels, number)]


class _Curves:
    """Up to three fields on a line below each other: values to the left, the error to the right."""

    def __init__(self, film: Film, shown: Sequence[Quantity]):
        self._film, self._shown = film, [q for q in shown if len(q.axes) == 1][:_MOST_ROWS]
        self._columns = 1 + any(q.field.reference for q in self._shown)
        self._panels: Any = None
        self.size = 4.4 * self._columns, 0.3 + 2.7 * len(self._shown)

    def arrange(self, fig: Any) -> None:
        self._panels = fig.subplots(len(self._shown), self._columns, sharex="row", squeeze=False)
        for quantity, row in zip(self._shown, self._panels, strict=True):
            values = [self._values(quantity, number) for number in self._film.chosen(_LOOKED_AT)]
            errors = scale_of_errors(np.stack([v.pop("error", np.zeros(1)) for v in values]), clip=False)
            scale = scale_of(np.stack([x for v in values for x in v.values()]))
            (space,) = quantity.axes
            row[0].set(xlabel=space.label, ylabel=quantity.label, xlim=sorted(space.edges), ylim=margin(scale))
            row[0].set_yscale("log" if scale.is_log else "linear")
            marks = [Line2D([], [], label=NAMES[kind], **look) for kind, look in looks(quantity.field.kinds).items()]
            # above the axes, where no curve passes
            row[0].legend(handles=marks, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3, borderaxespad=0.1)
            if quantity.field.reference is not None:
                row[1].set(xlabel=space.label, ylabel=quantity.error_label(), ylim=margin(errors))
                row[1].axhline(0.0, color="black", lw=0.6)
            elif row.size > 1:
                row[1].set_visible(False)

    def draw(self, number: int) -> list[Any]:
        drawn = []
        for quantity, row in zip(self._shown, self._panels, strict=True):
            styles, values = looks(quantity.field.kinds), self._values(quantity, number)
            where = quantity.axes[0].values
            for kind, style in styles.items():
                drawn += row[0].plot(where, values[kind], **style)
            if "error" in values:
                drawn += row[1].plot(where, values["error"], color=BAD, lw=1.2)
        return drawn

    def _values(self, quantity: Quantity, number: int) -> dict[str, np.ndarray]:
        """A frame in each of its kinds, and its error."""
        kinds, reference = looks(quantity.field.kinds), quantity.field.reference
        values = {kind: next(quantity.frames(self._film, kind, [number])) for kind in kinds}
        return values if reference is None else values | {"error": values["predicted"] - values[reference]}
