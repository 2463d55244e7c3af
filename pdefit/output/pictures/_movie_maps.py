"""Frames of fields on a plane."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from pdefit.data.readers.fields import Film
from pdefit.output.pictures._maps import STRIP, aspect, colorbar, draw_image, panels, scales, value_of
from pdefit.output.pictures._quantities import Quantity, with_unit
from pdefit.output.pictures._stage import Stage
from pdefit.output.pictures._vectors import arrows_on, planes, without_components

# number of frames from which the colour scale is chosen
_LOOKED_AT = 24
_MOST_ROWS = 3
# arrows of a panel, and their frames
_Moving = tuple[Any, Iterator[np.ndarray]]
# inches: a panel's longer side, that of both halves of a sphere, with and without a colour bar beside it
_SIDE, _HALVES, _LONG, _BESIDE = 2.7, 3.5, 6.6, 1.0


def maps_scene(film: Film, numbers: list[int]) -> tuple[Stage, Iterator[np.ndarray]]:
    """Stage and frames of up to three fields, each in a row: truth, prediction and error.

    Predictions of which nothing is known share a row, the last.
    Of long planes only the first field is shown, with the panels below each other. Vectors are arrows upon the fields,
    and their components have no rows of their own.
    """
    shown = without_components(planes(film))
    is_strip = aspect(shown[0]) > STRIP
    shown = shown[: 1 if is_strip else _MOST_ROWS]
    names = max((panels(q.field.reference) for q in shown), key=len)
    side = _HALVES if any(q.view for q in shown) else _SIDE
    alone = [q for q in shown if q.field.reference is None and len(names) > 1]
    rows = [[q] for q in shown if q.field.reference is not None or not alone] + ([alone] if alone else [])
    shown = [q for row in rows for q in row]
    high = [max(round((_LONG if is_strip else side) / aspect(q), 2), 0.1) for q, *_ in rows]
    if is_strip:
        shape, width, height = (len(names), 1), _LONG + 1.75, 0.75 + len(names) * (high[0] + 0.34)
    else:
        shape, width, height = (
            (len(rows), len(names)),
            len(names) * (side + _BESIDE),
            0.85 + sum(h + 0.2 for h in high),
        )
    stage = Stage(width, height)
    grid: Any = stage.figure.subplots(*shape, squeeze=False, height_ratios=None if is_strip else high)
    images, arrows = list[dict[str, Any]](), list[_Moving]()
    for r, (members, row) in enumerate(zip(rows, grid.T if is_strip else grid, strict=True)):
        for axes in row[len(members) if members == alone else len(names) :]:
            axes.set_visible(False)
        for k, quantity in enumerate(members):
            panel = row[k : k + 1] if members == alone else row
            images.append(_images(stage, film, quantity, panel, is_strip, r, numbers))
            arrows += _arrows(stage, film, quantity, panel, r == 0, numbers)
    stage.keep()
    return stage, _shots(stage, film, shown, images, arrows, numbers)


def _images(
    stage: Stage, film: Film, quantity: Quantity, row: Any, is_strip: bool, r: int, numbers: list[int]
) -> dict[str, Any]:
    """An image for each panel of a field, still empty."""
    shared, errors = scales(list(quantity.pairs(film, film.chosen(_LOOKED_AT))), quantity.is_signed)
    names, images = panels(quantity.field.reference), {}
    vertical, horizontal = quantity.axes
    nothing = np.full_like(next(quantity.frames(film, "predicted", numbers[:1])), np.nan)
    for axes, name in zip(row, names, strict=False):
        scale = errors if name == "error" else shared
        label = with_unit("error", quantity.field.unit) if name == "error" else quantity.label
        images[name] = stage.moving(draw_image(axes, quantity, nothing, scale))
        for line in (*axes.lines, *axes.texts):
            # the graticule of a sphere lies upon the image
            stage.moving(line)
        axes.set(xlabel=horizontal.label, ylabel=vertical.label)
        axes.locator_params(nbins=4, axis="y")
        title = label if name == "error" else f"{name}, {label}"
        # an empty title leaves room to name arrows
        above = name if r == 0 or len(row) == 1 else " " * bool(quantity.arrows)
        axes.set_title(title if is_strip else above, fontsize=9)
        axes.label_outer()
        # truth and prediction share one colour bar, beside the prediction
        if is_strip or name in ("prediction", "error"):
            place: dict[str, Any] = {"aspect": 8, "pad": 0.01} if is_strip else {"aspect": 25, "pad": 0.02}
            bar = colorbar(stage.figure, images[name], scale, "" if is_strip else label, ax=axes, **place)
            bar.ax.tick_params(labelsize=7)
            bar.ax.yaxis.label.set_size(8)
    return images


def _arrows(
    stage: Stage, film: Film, quantity: Quantity, row: Any, is_first: bool, numbers: list[int]
) -> Iterator[_Moving]:
    """The arrows of each panel of a field, and their frames."""
    arrows = arrows_on(film, quantity, film.chosen(_LOOKED_AT), _SIDE)
    for axes, name in zip(row, panels(quantity.field.reference) if arrows else (), strict=False):
        if arrows and name in arrows.kinds:
            drawn = stage.moving(arrows.draw(axes, arrows.nothing))
            if is_first and name == "prediction":
                # in the line with the time
                arrows.name(drawn, 0.5, 1 - 0.13 / stage.figure.get_figheight(), coordinates="figure")
            elif quantity.arrows and name == "prediction":
                arrows.name(drawn, 0.05 if len(row) > 1 else 0.4, 1 + 0.1 / _SIDE)
            yield drawn, arrows.frames(arrows.kinds[name], numbers)


def _shots(
    stage: Stage,
    film: Film,
    shown: Sequence[Quantity],
    images: list[dict[str, Any]],
    arrows: list[_Moving],
    numbers: list[int],
) -> Iterator[np.ndarray]:
    for number, *frames in zip(numbers, *(q.pairs(film, numbers) for q in shown), strict=True):
        stage.tell(film, number)
        for drawn, vectors in arrows:
            drawn.set_UVC(*next(vectors))
        for quantity, pair, row in zip(shown, frames, images, strict=True):
            for name, image in row.items():
                image.set_array(quantity.image(value_of(name, *pair)))
        yield stage.shot()
