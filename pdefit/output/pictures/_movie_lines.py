"""Frames of fields on a line."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from pdefit.data.readers.fields import Film
from pdefit.output.pictures._maps import scales
from pdefit.output.pictures._quantities import Quantity, with_unit
from pdefit.output.pictures._scales import margin, scale_of
from pdefit.output.pictures._stage import Stage
from pdefit.output.pictures.style import BAD, NAMES, looks

_LOOKED_AT = 24
_MOST_ROWS = 3


def lines_scene(film: Film, shown: Sequence[Quantity], numbers: list[int]) -> tuple[Stage, Iterator[np.ndarray]]:
    """Stage and frames of up to three fields below each other: values to the left, the error to the right."""
    shown = [q for q in shown if len(q.axes) == 1][:_MOST_ROWS]
    columns = 1 + any(q.field.reference for q in shown)
    stage = Stage(4.4 * columns, 0.3 + 2.7 * len(shown))
    grid: Any = stage.figure.subplots(len(shown), columns, sharex="row", squeeze=False)
    lines = [_prepare(stage, film, q, row) for q, row in zip(shown, grid, strict=True)]
    stage.keep()
    return stage, _shots(stage, film, shown, lines, numbers)


def _prepare(stage: Stage, film: Film, quantity: Quantity, row: Any) -> dict[str, Any]:
    (space,) = quantity.axes
    look = film.chosen(_LOOKED_AT)
    values = [np.stack(list(quantity.frames(film, kind, look))) for kind in quantity.field.kinds]
    scale = scale_of(np.stack(values))
    row[0].set(xlabel=space.label, ylabel=quantity.label, xlim=sorted(space.edges), ylim=margin(scale))
    row[0].set_yscale("log" if scale.is_log else "linear")
    lines: dict[str, Any] = {}
    for kind, style in looks(quantity.field.kinds).items():
        nothing = np.full(space.values.size, np.nan)
        lines[kind] = stage.moving(row[0].plot(space.values, nothing, label=NAMES[kind], **style)[0])
    row[0].legend(
        loc="upper left" if scale.is_log else "upper right", fontsize=7, frameon=True, framealpha=0.8, edgecolor="none"
    )
    reference = quantity.field.reference
    if reference is not None:
        errors = scales(list(quantity.pairs(film, look)))[1]
        label = with_unit(f"prediction - {NAMES[reference]}", quantity.field.unit)
        row[1].set(xlabel=space.label, ylabel=label, ylim=margin(errors))
        row[1].axhline(0.0, color="black", lw=0.6)
        lines["error"] = stage.moving(
            row[1].plot(space.values, np.full(space.values.size, np.nan), color=BAD, lw=1.2)[0]
        )
    elif row.size > 1:
        row[1].set_visible(False)
    return lines


def _shots(
    stage: Stage, film: Film, shown: Sequence[Quantity], lines: list[dict[str, Any]], numbers: list[int]
) -> Iterator[np.ndarray]:
    rows = [[q.frames(film, kind, numbers) for kind in q.field.kinds] for q in shown]
    for number in numbers:
        stage.tell(film, number)
        for quantity, drawn, sources in zip(shown, lines, rows, strict=True):
            values = {kind: next(source) for kind, source in zip(quantity.field.kinds, sources, strict=True)}
            if quantity.field.reference is not None:
                values["error"] = values["predicted"] - values[quantity.field.reference]
            for kind, line in drawn.items():
                line.set_ydata(values[kind])
        yield stage.shot()
