"""Frames of bodies that move."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from pdefit.data.readers.fields import Film
from pdefit.output.pictures._orbits import color_of, frame_of, turns_too_fast, windows
from pdefit.output.pictures._quantities import Bodies, widest
from pdefit.output.pictures._stage import Stage
from pdefit.output.pictures.style import NAMES

_LOOKED_AT = 400
# length of a tail, as a fraction of all frames
_TAIL = 0.06
_NAMED = 12


def bodies_scene(film: Film, moving: Bodies, numbers: list[int]) -> tuple[Stage, Iterator[np.ndarray]]:
    """Stage and frames of bodies: predicted ones as points with tails, true (or observed) ones as rings around them.

    The inner bodies are shown a second time where the outer ones are much further away.
    """
    look = moving.positions(film, "predicted", film.chosen(_LOOKED_AT))
    begin = moving.positions(film, "predicted", range(min(film.ts.size, _LOOKED_AT)))
    plane = widest(look)
    views = windows(look[..., plane])
    width = 0.3 + 4.2 * len(views) + (1.1 if len(moving.names) <= _NAMED else 0.0)
    stage = Stage(width, 4.4)
    row: Any = stage.figure.subplots(1, len(views), squeeze=False)
    dotted = [turns_too_fast(begin[:, i][:, plane]) for i in range(len(moving.names))]
    drawn = []
    for axes, view in zip(row[0], views, strict=True):
        frame_of(axes, moving, plane, view)
        drawn.append(_bodies(stage, axes, dotted, moving.field.reference))
    if len(moving.names) <= _NAMED:
        last = row[0][-1]
        marks = [last.plot([], [], "o", ms=4, color=color_of(i), label=n)[0] for i, n in enumerate(moving.names)]
        if moving.field.reference is not None:
            marks += last.plot([], [], **_RING, label=NAMES[moving.field.reference])
        last.legend(handles=marks, loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=7)
    stage.keep()
    return stage, _shots(stage, film, moving, plane, drawn, numbers)


_RING: dict[str, Any] = {"ls": "", "marker": "o", "ms": 7, "mfc": "none", "mec": "black", "mew": 0.7}


def _bodies(stage: Stage, axes: Any, dotted: list[bool], reference: str | None) -> tuple[list[Any], Any, Any]:
    """Artists of the bodies: a tail for each, one for all points, and one for all rings."""
    looks: list[Any] = [{"ls": "", "marker": ".", "ms": 2.0} if dots else {"lw": 1.2} for dots in dotted]
    tails = [
        stage.moving(axes.plot([], [], color=color_of(k), alpha=0.6, **look)[0]) for k, look in enumerate(looks)
    ]  # fmt: skip
    colors = [color_of(k) for k in range(len(dotted))]
    points = stage.moving(axes.scatter([0.0] * len(dotted), [0.0] * len(dotted), s=18, c=colors, zorder=3))
    rings = stage.moving(axes.plot([], [], **_RING)[0]) if reference else None
    return tails, points, rings


def _shots(
    stage: Stage,
    film: Film,
    moving: Bodies,
    plane: list[int],
    drawn: list[tuple[list[Any], Any, Any]],
    numbers: list[int],
) -> Iterator[np.ndarray]:
    remembered = max(2, round(_TAIL * film.ts.size))
    tail = np.empty((0, len(moving.names), 2))
    reference, before = moving.field.reference, 0
    for first in range(0, len(numbers), _LOOKED_AT // 4):
        block = numbers[first : first + _LOOKED_AT // 4]
        true = None if reference is None else moving.positions(film, reference, block)[..., plane]
        for i, number in enumerate(block):
            passed = moving.positions(film, "predicted", range(before, number + 1))[..., plane]
            tail, before = np.concatenate([tail, passed])[-remembered:], number + 1
            stage.tell(film, number)
            for tails, points, rings in drawn:
                for k, line in enumerate(tails):
                    line.set_data(*tail[:, k].T)
                points.set_offsets(tail[-1])
                if rings is not None and true is not None:
                    rings.set_data(*true[i].T)
            yield stage.shot()
