"""Recordings beside each other: the same frame of each, what was observed above and what the model predicts below."""

import contextlib
import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pdefit._util.errors import PdefitError, unknown
from pdefit.data.readers.fields import Film, open_film
from pdefit.output.pictures._maps import aspect, colorbar, draw_image, scales
from pdefit.output.pictures._quantities import Quantity
from pdefit.output.pictures._sphere import rotation
from pdefit.output.pictures._vectors import arrows_on, planes
from pdefit.output.pictures.style import NAMES, figure

# inches: the width of the figure, of the widest panel, and the height that more columns avoid
_WIDTH, _WIDEST, _HIGHEST = 7.0, 3.0, 8.5


def recordings_figure(
    paths: Mapping[str, Path],
    out: Path,
    turns: Mapping[str, Any] | None = None,
    number: int | None = None,
    quantity: str | None = None,
) -> None:
    """Draw a small panel for each recording, with the same colours and arrows in all of them; nothing without maps.

    **Arguments:**

    - `paths`: for each recording the path of its fields.h5.
    - `out`: of the figure.
    - `turns`: for recordings of a sphere their rotation R, an axis times an angle (3,) or an angle about the poles, in
      radians. What lies at x in the common frame is seen at R x in the recording, and all are shown in the common frame.
    - `number`: of the frame; by default the middle of the first recording's fit.
    - `quantity`: its name; by default the first that maps show.
    """
    with contextlib.ExitStack() as stack:
        films = {name: stack.enter_context(open_film(path)) for name, path in paths.items()}
        if not films or min(film.ts.size for film in films.values()) == 0:
            raise PdefitError("Recordings expect one or more fields.h5 with a frame; wait for the run, or resume it")
        if not planes(next(iter(films.values()))):
            return
        matrices = {name: rotation((turns or {}).get(name, 0.0)) for name in films}
        first = next(iter(films))
        last = min(film.ts.size for film in films.values()) - 1
        chosen = min(films[first].forecast // 2 if number is None else number, last)
        seen = _named(films[first], quantity)
        # the first recording is seen as in its own figures
        common = seen.view.turn @ matrices[first] if seen.view else np.eye(3)
        shown = {name: _named(film, quantity, common @ matrices[name].T) for name, film in films.items()}
        rows = [kind for kind in ("observed", "predicted") if kind in seen.field.kinds]
        pairs = {
            name: [next(q.frames(films[name], kind, [chosen])) if kind in q.field.kinds else None for kind in rows]
            for name, q in shown.items()
        }
        scale, _ = scales([(x, x) for parts in pairs.values() for x in parts if x is not None], seen.is_signed)
        # the fewest columns with which the figure is not too high
        across, down, side, height = 0, 1, _WIDTH, _WIDTH
        while across < len(films) and (across == 0 or side > _WIDEST or height > _HIGHEST):
            across += 1
            down, side = -(-len(films) // across), (_WIDTH - 1.1) / across
            height = 0.5 + down * (0.25 + len(rows) * (side / aspect(seen) + 0.05))
        arrows = {name: arrows_on(films[name], q, [chosen], side) for name, q in shown.items()}
        size = max((a.size for a in arrows.values() if a), default=0.0)
        with figure(out, _WIDTH, height, "compressed") as fig:
            grid: Any = fig.subplots(down * len(rows), across, squeeze=False)
            drawn, last_arrows = None, None
            for axes in grid.flat:
                axes.set_visible(False)
            for k, (name, q) in enumerate(shown.items()):
                for r, (kind, values) in enumerate(zip(rows, pairs[name], strict=True)):
                    axes, moving = grid[k // across * len(rows) + r, k % across], arrows[name]
                    if values is None:
                        continue
                    axes.set_visible(True)
                    drawn = draw_image(axes, q, values, scale)
                    axes.set(xticks=[], yticks=[], ylabel="" if k % across else NAMES[kind])
                    axes.set_title("" if r else name, fontsize=9)
                    if moving and kind in moving.kinds.values():
                        moving = dataclasses.replace(moving, size=size)
                        last_arrows = moving, moving.draw(axes, next(moving.frames(kind, [chosen])))
            colorbar(fig, drawn, scale, seen.label, ax=list(grid.flat), aspect=15 * len(grid), pad=0.015)
            fig.text(0.01, 0.99, f"t = {films[first].when(chosen)}", va="top", fontsize=9)
            if last_arrows:
                last_arrows[0].name(last_arrows[1], 0.9, 0.98, coordinates="figure", labelpos="W")


def _named(film: Film, name: str | None, turn: np.ndarray | None = None) -> Quantity:
    """The quantity of a map by its name, or the first."""
    found = {q.name: q for q in planes(film, turn, measured=True)}
    if name is not None and name not in found:
        raise unknown("quantity", name, found)
    return found[name or next(iter(found))]
