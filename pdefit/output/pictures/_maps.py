"""Fields on a plane: truth, prediction and error of single frames, figures of several frames, and the mean misfit."""

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from pdefit._util.errors import with_space
from pdefit.data.readers.fields import Film
from pdefit.output.pictures._points import draw_points, name_points
from pdefit.output.pictures._quantities import Quantity, quantities
from pdefit.output.pictures._vectors import Arrows, arrows_on
from pdefit.output.pictures.style import (
    BEYOND,
    NAMES,
    Scale,
    figure,
    is_signed,
    panel_grid,
    panels_of,
    scale_of,
    scale_of_errors,
    with_unit,
)

# width over height of a plane above which a figure shows it as strips above each other
_STRIP = 4.0
# width over height above which there is room for two times only
_WIDE = 1.5
# numbers outside this range are shown as multiples of a power of ten, which stands in the label
_PLAIN = (1e-2, 1e4)
# inches across a map of a whole film, and the number of its lines
_WHOLE_SIDE, _LINES = 1.6, 12
# inches across a map of the mean misfit, and the most frames of which it is the mean
_MISFIT_SIDE, _MISFIT_FRAMES = 2.6, 400


@dataclasses.dataclass(frozen=True)
class Map:
    """A field on a plane, with any frame to be drawn on given axes.

    **Arguments:**

    - `film`, `quantity`: the film, and its drawn quantity.
    - `names`: the panels of a frame: `truth` or `observed`, `prediction`, `error`.
    - `shared`, `errors`: the scales of all values and of their errors, the same in all frames.
    - `arrows`: arrows over the values; None without a vector.
    """

    film: Film
    quantity: Quantity
    names: Sequence[str]
    shared: Scale
    errors: Scale
    arrows: Arrows | None

    def scale(self, name: str) -> Scale:
        """Scale of a panel."""
        return self.errors if name == "error" else self.shared

    @property
    def barred(self) -> list[str]:
        """Panels with a colour bar; the truth shares the bar of the prediction."""
        return [name for name in self.names if name in ("prediction", "error")]

    def draw(self, panels: Iterable[Axes], number: int) -> list[Artist]:
        """Draw a frame, with a panel for each of `names`; returns the artists."""
        (values,), drawn = self.quantity.compared(self.film, [number], self.names), []
        for axes, name in zip(panels, self.names, strict=True):
            drawn += draw_image(axes, self.quantity, values[name], self.scale(name))
            if self.arrows and name in self.arrows.kinds:
                vector = next(self.arrows.frames(self.arrows.kinds[name], [number]))
                drawn.append(self.arrows.draw(axes, vector, is_dark=self.shared.is_error))
            drawn += draw_points(axes, self.film, self.quantity, name, number)
        return drawn


def map_of(film: Film, quantity: Quantity, numbers: Sequence[int], width: float) -> Map:
    """Map of a field, with scales from some of its frames. A panel is `width` inches wide."""
    shared, errors = scales(list(quantity.compared(film, numbers)), quantity.is_signed)
    return Map(film, quantity, quantity.panels, shared, errors, arrows_on(film, quantity, numbers, width))


def draw_map(path: Path, film: Film, quantity: Quantity) -> None:
    """Images of a field on a plane at a few times.

    There are up to four times, two for wide planes and three for strips: the fit's first and last, the forecast's
    middle and last. Truth (or observations) and prediction share their colours; the error has its own. Columns of the
    array run to the right, rows upwards. A vector in the same plane is drawn as arrows.
    """
    numbers, wide = telling_frames(film), aspect(quantity)
    if wide > _STRIP:
        _draw_strips(path, film, quantity, [*numbers[:2], numbers[-1]] if len(numbers) > 3 else numbers)
    else:
        _draw_columns(path, film, quantity, (numbers[1::2] or numbers) if wide > _WIDE else numbers)


