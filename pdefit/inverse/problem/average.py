"""Averages over windows, such as the interrogation windows of particle image velocimetry."""

import functools
from collections.abc import Sequence

import equinox as eqx
import numpy as np

from pdefit._util.errors import PdefitError
from pdefit.inverse.problem._along_axes import AbstractAlongAxes, Faces, as_faces
from pdefit.systems.grid import AbstractGrid


class Average(AbstractAlongAxes):
    """The operator that averages every field over a window centred at each of its points, such as that of a PIV vector.

    For vectors of particle image velocimetry, and pixels wider than a cell. Not for boxes at arbitrary places, which
    `At` has as `average`.

    A value counts as the average over a cell around its point. A window of 2.5 cells takes one whole cell and three
    quarters of the cells at either side. Windows wrap around periodic axes. Near other ends a window is cut where the
    points of the field end, and what is left has the weights. Its centre of mass then lies further inside.

    Shapes and positions do not change, so that staggered velocities stay on their faces. `Corners` and `Subsample` may
    follow. A window of one cell or less changes nothing.

    **Arguments:**

    - `width`: the edge lengths of the window, in cells. One number holds for all axes.
    - `grid`: the grid of the fields; by default that of the problem's system.
    - `faces`: for each field on faces the number of the axis normal to them, such as `{u: 0, v: 1}`. By default what the
      system states.
    """

    width: tuple[float, ...] | float = eqx.field(
        static=True, converter=lambda w: tuple(map(float, w)) if isinstance(w, Sequence) else float(w)
    )
    grid: AbstractGrid | None = None
    faces: Faces | None = eqx.field(default=None, static=True, converter=as_faces)

    def __check_init__(self):
        widths = self.width if isinstance(self.width, tuple) else (self.width,)
        if not all(np.isfinite(w) and w > 0 for w in widths):
            raise PdefitError(f"average expects widths above 0 in cells, but got {self.width}")
        if self.grid is not None and isinstance(self.width, tuple) and len(widths) != self.grid.ndim:
            raise PdefitError(f"average expects a width for each of {self.grid.ndim} axes, but got {self.width}")

    def moved(self, coords):
        return dict(coords)

    def matrix(self, axis, size, start):
        width = self.width[axis] if isinstance(self.width, tuple) else self.width
        return None if width <= 1 else _shares(size, width, self.grid is not None and self.grid.periodic[axis])


@functools.lru_cache
def _shares(size: int, width: float, wraps: bool) -> np.ndarray:
    """The share of every cell in the window around each point, (n, n)."""
    distance = np.abs(np.arange(size)[:, None] - np.arange(size)).astype(float)
    turns = int(width / size) + 1 if wraps else 0
    # the part of a cell of length 1 that lies within half a width
    parts = [np.clip((width + 1) / 2 - np.abs(distance + k * size), 0, 1) for k in range(-turns, turns + 1)]
    total = np.sum(parts, axis=0)
    return total / np.sum(total, axis=1, keepdims=True)
