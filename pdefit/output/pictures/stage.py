"""A picture of which only some parts change from frame to frame."""

from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from pdefit.data.readers.fields import Film
from pdefit.output.pictures.scales import Scale
from pdefit.output.pictures.style import BEYOND

_DPI = 100


class Stage:
    """A figure that is drawn once; then only its `moving` artists and its images, upon what was kept. Frames are bytes
    (height, width, 3)."""

    def __init__(self, width: float, height: float):
        """Inches, of 100 pixels."""
        self.figure = Figure(figsize=(width, height), dpi=_DPI)
        self._canvas = FigureCanvasAgg(self.figure)
        self._moving: list[Any] = []
        self._kept: Any = None
        self.clock = self.moving(self.figure.text(0.012, 0.985, "", ha="left", va="top", fontsize=10))
        self.phase = self.moving(self.figure.text(0.988, 0.985, "", ha="right", va="top", fontsize=10, weight="bold"))

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        return self._canvas.get_width_height()

    def moving(self, artist: Any) -> Any:
        """An artist that is drawn in every frame."""
        artist.set_animated(True)
        self._moving.append(artist)
        return artist

    def tell(self, film: Film, number: int) -> None:
        """The time of a frame, and whether the model was fitted to it."""
        self.clock.set_text(f"t = {film.when(number)}")
        if film.forecast < film.ts.size:
            later = number >= film.forecast
            self.phase.set(text="forecast" if later else "fit", color=BEYOND if later else "black")

    def keep(self) -> None:
        """Draw what never changes."""
        self._canvas.draw()
        self._kept = self._canvas.copy_from_bbox(self.figure.bbox)

    def shot(self) -> np.ndarray:
        """The picture as it is now: what was kept, and upon it what moves."""
        self._canvas.restore_region(self._kept)
        for artist in self._moving:
            self.figure.draw_artist(artist)
        return np.asarray(self._canvas.buffer_rgba())[..., :3].copy()


class Raster:
    """Pixels inside axes that show cells (rows, columns), rows upwards: every pixel takes the colour of its cell."""

    def __init__(self, stage: Stage, axes: Any, scale: Scale, vertical: np.ndarray, horizontal: np.ndarray):
        """Coordinates of the cells along both axes; the axes' limits say what is seen."""
        self._colors, self._scale = scale.table(), scale
        box, height = axes.get_window_extent(), stage.size[1]
        left, right = round(box.x0), round(box.x1)
        above, below = height - round(box.y1), height - round(box.y0)
        self._place = slice(above, below), slice(left, right)
        (bottom, top), (start, stop) = axes.get_ylim(), axes.get_xlim()
        up = cells_of(vertical, bottom, top, below - above)[::-1]
        self._cells = np.ix_(up, cells_of(horizontal, start, stop, right - left))

    def paint(self, shot: np.ndarray, values: np.ndarray) -> None:
        """Put values (rows, columns) into a frame."""
        shot[self._place] = self._colors[self._scale.rows(values)[self._cells]]


def cells_of(places: np.ndarray, first: float, last: float, count: int) -> np.ndarray:
    """For each of `count` pixels between two ends the nearest of some places, which increase or decrease."""
    pixels = first + (np.arange(count) + 0.5) * (last - first) / count
    order = np.argsort(places)
    sorted_ = np.asarray(places, float)[order]
    return order[np.searchsorted((sorted_[1:] + sorted_[:-1]) / 2, pixels)]
