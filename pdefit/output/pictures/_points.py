"""Signed points of frames, such as phase singularities, on the maps of fields."""

from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pdefit.data.readers.fields import Film
from pdefit.output.pictures._quantities import Quantity

# faces of circles for positive and negative numbers; the edge has the other colour
_FACES = {True: "white", False: "black"}


def draw_points(axes: Axes, film: Film, quantity: Quantity, panel: str, number: int) -> list[Artist]:
    """Draw the points of a frame that lie in the plane of a quantity; returns the artists."""
    columns, drawn = film.points.get(panel, {}), list[Any]()
    vertical, horizontal = (axis.name for axis in quantity.axes)
    if quantity.view or {vertical, horizontal} != {*columns} - {"frame", _sign(film)}:
        return drawn
    for is_positive, face in _FACES.items():
        here = (columns["frame"] == number) & ((columns[_sign(film)] > 0) == is_positive)
        look: Any = {"ls": "", "marker": "o", "ms": 5, "mew": 0.8, "mfc": face, "mec": _FACES[not is_positive]}
        drawn += axes.plot(
            columns[horizontal][here], columns[vertical][here], **look, zorder=4, scalex=False, scaley=False
        )
    return drawn


def name_points(fig: Figure, film: Film, x: float, y: float, **place: Any) -> None:
    """Draw a legend of the signs of the circles, at a position in units of the figure."""
    if film.points:
        text = f"{_sign(film)}:  \N{WHITE CIRCLE} +   \N{BLACK CIRCLE} \N{MINUS SIGN}"
        fig.text(x, y, text, va="center", fontsize=8, **place)


def _sign(film: Film) -> str:
    """Name of the last column, whose sign is shown."""
    return next(([*columns][-1] for columns in film.points.values()), "")
