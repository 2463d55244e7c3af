"""Movies of fields and bodies: truth, prediction and error side by side, encoded as H.264 in MP4.

If PyAV was built without an encoder for H.264, a movie is a GIF.
"""

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import av
import av.error
import imageio.v3
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from pdefit._util.atomic import beside
from pdefit._util.errors import PdefitError, first_line
from pdefit.data.readers.fields import Film
from pdefit.output.pictures._lines import Curves
from pdefit.output.pictures._maps import Map, aspect, colorbar, map_of
from pdefit.output.pictures._orbits import Orbits
from pdefit.output.pictures._points import name_points
from pdefit.output.pictures._quantities import bodies, quantities
from pdefit.output.pictures._vectors import planes, without_components
from pdefit.output.pictures.style import BEYOND, styled

_DPI = 100
# number of frames from which scales are chosen, and most fields of a movie
_LOOKED_AT = 24
_MOST_ROWS = 3
# width over height of a plane above which its panels lie below each other
_STRIP = 2.2
# inches: a panel's longer side, in images of plugins, in strips, and the room for a colour bar beside it
_SIDE, _VIEWED, _LONG, _BESIDE = 2.7, 3.5, 6.6, 1.0
# length of the way behind a body, as a fraction of all frames
_TAIL = 0.06
# length of a movie of many frames in seconds, and bounds on its frames per second
_SECONDS, _SLOWEST, _FASTEST = 10.0, 5, 25
# suffix, encoder, pixel format
_MP4, _GIF = (".mp4", "libx264", "yuv420p"), (".gif", "gif", "rgb8")


