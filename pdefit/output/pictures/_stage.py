"""Stage of a movie: a figure of which only some parts change from frame to frame."""

from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from pdefit.data.readers.fields import Film
from pdefit.output.pictures.style import BEYOND

_DPI = 100


class Stage:
    """A figure that is drawn once, and upon which only its `moving` artists are drawn for each frame.

    Frames are bytes (height, width, 3).

    **Arguments:**

    - `width`, `height`: in inches of 100 pixels. Axes are placed by matplotlib, below the line with the time.
    """

    def __init__(self, width: float, height: float):
        layout = ConstrainedLayoutEngine(compress=True, rect=(0, 0, 1, 1 - 0.3 / height))
        self.figure = Figure(figsize=(width, height), dpi=_DPI, layout=layout)
        self._canvas = FigureCanvasAgg(self.figure)
        self._moving: list[Any] = []
        self._kept: Any = None
        self.clock = self.moving(self.figure.text(0.012, 0.985, "", ha="left", va="top", fontsize=10))
        self.phase = self.moving(self.figure.text(0.988, 0.985, "", ha="right", va="top", fontsize=10, weight="bold"))

    def moving(self, artist: Any) -> Any:
        """Register an artist that is drawn in every frame; returns it."""
        artist.set_animated(True)
        self._moving.append(artist)
        return artist

    def tell(self, film: Film, number: int) -> None:
        """Show the time of a frame, and whether the model was fitted to it."""
        self.clock.set_text(f"t = {film.when(number)}")
        if film.forecast < film.ts.size:
            later = number >= film.forecast
            self.phase.set(text="forecast" if later else "fit", color=BEYOND if later else "black")

    def keep(self) -> None:
        """Draw all parts that never change, and fix the places of all parts."""
        self._canvas.draw()
        self.figure.set_layout_engine("none")
        self._kept = self._canvas.copy_from_bbox(self.figure.bbox)

    def shot(self) -> np.ndarray:
        """Picture as it is now: the kept parts, and upon them the moving ones."""
        self._canvas.restore_region(self._kept)
        for artist in self._moving:
            self.figure.draw_artist(artist)
        return np.asarray(self._canvas.buffer_rgba())[..., :3].copy()