def _draw_columns(path: Path, film: Film, quantity: Quantity, numbers: list[int]) -> None:
    """Draw a column of panels for each time, with colour bars beside them."""
    # inches
    width = 7.0 if len(numbers) > 1 else 4.2
    across = (width - 1.85) / len(numbers)
    down = max(across / aspect(quantity), 0.12)
    scene = map_of(film, quantity, numbers, across)
    shape = len(scene.names), len(numbers)
    with figure(path, width, 0.95 + shape[0] * (down + 0.12), layout="compressed") as fig:
        grid = fig.subplots(*shape, squeeze=False)
        # beside a single row, which is low, a label is broken into two lines
        _draw_frames(fig, grid, scene, numbers, "\n")
        for axes in grid.flat:
            axes.locator_params(nbins=3)
            axes.label_outer()
        for name in scene.barred:
            beside = grid[2:] if name == "error" else grid[: max(shape[0] - 1, 1)]
            # a low bar has room for few numbers
            most = min(max(int(5 * down * len(beside)), 2), 5)
            place = {"ax": list(beside.flat), "aspect": 15 * len(beside), "pad": 0.015}
            colorbar(fig, scene.scale(name), quantity.label_of(name, "\n"), most, **place)


def _draw_strips(path: Path, film: Film, quantity: Quantity, numbers: list[int]) -> None:
    """Draw panels of all times one below the other, with colour bars at the bottom."""
    # inches
    across = 6.3
    down = max(across / aspect(quantity), 0.12)
    scene = map_of(film, quantity, numbers, across)
    rows = len(numbers) * len(scene.names)
    with figure(path, 7.0, 1.05 + 0.3 * len(numbers) + rows * (down + 0.06), layout="compressed") as fig:
        # a column for each of two colour bars, and a gap between them
        heights, widths = [1.0] * rows + [0.1 / down], (1.0, 0.06, 1.0)
        spec = fig.add_gridspec(rows + 1, 3, height_ratios=heights, width_ratios=widths)
        strips = [fig.add_subplot(spec[r, :]) for r in range(rows)]
        bars = [fig.add_subplot(spec[-1, 2 * i]) for i in range(min(len(scene.names), 2))]
        grid = np.asarray(strips).reshape(len(numbers), -1).T
        _draw_frames(fig, grid, scene, numbers, ", ")
        for name, row in zip(scene.names, grid, strict=True):
            for axes in row:
                _name_strip(axes, quantity, name, is_last=axes is strips[-1])
        for name, bar in zip(scene.barred, bars, strict=True):
            colorbar(fig, scene.scale(name), quantity.label_of(name), cax=bar, orientation="horizontal")


def _draw_frames(fig: Figure, grid: np.ndarray, scene: Map, numbers: Sequence[int], between: str) -> None:
    """Draw a frame in each column of a grid, with its time as title; `between` separates it from the word forecast."""
    film, (vertical, horizontal) = scene.film, scene.quantity.axes
    for column, number in zip(grid.T, numbers, strict=True):
        scene.draw(column, number)
        phase = f"{between}forecast" if number >= film.forecast else ""
        column[0].set_title(f"{film.title_of(number)}{phase}", fontsize=9, color=BEYOND if phase else "black")
        for axes, name in zip(column, scene.names, strict=True):
            axes.set(xlabel=horizontal.label, ylabel=f"{name}\n{vertical.label}")
    top = 1 - 0.13 / fig.get_figheight()
    if scene.arrows:
        scene.arrows.name(grid[0, 0], 0.95, top, coordinates="figure", labelpos="W")
    name_points(fig, film, 0.99, top, ha="right")
    if scene.quantity.note:
        fig.text(0.99, 0.995, scene.quantity.note, ha="right", va="top", fontsize=8)


