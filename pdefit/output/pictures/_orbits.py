"""Orbits of bodies in the plane of their two widest axes, and the error of their prediction."""

from pathlib import Path
from typing import Any

import numpy as np

from pdefit.data.readers.fields import Film
from pdefit.output.pictures._quantities import Bodies, widest, with_unit
from pdefit.output.pictures._spacetime import mark_forecast
from pdefit.output.pictures.style import COLORS, NAMES, figure

# turn between frames in radians above which an orbit is drawn as dots, because lines between them would be wrong
_TURN = 0.3
# ratio of the widest orbit to the median one above which the inner orbits get a picture of their own
_WIDER = 4.0
_MOST_FRAMES = 3000
_NAMED = 12


def draw_orbits(path: Path, film: Film, moving: Bodies) -> None:
    """Draw the orbits of truth (or what was observed) and prediction, and the distance between the two over time.

    A prediction is a line where frames lie close enough, else dots.
    """
    numbers = film.chosen(_MOST_FRAMES)
    reference = moving.field.reference
    predicted = moving.positions(film, "predicted", numbers)
    true = None if reference is None else moving.positions(film, reference, numbers)
    plane = widest(predicted)
    views = windows(predicted[..., plane])
    with figure(path, 7.2, (3.6 if len(views) > 1 else 4.4) + (2.4 if true is not None else 0.0)) as fig:
        upper: Any = fig
        if true is not None:
            halves: Any = fig.subfigures(2, 1, height_ratios=[3.4, 2.4])
            upper = halves[0]
            _errors(halves[1].subplots(), film, moving, numbers, predicted, true)
        row: Any = upper.subplots(1, len(views), squeeze=False)
        for axes, view in zip(row[0], views, strict=True):
            for k in range(len(moving.names)):
                color = color_of(k)
                if true is not None:
                    axes.plot(*true[:, k, plane].T, **_way(true[:, k, plane], color, thin=True))
                axes.plot(*predicted[:, k, plane].T, **_way(predicted[:, k, plane], color))
                # the body at the end of its orbit, which shows the direction of motion
                axes.plot(*predicted[-1, k, plane], "o", color=color, ms=5, mec="white", mew=0.6, zorder=4)
            frame_of(axes, moving, plane, view)
        marks = row[0][0].plot([], [], color="black", lw=0.6, label=NAMES[reference]) if reference else []
        if len(moving.names) <= _NAMED:
            marks += [row[0][0].plot([], [], lw=2.2, color=color_of(k), label=n)[0] for k, n in enumerate(moving.names)]
        row[0][-1].legend(handles=marks, loc="center left", bbox_to_anchor=(1.0, 0.5))


def _errors(axes: Any, film: Film, moving: Bodies, numbers: list[int], predicted: np.ndarray, true: np.ndarray) -> None:
    ts = film.ts[numbers]
    off = np.linalg.norm(predicted - true, axis=-1)
    for k in range(len(moving.names)):
        axes.plot(ts, np.where(off[:, k] > 0, off[:, k], np.nan), lw=0.8, color=color_of(k))
    if np.any(off > 0):
        axes.set_yscale("log")
    mark_forecast(axes, film, named=True)
    off_from = NAMES[moving.field.reference or "true"]
    axes.set(
        xlabel=with_unit("time", film.time_unit), ylabel=with_unit(f"|prediction - {off_from}|", moving.field.unit)
    )


def windows(ways: np.ndarray) -> list[tuple[float, float, float]]:
    """Squares (x, y, half side) that show all orbits, and the inner ones where these would be too small.

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


def frame_of(axes: Any, moving: Bodies, plane: list[int], view: tuple[float, float, float]) -> None:
    """Limits and labels of axes with the same length along both."""
    x, y, half = view
    axes.set(xlim=(x - half, x + half), ylim=(y - half, y + half), aspect="equal")
    axes.set_xlabel(with_unit(moving.axis_names[plane[0]], moving.field.unit))
    axes.set_ylabel(with_unit(moving.axis_names[plane[1]], moving.field.unit))


def color_of(k: int) -> str:
    """Colour of body number k."""
    return COLORS[k % len(COLORS)]


def turns_too_fast(way: np.ndarray) -> bool:
    """Whether frames of an orbit (frames, 2) lie too far apart to join them."""
    steps = np.diff(way, axis=0)
    a, b = steps[:-1], steps[1:]
    turn = np.abs(np.arctan2(a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0], (a * b).sum(axis=1)))
    turn = turn[np.isfinite(turn)]
    return bool(turn.size and np.median(turn) > _TURN)


def _way(way: np.ndarray, color: str, thin: bool = False) -> dict[str, Any]:
    """Look of an orbit: the truth thin and black upon a wide, coloured prediction."""
    look: dict[str, Any] = {"color": "black" if thin else color, "zorder": 3 if thin else 2}
    if turns_too_fast(way):
        return {"ls": "", "marker": ".", "mew": 0, "ms": 1.3 if thin else 4.5, **look}
    return {"lw": 0.5 if thin else 2.2, **look}
