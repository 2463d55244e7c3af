"""Recordings side by side: one frame of each, observations above and predictions below."""

import contextlib
import dataclasses
from collections.abc import Mapping
from pathlib import Path

from pdefit._util.errors import PdefitError, unknown
from pdefit.data.readers.fields import Film, open_film
from pdefit.output.pictures._maps import aspect, colorbar, map_of, scales
from pdefit.output.pictures._quantities import Quantity, View
from pdefit.output.pictures._vectors import planes
from pdefit.output.pictures.style import NAMES, panel_grid

# inches: the width of the figure, of the widest panel, and the height that more columns avoid
_WIDTH, _WIDEST, _HIGHEST = 7.0, 3.0, 8.5


def recordings_figure(
    paths: Mapping[str, Path],
    out: Path,
    own: Mapping[str, Mapping[str, float]] | None = None,
    number: int | None = None,
    quantity: str | None = None,
) -> None:
    """Draw a small panel for each recording, with common colours and arrows; nothing without maps.

    **Arguments:**

    - `paths`: the path of each recording's fields.h5.
    - `out`: the path of the figure.
    - `own`: the own scalars of each recording, such as its orientation. With them a plugin shows all recordings from
      one side.
    - `number`: the index of the frame; by default the middle of the first recording's fit.
    - `quantity`: its name; by default the first one shown as a map.
    """
    with contextlib.ExitStack() as stack:
        films = {name: stack.enter_context(open_film(path)) for name, path in paths.items()}
        if not films or min(film.ts.size for film in films.values()) == 0:
            raise PdefitError("Recordings expect one or more fields.h5 with a frame; wait for the run, or resume it")
        if not planes(next(iter(films.values()))):
            return
        first = next(iter(films))
        last = min(film.ts.size for film in films.values()) - 1
        chosen = min(films[first].forecast // 2 if number is None else number, last)
        # the first recording is seen as in its own figures
        seen = _named(films[first], quantity, (own or {}).get(first))
        shown = {name: _named(film, quantity, (own or {}).get(name), seen.view) for name, film in films.items()}
        kinds = [kind for kind in ("observed", "predicted") if kind in seen.field.kinds]
        names = [NAMES[kind] for kind in kinds]
        has = {name: [NAMES[kind] for kind in kinds if kind in q.field.kinds] for name, q in shown.items()}
        frames = [frame for n, q in shown.items() for frame in q.compared(films[n], [chosen], has[n])]
        scale, _ = scales(frames, seen.is_signed)
        # the fewest columns with which the figure is not too high
        across, down, side, height = 0, 1, _WIDTH, _WIDTH
        while across < len(films) and (across == 0 or side > _WIDEST or height > _HIGHEST):
            across += 1
            down, side = -(-len(films) // across), (_WIDTH - 1.1) / across
            height = 0.5 + down * (0.25 + len(names) * (side / aspect(seen) + 0.05))
        maps = [map_of(films[name], q, [chosen], side) for name, q in shown.items()]
        size = max((m.arrows.size for m in maps if m.arrows), default=0.0)
        maps = [
            dataclasses.replace(
                m, names=has[n], shared=scale, arrows=m.arrows and dataclasses.replace(m.arrows, size=size)
            )
            for n, m in zip(shown, maps, strict=True)
        ]
        with panel_grid(out, (_WIDTH, height), (down * len(names), across), "compressed") as (fig, grid):
            # a column for each recording
            columns = grid.reshape(down, len(names), across).swapaxes(1, 2).reshape(-1, len(names))
            for k, (name, one, column) in enumerate(zip(shown, maps, columns, strict=False)):
                one.draw([axes for n, axes in zip(names, column, strict=True) if n in has[name]], chosen)
                column[0].set_title(name, fontsize=9)
                for n, axes in zip(names, column, strict=True):
                    axes.set(xticks=[], yticks=[], ylabel="" if k % across else n)
            colorbar(fig, scale, seen.label, ax=list(grid.flat), aspect=15 * len(grid), pad=0.015)
            fig.text(0.01, 0.99, f"t = {films[first].when(chosen)}", va="top", fontsize=9)
            arrows = next((m.arrows for m in maps if m.arrows), None)
            if arrows:
                arrows.name(grid[0, 0], 0.9, 0.98, coordinates="figure", labelpos="W")


def _named(film: Film, name: str | None, own: Mapping[str, float] | None, like: View | None = None) -> Quantity:
    """The quantity of a map by name, or the first one."""
    found = {q.name: q for q in planes(film, own, like, measured=True)}
    if name is not None and name not in found:
        raise unknown("quantity", name, found)
    return found[name or next(iter(found))]