def draw_whole(path: Path, maps: Film) -> None:
    """Draw contour maps of whole films, a row each: truth, observations and prediction.

    **Arguments:** `path`, `maps`: the path of the figure, and the content of maps.h5.
    """
    shown = [q for q in quantities(maps) if len(q.axes) == 2]
    if not shown:
        return
    names = [name for kind, name in NAMES.items() if kind in shown[0].field.kinds]
    names += ["error"] * (len(names) > 1)
    # inches: of a panel, which a colour bar makes wider
    across, down = _WHOLE_SIDE + 0.35, [_WHOLE_SIDE / aspect(q) + 0.4 for q in shown]
    size = max(across * len(names) + 1.2, 3.0), 0.3 + sum(down)
    with panel_grid(path, size, (len(shown), len(names)), "compressed", height_ratios=down) as (fig, grid):
        for quantity, row in zip(shown, grid, strict=True):
            scene = dataclasses.replace(map_of(maps, quantity, [0], _WHOLE_SIDE), names=names)
            scene.draw(row, 0)
            (values,), ticks = quantity.compared(maps, [0], names), MaxNLocator(_LINES)
            low, high = scene.shared.low, scene.shared.high
            lines = [x for x in ticks.tick_values(low, high) if low < x < high]
            for axes, name in zip(row, names, strict=True):
                axes.set(xlabel=quantity.axes[1].label, ylabel=quantity.axes[0].label)
                axes.locator_params(nbins=3)
                axes.label_outer()
                axes.set_title(name, fontsize=9)
                if name != "error" and not quantity.view and np.isfinite(values[name]).sum() > 1:
                    places = (axis.values for axis in quantity.axes[::-1])
                    axes.contour(*places, values[name], lines, colors="white", linewidths=0.6)
                if name in scene.barred:
                    label = with_unit(name.replace("prediction", quantity.field.long_name), quantity.field.unit)
                    bar = colorbar(fig, scene.scale(name), label, ax=axes, aspect=18, pad=0.02)
                    if name != "error":
                        bar.add_lines(lines, ["white"] * len(lines), [0.6] * len(lines))


def _name_strip(axes: Axes, quantity: Quantity, name: str, is_last: bool) -> None:
    """Label a strip that is too low for an axis; the ends of the axis are below the last strip."""
    vertical, horizontal = quantity.axes
    # an end that is zero but for round-off is written as zero
    low, high = np.round(sorted(vertical.edges) / np.ptp(vertical.edges), 9) * np.ptp(vertical.edges) + 0.0
    axes.set_yticks([])
    axes.set_ylabel(name, rotation=0, ha="right", va="center")
    axes.tick_params(labelbottom=is_last, length=3.0 if is_last else 0.0)
    beside = f"{vertical.name} upwards from {low:.4g} to {high:.4g}{with_space(vertical.unit)}"
    axes.set_xlabel(f"{horizontal.label}; {beside}" if is_last else "", labelpad=1)


def colorbar(fig: Figure, scale: Scale, label: str, most: int = 5, **place: Any) -> Any:
    """Colour bar of a scale with `most` steps between ticks, at `cax` or beside `ax`.

    A power of ten is written in its label, since matplotlib's position would cover other parts of the figure. Pointed
    ends mark values beyond the scale.
    """
    drawn = ScalarMappable(**scale.colours)
    bar = fig.colorbar(drawn, extend="both" if scale.is_clipped else "neither", **place)
    bar.ax.grid(False)
    largest = max(abs(scale.low), abs(scale.high))
    if not scale.is_log:
        bar.locator = MaxNLocator(most)
        if label and not _PLAIN[0] <= largest < _PLAIN[1] and largest > 0:
            exponent = int(np.floor(np.log10(largest)))
            bar.formatter = FuncFormatter(lambda x, _: f"{x / 10.0**exponent:.3g}")
            label = f"{label}, $10^{{{exponent}}}$"
        bar.update_ticks()
    bar.set_label(label)
    return bar


def draw_image(axes: Axes, quantity: Quantity, values: np.ndarray, scale: Scale) -> list[Artist]:
    """Draw values (rows, columns) in a plane; unequal cells keep their sizes. Returns the artists."""
    vertical, horizontal = quantity.axes
    axes.grid(False)
    values = quantity.image(values)
    shape = "equal" if is_plane(quantity) else "auto"
    if vertical.is_uniform and horizontal.is_uniform:
        extent = (*horizontal.edges, *vertical.edges)
        image = axes.imshow(
            values, origin="lower", extent=extent, interpolation="nearest", aspect=shape, **scale.colours
        )
    else:
        image = axes.pcolormesh(
            horizontal.values, vertical.values, values, shading="nearest", rasterized=True, **scale.colours
        )
        axes.set_aspect(shape)
    if quantity.view:
        return quantity.view.draw(axes, image)
    if quantity.field.radius:
        # angles from the pole grow downwards
        axes.set_ylim(*sorted(vertical.edges, reverse=True))
    return [image]