class Scene(Protocol):
    """Content of a movie, frame by frame."""

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in inches."""
        ...

    def arrange(self, fig: Figure) -> None:
        """Draw everything that is the same in every frame."""
        ...

    def draw(self, number: int) -> list[Artist]:
        """Draw one frame; returns the artists."""
        ...


def draw_movie(path: Path, film: Film, most_frames: int = 300) -> Path:
    """Write the movie of a run: planes as images, lines as curves, bodies as points with tails.

    Frames are read, drawn and encoded one at a time.

    **Arguments:**

    - `path`: a path that ends in .mp4; a GIF replaces it if there is no encoder.
    - `film`: the content of fields.h5.
    - `most_frames`: the largest number of frames of the movie, evenly spaced, so that it takes seconds for any run.
    """
    if film.ts.size == 0:
        raise PdefitError(f"'{film.path}' holds no frame yet; wait for the run, or resume it")
    numbers = film.chosen(most_frames)
    with styled():
        frames = _frames(film, _scene(film, numbers), numbers)
        path.parent.mkdir(parents=True, exist_ok=True)
        return write_movie(path, frames, len(numbers))


def has_movie(film: Film) -> bool:
    """True if a film has motion in space."""
    return bodies(film) is not None or any(q.axes for q in quantities(film))


def _scene(film: Film, numbers: Sequence[int]) -> Scene:
    moving = bodies(film)
    if moving is not None:
        return Orbits(film, moving, numbers, _TAIL)
    shown = [q for q in quantities(film) if q.axes]
    if not shown:
        raise PdefitError(f"'{film.path}' has no field in space, so there is nothing to move")
    return _Maps(film) if len(shown[0].axes) == 2 else Curves(film, shown)


def _frames(film: Film, scene: Scene, numbers: Sequence[int]) -> Iterator[np.ndarray]:
    """Frames as bytes (height, width, 3). Parts that are equal in all frames are drawn once."""
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


def _clock(fig: Figure, film: Film, number: int) -> list[Artist]:
    """Draw the time of a frame, and whether the model was fitted to it."""
    told: list[Any] = [fig.text(0.012, 0.985, film.title_of(number), ha="left", va="top", fontsize=10)]
    if film.forecast < film.ts.size:
        phase, color = ("forecast", BEYOND) if number >= film.forecast else ("fit", "black")
        told.append(fig.text(0.988, 0.985, phase, ha="right", va="top", fontsize=10, weight="bold", color=color))
    return told


class _Maps:
    """Scene of up to three fields on a plane, each in a row: truth, prediction and error.

    Predictions without a reference share the last row. For long planes only the first field is shown, with its panels
    one below the other. Vectors are arrows over the fields, and their components have no rows.
    """

    def __init__(self, film: Film):
        shown = without_components(planes(film))
        self._is_strip = aspect(shown[0]) > _STRIP
        numbers = film.chosen(_LOOKED_AT)
        self._maps = [map_of(film, q, numbers, _SIDE) for q in shown[: 1 if self._is_strip else _MOST_ROWS]]
        self._names = max((m.names for m in self._maps), key=len)
        alone = [m for m in self._maps if len(m.names) < len(self._names)]
        self._rows = [[m] for m in self._maps if m not in alone] + ([alone] if alone else [])
        side = _LONG if self._is_strip else _VIEWED if any(m.quantity.view for m in self._maps) else _SIDE
        self._heights = [max(round(side / aspect(m.quantity), 2), 0.1) for m, *_ in self._rows]
        self._panels: list[Any] = []
        if self._is_strip:
            self.size = _LONG + 1.75, 0.75 + len(self._names) * (self._heights[0] + 0.34)
        else:
            self.size = len(self._names) * (side + _BESIDE), 0.85 + sum(h + 0.2 for h in self._heights)

    def arrange(self, fig: Figure) -> None:
        if self._is_strip:
            grid = fig.subplots(len(self._names), 1, squeeze=False).T
        else:
            grid = fig.subplots(len(self._rows), len(self._names), squeeze=False, height_ratios=self._heights)
        name_points(fig, self._maps[0].film, 0.5, 1 - 0.13 / self.size[1], ha="center")
        for r, (members, row) in enumerate(zip(self._rows, grid, strict=True)):
            parts = [row[k : k + 1] for k in range(len(members))] if len(members[0].names) < len(row) else [row]
            for axes in row[sum(map(len, parts)) :]:
                axes.set_visible(False)
            for one, panels in zip(members, parts, strict=True):
                self._panels.append((one, panels))
                self._label(fig, one, panels, is_first=r == 0)

    def _label(self, fig: Figure, one: Map, panels: Sequence[Axes], is_first: bool) -> None:
        """Label the panels of a field with names, axes and colour bars."""
        quantity, arrows = one.quantity, one.arrows
        for axes, name in zip(panels, one.names, strict=True):
            axes.set(xlabel=quantity.axes[1].label, ylabel=quantity.axes[0].label)
            axes.locator_params(nbins=4, axis="y")
            axes.label_outer()
            label = quantity.label_of(name)
            if self._is_strip:
                title = label if name == "error" else f"{name}, {label}"
            else:
                # an empty title leaves room to name arrows
                title = name if is_first or len(panels) == 1 else " " * bool(quantity.arrows)
            axes.set_title(title, fontsize=9)
            # truth and prediction share one colour bar, beside the prediction
            if self._is_strip or name in one.barred:
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

    def draw(self, number: int) -> list[Artist]:
        return [artist for one, panels in self._panels for artist in one.draw(panels, number)]


def write_movie(path: Path, frames: Iterator[np.ndarray], count: int) -> Path:
    """Write a movie from frames that come one at a time; returns the file, which appears when it is complete.

    An odd width or height is padded with white to an even one, which yuv420p needs. Frames are never resized.

    **Arguments:**

    - `path`: the path of the movie; its suffix becomes .mp4 or .gif.
    - `frames`: bytes (height, width, 3).
    - `count`: the number of frames.
    """
    rate = int(min(max(round(count / _SECONDS), _SLOWEST), _FASTEST))
    suffix, codec, pixels = _MP4 if _MP4[1] in av.codecs_available else _GIF
    path, found = path.with_suffix(suffix), 0
    # in memory: on a full disk the destructor of imageio's plugin would print a traceback
    encoded = io.BytesIO()
    try:
        with imageio.v3.imopen(encoded, "w", plugin="pyav", extension=suffix) as file:
            file.init_video_stream(codec, fps=rate, pixel_format=pixels)
            for frame in frames:
                height, width = frame.shape[:2]
                file.write_frame(np.pad(frame, ((0, height % 2), (0, width % 2), (0, 0)), constant_values=255))
                found += 1
    except av.error.FFmpegError as error:
        raise PdefitError(f"The encoder {codec} could not write '{path.name}' ({first_line(error)})") from error
    if found != count:
        raise PdefitError(f"'{path.name}' was to hold {count} frames, but got {found}; draw it again")
    with beside(path) as neighbour:
        neighbour.write_bytes(encoded.getbuffer())
    return path
