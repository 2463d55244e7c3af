"""Frames of bodies that move."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from pdefit.files.film import Film
from pdefit.pictures.orbits import color_of, frame_of, turns_too_fast, widest, windows
from pdefit.pictures.quantities import Bodies
from pdefit.pictures.stage import Stage
from pdefit.pictures.style import NAMES

_LOOKED_AT = 400
# the part of a film that a tail remembers
_TAIL = 0.06
_NAMED = 12


def bodies_scene(film: Film, moving: Bodies, numbers: list[int]) -> tuple[Stage, Iterator[np.ndarray]]:
    """Predicted bodies as points with tails, the true (or observed) ones as rings around them; the inner ones a second time
    where the outer ones are much further away."""
    look = moving.positions(film, "predicted", film.chosen(_LOOKED_AT))
    plane = widest(look)
    views = windows(look[..., plane])
    width = 0.3 + 4.2 * len(views) + (1.1 if len(moving.names) <= _NAMED else 0.0)
    stage = Stage(width, 4.4)
    drawn = []
    for k, view in enumerate(views):
        axes = stage.figure.add_axes(((0.75 + 4.2 * k) / width, 0.5 / 4.4, 3.4 / width, 3.4 / 4.4))
        frame_of(axes, moving, plane, view)
        drawn.append([_body(stage, axes, i, moving.field.reference) for i in range(len(moving.names))])
        if k == len(views) - 1 and len(moving.names) <= _NAMED:
            marks = [axes.plot([], [], "o", ms=4, color=color_of(i), label=n)[0] for i, n in enumerate(moving.names)]
            if moving.field.reference is not None:
                marks += axes.plot([], [], **_RING, label=NAMES[moving.field.reference])
            axes.legend(handles=marks, loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=7)
    stage.keep()
    return stage, _shots(stage, film, moving, plane, drawn, numbers)


_RING: dict[str, Any] = {"ls": "", "marker": "o", "ms": 7, "mfc": "none", "mec": "black", "mew": 0.7}


def _body(stage: Stage, axes: Any, k: int, reference: str | None) -> tuple[Any, Any, Any]:
    color = color_of(k)
    tail = stage.moving(axes.plot([], [], color=color, lw=1.2, alpha=0.6)[0])
    point = stage.moving(axes.plot([], [], "o", ms=4, color=color)[0])
    ring = stage.moving(axes.plot([], [], **_RING)[0]) if reference else None
    return tail, point, ring


def _shots(
    stage: Stage, film: Film, moving: Bodies, plane: list[int], drawn: list[list[Any]], numbers: list[int]
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
            for view in drawn:
                for k, (line, point, ring) in enumerate(view):
                    line.set_data(*tail[:, k].T)
                    if turns_too_fast(tail[:, k]):
                        line.set(linestyle="", marker=".", markersize=2.0)
                    point.set_data(tail[-1:, k, 0], tail[-1:, k, 1])
                    if ring is not None and true is not None:
                        ring.set_data(true[i, k, :1], true[i, k, 1:])
            yield stage.shot()