def telling_frames(film: Film, most: int = 4) -> list[int]:
    """Frames at the start and end of the fit, and the middle and end of the forecast; without one, evenly spaced frames."""
    last = film.ts.size - 1
    if film.forecast > last or film.forecast == 0:
        return film.chosen(most)
    return sorted({0, film.forecast - 1, (film.forecast + last) // 2, last})


def scales(frames: Collection[Mapping[str, np.ndarray]], signed: bool = False) -> tuple[Scale, Scale]:
    """Common scale of all frames, by the names of their panels, and scale of the panels `error`.

    If values have both signs, or are `signed`, the scale is symmetric about zero.
    """
    values = np.stack([x for frame in frames for name, x in frame.items() if name != "error"])
    wrong = [frame["error"] for frame in frames if "error" in frame]
    shared = scale_of_errors(values) if signed or is_signed(values) else scale_of(values)
    return shared, scale_of_errors(np.stack(wrong) if wrong else np.zeros(1))


def is_plane(quantity: Quantity) -> bool:
    """True if both axes have the same unit, so that a circle should look like one."""
    return quantity.axes[0].unit == quantity.axes[1].unit


def aspect(quantity: Quantity) -> float:
    """Width over height of the plane; 1.4 if the axes have different units."""
    if not is_plane(quantity):
        return 1.4
    high, wide = (abs(axis.edges[1] - axis.edges[0]) for axis in quantity.axes)
    return wide / high


def draw_misfit(path: Path, film: Film, shown: list[Quantity]) -> None:
    """Draw for every field a map of the mean over the fit of prediction minus data.

    The mean is in standard errors: divided by the root mean square of all residuals, times the root of the number of
    frames. If the model is right, it is white noise of size 1.
    """
    numbers = [n for n in film.chosen(_MISFIT_FRAMES) if n < film.forecast]
    means = [mean / (size or 1.0) for mean, size in (mean_misfit(film, quantity, numbers) for quantity in shown)]
    scale = scale_of_errors(np.concatenate([mean.ravel() for mean in means]))
    down, across = panels_of(len(shown), 2 if len(shown) == 4 else 3)
    # the label of the colour bar needs two inches
    high = max(0.3 + down * (0.6 + max(_MISFIT_SIDE / aspect(q) for q in shown)), 2.2)
    size = across * (_MISFIT_SIDE + 0.5) + 1.2, high
    with panel_grid(path, size, (down, across), "compressed") as (fig, grid):
        for axes, quantity, mean in zip(grid.flat, shown, means, strict=False):
            draw_image(axes, quantity, mean, scale)
            axes.set(xlabel=quantity.axes[1].label, ylabel=quantity.axes[0].label)
            axes.set_title(quantity.name, fontsize=9)
        label = "mean of prediction - data\n(standard errors)"
        colorbar(fig, scale, label, ax=list(grid.flat), aspect=20 * down, pad=0.02)


def mean_misfit(film: Film, quantity: Quantity, numbers: Sequence[int]) -> tuple[np.ndarray, float]:
    """Mean of prediction minus data over some frames, times the root of their number, and the size of residuals.

    The mean is NaN if nothing was observed. The size is the root mean square of all residuals.
    """
    count, total, squares = np.zeros(()), np.zeros(()), 0.0
    for frame in quantity.compared(film, numbers, ["observed", "prediction"]):
        off = frame["prediction"] - frame["observed"]
        there = np.isfinite(off)
        count, total = count + there, total + np.where(there, off, 0.0)
        squares += float(np.sum(off[there] ** 2))
    size = (squares / max(float(np.sum(count)), 1.0)) ** 0.5
    return np.where(count > 0, total / np.sqrt(np.maximum(count, 1)), np.nan), size
