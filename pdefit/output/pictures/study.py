"""Figures of studies, drawn from their record on new or given axes."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pdefit._util.atomic import plain, read_json
from pdefit.output.pictures.style import figure, styled
from pdefit.output.store.study import Study

Record = dict[str, Any]


# a result, or the directory of a run
Source = Study | str | Path


@dataclasses.dataclass(frozen=True)
class Picture:
    """A figure of a record.

    **Arguments:**

    - `file`: the name of the JSON file that holds the record.
    - `size`: maps the record to width and height in inches.
    - `panels`: maps an empty figure and the record to axes.
    - `draw`: draws the record on the given panels.
    - `frame`: draws legends and titles of the whole figure.
    """

    file: str
    size: Callable[[Record], tuple[float, float]]
    panels: Callable[[Any, Record], Sequence[Axes]]
    draw: Callable[[Sequence[Axes], Record], None]
    frame: Callable[[Any, Sequence[Axes], Record], None] = lambda fig, panels, record: None

    def write(self, path: Path, record: Record) -> None:
        """Draw a record, and save the figure.

        **Arguments:** `path`, `record`: the path of the figure, and the content of a JSON file.
        """
        with figure(path, *self.size(record)) as fig:
            self._fill(fig, record)

    def show(self, found: Source, ax: Axes | Sequence[Axes] | None) -> list[Axes]:
        """Draw a result on given axes, or in a new pyplot figure; returns the axes.

        **Arguments:** `found`, `ax`: the result or a run, and one or more axes; None for a new figure.
        """
        # loaded late: the command line saves figures without it
        from matplotlib import pyplot

        stored = isinstance(found, str | Path)
        record = read_json(Path(found) / self.file) if stored else plain(found.record())
        with styled():
            if ax is None:
                return [*self._fill(pyplot.figure(figsize=self.size(record), layout="constrained"), record)]
            given = [ax] if isinstance(ax, Axes) else [*ax]
            self.draw(given, record)
            return given

    def _fill(self, fig: Figure, record: Record) -> Sequence[Axes]:
        panels = self.panels(fig, record)
        self.draw(panels, record)
        self.frame(fig, panels, record)
        return panels
