"""Bodies in the plane of their two widest axes: positions in a frame, paths so far, and errors."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from pdefit.data.readers.fields import Film
from pdefit.output.pictures._quantities import Bodies, widest
from pdefit.output.pictures.style import COLORS, NAMES, figure, mark_forecast, with_unit

# turn between frames in radians above which an orbit is drawn as dots, because lines between them would be wrong
_TURN = 0.3
# ratio of the widest orbit to the median one above which the inner orbits get a picture of their own
_WIDER = 4.0
_MOST_FRAMES = 3000
_NAMED = 12
_RING: dict[str, Any] = {"ls": "", "marker": "o", "ms": 7, "mfc": "none", "mec": "black", "mew": 0.7}


class Orbits:
    """Moving bodies, with any frame to be drawn.

    Predicted bodies are points at the end of their wide, coloured path. True (or observed) ones are rings at the end of
    a thin, black path. The inner bodies are shown a second time if the outer ones are much further away.

    **Arguments:**

    - `film`, `moving`: the film, and its bodies.
    - `numbers`: the indices of the frames to draw.
    - `tail`: the length of a path, as a fraction of the film.
    """

    def __init__(self, film: Film, moving: Bodies, numbers: Sequence[int], tail: float = 1.0):
        self._moving, self.reference = moving, moving.field.reference
        self.numbers = np.union1d(film.chosen(_MOST_FRAMES), np.asarray(numbers)).tolist()
        self._tail = max(2, round(tail * len(self.numbers)))
        self.predicted = moving.positions(film, "predicted", self.numbers)
        self.true = None if self.reference is None else moving.positions(film, self.reference, self.numbers)
        self._plane = widest(self.predicted)
        self._views = windows(self.predicted[..., self._plane])
        self._dotted = [turns_too_fast(way[:, self._plane]) for way in self.predicted.swapaxes(0, 1)]
        self._colors = [color_of(k) for k in range(len(moving.names))]
        self._panels: list[Any] = []

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in inches."""
        return 0.3 + 4.2 * len(self._views) + (1.1 if len(self._moving.names) <= _NAMED else 0.0), 4.4

    def arrange(self, fig: Figure) -> None:
        """Make the axes of a figure, or of a part of it, with a legend."""
        self._panels = list(fig.subplots(1, len(self._views), squeeze=False)[0])
        unit = self._moving.field.unit
        across, up = (with_unit(self._moving.axis_names[i], unit) for i in self._plane)
        for axes, (x, y, half) in zip(self._panels, self._views, strict=True):
            limits = {"xlim": (x - half, x + half), "ylim": (y - half, y + half)}
            axes.set(**limits, aspect="equal", xlabel=across, ylabel=up)
        last, marks = self._panels[-1], []
        if self.reference is not None:
            marks += last.plot([], [], **_RING | {"ls": "-"}, lw=0.5, color="black", label=NAMES[self.reference])
        if len(self._moving.names) <= _NAMED:
            named = zip(self._moving.names, self._colors, strict=True)
            marks += [last.plot([], [], "o-", ms=4, color=color, label=name)[0] for name, color in named]
        if marks:
            last.legend(handles=marks, loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=7)

    def draw(self, number: int) -> list[Artist]:
        """Draw a frame on the axes; returns the artists."""
        end = self.numbers.index(number) + 1
        passed = slice(max(0, end - self._tail), end)
        drawn = []
        for axes in self._panels:
            predicted = self.predicted[passed][..., self._plane]
            drawn += self._ways(axes, predicted, self._colors, zorder=2, size=2.0)
            drawn.append(axes.scatter(*predicted[-1].T, s=20, c=self._colors, ec="white", lw=0.4, zorder=4))
            if self.true is not None:
                true = self.true[passed][..., self._plane]
                drawn += self._ways(axes, true, ["black"] * len(self._colors), zorder=3, size=0.5)
                drawn += axes.plot(*true[-1].T, **_RING, zorder=4)
        return drawn

    def _ways(self, axes: Axes, ways: np.ndarray, colors: list[str], zorder: float, size: float) -> list[Artist]:
        """Draw paths (frames, n, 2) of bodies: as lines, or as dots if frames are too far apart."""
        every = [*zip(ways.swapaxes(0, 1), colors, self._dotted, strict=True)]
        lines = [(way, color) for way, color, is_dotted in every if not is_dotted]
        found = LineCollection([way for way, _ in lines], colors=[c for _, c in lines], lw=size, zorder=zorder)
        look = {"ls": "", "marker": ".", "mew": 0, "ms": 1.0 + 1.5 * size, "zorder": zorder}
        dots = [axes.plot(*way.T, color=color, **look)[0] for way, color, is_dotted in every if is_dotted]
        return [axes.add_collection(found, autolim=False), *dots]


def draw_orbits(path: Path, film: Film, moving: Bodies) -> None:
    """Draw the last frame with the whole path, and the distance between truth and prediction over time."""
    last = film.ts.size - 1
    orbits = Orbits(film, moving, [last])
    is_compared = orbits.true is not None
    with figure(path, 7.2, min(4.4, orbits.size[1] * 7.2 / orbits.size[0]) + 2.4 * is_compared) as fig:
        upper: Any = fig
        if is_compared:
            halves: Any = fig.subfigures(2, 1, height_ratios=[3.4, 2.4])
            upper = halves[0]
            _errors(halves[1].subplots(), film, moving, orbits)
        orbits.arrange(upper)
        orbits.draw(last)


def _errors(axes: Axes, film: Film, moving: Bodies, orbits: Orbits) -> None:
    """Draw the distance between prediction and truth of each body, over time."""
    off = np.linalg.norm(orbits.predicted - orbits.true, axis=-1)
    if np.any(off > 0):
        axes.set_yscale("log")
        off = np.where(off > 0, off, np.nan)
    for k, distances in enumerate(off.T):
        axes.plot(film.ts[orbits.numbers], distances, lw=0.8, color=color_of(k))
    mark_forecast(axes, film, named=True)
    label = with_unit(f"|prediction - {NAMES[orbits.reference or 'true']}|", moving.field.unit)
    axes.set(xlabel=with_unit("time", film.time_unit), ylabel=label)


def windows(ways: np.ndarray) -> list[tuple[float, float, float]]:
    """Squares (x, y, half side) that show all orbits, and the inner ones if they would be too small.

    **Arguments:**

    - `ways` (frames, n, 2): positions of n bodies in a plane.
    """
    finite = np.nan_to_num(ways)
    low, high = finite.min(axis=(0, 1)), finite.max(axis=(0, 1))
    middle = (low + high) / 2
    whole = 0.55 * float((high - low).max()) or 1.0
    views = [(float(middle[0]), float(middle[1]), whole)]
    center = np.median(finite, axis=(0, 1))
    reach = np.sort(np.abs(finite - center).max(axis=(0, 2)))
    inner = 1.15 * float(reach[reach.size // 2])
    if reach.size > 3 and inner > 0 and whole > _WIDER * inner:
        views.append((float(center[0]), float(center[1]), inner))
    return views


def color_of(k: int) -> str:
    """Colour of the body with index k."""
    return COLORS[k % len(COLORS)]


def turns_too_fast(way: np.ndarray) -> bool:
    """True if the frames of an orbit (frames, 2) are too far apart to be joined by lines."""
    steps = np.diff(way, axis=0)
    a, b = steps[:-1], steps[1:]
    turn = np.abs(np.arctan2(a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0], (a * b).sum(axis=1)))
    turn = turn[np.isfinite(turn)]
    return bool(turn.size and np.median(turn) > _TURN)
