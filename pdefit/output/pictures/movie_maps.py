"""Frames of fields on a plane."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from matplotlib.cm import ScalarMappable

from pdefit.data.readers.fields import Film
from pdefit.output.pictures.maps import aspect, colorbar, panels, scales, value_of
from pdefit.output.pictures.quantities import Quantity, with_unit
from pdefit.output.pictures.scales import Scale
from pdefit.output.pictures.stage import Raster, Stage

# colours are chosen from so many frames
_LOOKED_AT = 24
_STRIP = 2.2
_MOST_ROWS = 3
# inches: a panel's longer side, and the room around panels
_SIDE, _LONG, _AROUND = 2.7, 6.6, 0.62


def maps_scene(film: Film, shown: Sequence[Quantity], numbers: list[int]) -> tuple[Stage, Iterator[np.ndarray]]:
    """Up to three fields, each in a row of its own: truth, prediction and error. Long planes lie below each other, and only
    the first field is shown."""
    strips = aspect(shown[0]) > _STRIP
    shown = [q for q in shown if len(q.axes) == 2][: 1 if strips else _MOST_ROWS]
    rows = [panels(q.field.reference) for q in shown]
    stage, boxes = _strips(rows[0], aspect(shown[0])) if strips else _table(rows, [aspect(q) for q in shown])
    painters: list[list[tuple[str, Raster]]] = []
    for r, (quantity, names) in enumerate(zip(shown, rows, strict=True)):
        found = scales(list(quantity.pairs(film, film.chosen(_LOOKED_AT))))
        painters.append([])
        for k, name in enumerate(names):
            scale = found[1] if name == "error" else found[0]
            axes = stage.figure.add_axes(boxes[r][k])
            is_last = r == len(shown) - 1 and (not strips or k == len(names) - 1)
            _prepare(axes, quantity, first=strips or k == 0, last=is_last)
            unit = with_unit("error", quantity.field.unit) if name == "error" else quantity.label
            title = unit if name == "error" else f"{name}, {unit}"
            axes.set_title(title if strips else "" if r else name, fontsize=9)
            painters[-1].append((name, Raster(stage, axes, scale, quantity.axes[0].values, quantity.axes[1].values)))
            # what truth and prediction share stands beside the prediction
            if strips or name in ("prediction", "error"):
                _colorbar(stage, axes, scale, "" if strips else unit)
    stage.keep()
    return stage, _shots(stage, film, shown, painters, numbers)


def _shots(
    stage: Stage,
    film: Film,
    shown: Sequence[Quantity],
    painters: list[list[tuple[str, Raster]]],
    numbers: list[int],
) -> Iterator[np.ndarray]:
    for number, *frames in zip(numbers, *(q.pairs(film, numbers) for q in shown), strict=True):
        stage.tell(film, number)
        shot = stage.shot()
        for pair, row in zip(frames, painters, strict=True):
            for name, raster in row:
                raster.paint(shot, value_of(name, *pair))
        yield shot


def _table(rows: list[list[str]], wide: list[float]) -> tuple[Stage, list[list[tuple[float, float, float, float]]]]:
    """Panels beside each other; a colour bar stands right of all but the first of three."""
    high = [round(_SIDE / w, 2) for w in wide]
    lefts = [_AROUND, _AROUND + _SIDE + 0.24, _AROUND + 2 * _SIDE + 1.15][: max(len(names) for names in rows)]
    width, height = lefts[-1] + _SIDE + 0.85, 0.55 + sum(h + 0.2 for h in high) + 0.3
    stage, boxes, above = Stage(width, height), [], height - 0.55
    for names, h in zip(rows, high, strict=True):
        boxes.append([(x / width, (above - h) / height, _SIDE / width, h / height) for x in lefts[: len(names)]])
        above -= h + 0.2
    return stage, boxes


def _strips(names: list[str], wide: float) -> tuple[Stage, list[list[tuple[float, float, float, float]]]]:
    h = max(round(_LONG / wide, 2), 0.1)
    width, height = _LONG + 1.75, 0.3 + len(names) * (h + 0.34) + 0.45
    boxes = [
        (_AROUND / width, (height - 0.3 - (k + 1) * (h + 0.34)) / height, _LONG / width, h / height)
        for k in range(len(names))
    ]
    return Stage(width, height), [boxes]


def _prepare(axes: Any, quantity: Quantity, first: bool, last: bool) -> None:
    vertical, horizontal = quantity.axes
    ends = sorted(vertical.edges, reverse=vertical.name == "colatitude")
    axes.set(xlim=sorted(horizontal.edges), ylim=ends)
    axes.grid(False)
    axes.locator_params(nbins=4, axis="y")
    axes.tick_params(labelleft=first, labelbottom=last)
    if first:
        axes.set_ylabel(vertical.label)
    if last:
        axes.set_xlabel(horizontal.label, labelpad=1)


def _colorbar(stage: Stage, axes: Any, scale: Scale, label: str) -> None:
    """Beside a panel; without a label it is low, and has three numbers."""
    box, width = axes.get_position(), stage.figure.get_figwidth()
    beside = stage.figure.add_axes((box.x1 + 0.06 / width, box.y0, 0.1 / width, box.height))
    bar = colorbar(stage.figure, ScalarMappable(scale.norm(), scale.colormap()), beside, scale, label)
    beside.tick_params(labelsize=7)
    bar.set_label(bar.ax.get_ylabel(), fontsize=8, labelpad=4)
    if not label and not scale.is_log:
        ticks = np.linspace(scale.low, scale.high, 3)
        nothing = 1e-3 * (scale.high - scale.low)
        bar.set_ticks(list(ticks), labels=[f"{0.0 if abs(x) < nothing else x:.2g}" for x in ticks])
