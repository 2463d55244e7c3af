"""Fields on a plane: truth, prediction and error at a few times."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.ticker import FuncFormatter, MaxNLocator

from pdefit.data.readers.fields import Film
from pdefit.output.pictures._quantities import Quantity, with_unit
from pdefit.output.pictures._scales import Scale, scale_of, scale_of_errors
from pdefit.output.pictures._vectors import arrows_on
from pdefit.output.pictures.style import BEYOND, NAMES, figure

# width over height of a plane above which it is drawn as strips above each other
STRIP = 2.2
# width over height above which there is room for two times only
_WIDE = 1.5
# numbers outside this range are shown as multiples of a power of ten, which stands in the label
_PLAIN = (1e-2, 1e4)


def draw_map(path: Path, film: Film, quantity: Quantity) -> None:
    """Images of a field on a plane at a few times.

    There are up to four times, two of wide planes and three of strips: the fit's first and last, the forecast's middle and
    last. Truth (or what was observed) and prediction share their colours; the error has its own. Columns of the array run
    to the right, rows upwards. A vector in the same plane is drawn as arrows.
    """
    numbers, wide = telling_frames(film), aspect(quantity)
    is_strip = wide > STRIP
    if _WIDE < wide <= STRIP:
        numbers = numbers[1::2] or numbers
    elif is_strip and len(numbers) > 3:
        numbers = [*numbers[:2], numbers[-1]]
    pairs, names, times = list(quantity.pairs(film, numbers)), panels(quantity.field.reference), len(numbers)
    shared, errors = scales(pairs, quantity.is_signed)
    # beside a single row, which is low, a label is broken into two lines
    between, minus = (", ", " - ") if is_strip else ("\n", "\n- ")
    # inches; strips of all times lie below each other, else each time has a column
    width = 7.0 if is_strip or times > 1 else 4.2
    across = 6.3 if is_strip else (width - 1.85) / times
    down = max(across / wide, 0.12)
    arrows = arrows_on(film, quantity, numbers, across)
    vectors = {name: list(arrows.frames(kind, numbers)) for name, kind in arrows.kinds.items()} if arrows else {}
    if is_strip:
        height = 1.05 + times * (0.3 + len(names) * (down + 0.06))
    else:
        height = 0.95 + len(names) * (down + 0.12)
    with figure(path, width, height, layout="compressed") as fig:
        if is_strip:
            # a column for each of two colour bars, and a gap between them
            rows, widths = times * len(names), (1.0, 0.06, 1.0)
            spec = fig.add_gridspec(rows + 1, 3, height_ratios=[1.0] * rows + [0.1 / down], width_ratios=widths)
            places = [spec[r, :] for r in range(rows)]
        else:
            spec = fig.add_gridspec(len(names), times)
            places = [spec[r, k] for k in range(times) for r in range(len(names))]
        grid: Any = np.asarray([fig.add_subplot(place) for place in places]).reshape(times, -1).T
        images: dict[str, Any] = {}
        for k, (number, pair) in enumerate(zip(numbers, pairs, strict=True)):
            later = number >= film.forecast
            title = f"t = {film.when(number)}{between + 'forecast' if later else ''}"
            grid[0, k].set_title(title, fontsize=9, color=BEYOND if later else "black")
            for axes, name in zip(grid[:, k], names, strict=True):
                images[name] = draw_image(axes, quantity, value_of(name, *pair), errors if name == "error" else shared)
                above = axes is grid[0, 0 if is_strip else -1]
                if arrows and (name in vectors or above):
                    drawn = arrows.draw(axes, vectors[name][k] if name in vectors else arrows.nothing)
                    if above and is_strip:
                        arrows.name(drawn, 0.95, 1 + 0.14 / down, labelpos="W")
                    elif above:
                        # above the colour bar
                        arrows.name(drawn, 1 + 0.5 / across, 1 + 0.24 / down, between="\n", labelpos="W")
                axes.set(xlabel=quantity.axes[1].label, ylabel=f"{name}\n{quantity.axes[0].label}")
                if is_strip:
                    _name_strip(axes, quantity, name, is_last=axes is grid[-1, -1])
                else:
                    axes.locator_params(nbins=3)
                    axes.label_outer()
        named = {"prediction": (shared, quantity.label)}
        if "error" in images:
            named["error"] = (errors, with_unit(f"prediction{minus}{names[0]}", quantity.field.unit))
        for i, (name, (scale, label)) in enumerate(named.items()):
            if is_strip:
                place: dict[str, Any] = {"cax": fig.add_subplot(spec[-1, 2 * i]), "orientation": "horizontal"}
            else:
                beside = grid[2:] if name == "error" else grid[: max(len(names) - 1, 1)]
                place = {"ax": list(beside.flat), "aspect": 15 * len(beside), "pad": 0.015}
            colorbar(fig, images[name], scale, label, **place)
        if quantity.note:
            fig.text(0.99, 0.995, quantity.note, ha="right", va="top", fontsize=8)


def _name_strip(axes: Any, quantity: Quantity, name: str, is_last: bool) -> None:
    """Labels of a strip, which is too low for an axis: the ends of the axis stand below the last strip."""
    vertical, horizontal = quantity.axes
    low, high = sorted(vertical.edges)
    axes.set_yticks([])
    axes.set_ylabel(name, rotation=0, ha="right", va="center")
    axes.tick_params(labelbottom=is_last, length=3.0 if is_last else 0.0)
    beside = f"{vertical.name} upwards from {low:.4g} to {high:.4g} {vertical.unit}"
    axes.set_xlabel(f"{horizontal.label}; {beside}" if is_last else "", labelpad=1)


def colorbar(fig: Any, drawn: Any, scale: Scale, label: str, **place: Any) -> Any:
    """Colour bar of a scale, at `cax` or beside `ax`.

    A power of ten stands in its label: where matplotlib puts it, it would cover other parts of the figure.
    """
    bar = fig.colorbar(drawn, **place)
    bar.ax.grid(False)
    largest = max(abs(scale.low), abs(scale.high))
    if not scale.is_log:
        bar.locator = MaxNLocator(5)
        if label and not _PLAIN[0] <= largest < _PLAIN[1] and largest > 0:
            exponent = int(np.floor(np.log10(largest)))
            bar.formatter = FuncFormatter(lambda x, _: f"{x / 10.0**exponent:.3g}")
            label = f"{label}, $10^{{{exponent}}}$"
        bar.update_ticks()
    bar.set_label(label)
    return bar


def draw_image(axes: Any, quantity: Quantity, values: np.ndarray, scale: Scale) -> Any:
    """Draw values (rows, columns) in a plane; cells of unequal size keep their sizes."""
    vertical, horizontal = quantity.axes
    axes.grid(False)
    values = quantity.image(values)
    look: Any = {"cmap": scale.colormap(), "norm": scale.norm()}
    if vertical.is_uniform and horizontal.is_uniform:
        image = axes.imshow(
            values, origin="lower", extent=(*horizontal.edges, *vertical.edges), interpolation="nearest",
            aspect="equal" if is_plane(quantity) else "auto", **look,
        )  # fmt: skip
    else:
        image = axes.pcolormesh(horizontal.values, vertical.values, values, shading="nearest", **look)
        axes.set_aspect("equal" if is_plane(quantity) else "auto")
    if quantity.view:
        quantity.view.draw(axes, image)
    elif quantity.field.radius:
        # angles from the pole grow downwards
        axes.set_ylim(*sorted(vertical.edges, reverse=True))
    return image


def telling_frames(film: Film, most: int = 4) -> list[int]:
    """Frames of the start and end of the fit, and the middle and end of the forecast; without one, evenly taken."""
    last = film.ts.size - 1
    if film.forecast > last or film.forecast == 0:
        return film.chosen(most)
    return sorted({0, film.forecast - 1, (film.forecast + last) // 2, last})


def panels(reference: str | None) -> list[str]:
    """Names of the panels that are drawn beside each other."""
    return ["prediction"] if reference is None else [NAMES[reference], "prediction", "error"]


def value_of(panel: str, reference: np.ndarray | None, prediction: np.ndarray) -> np.ndarray:
    """Values that a panel shows: reference, prediction or their difference."""
    if panel == "prediction" or reference is None:
        return prediction
    return prediction - reference if panel == "error" else reference


def scales(pairs: list[tuple[np.ndarray | None, np.ndarray]], signed: bool = False) -> tuple[Scale, Scale]:
    """Scale that truth and prediction share, and scale of the error; `signed` for as much room below zero as above."""
    values = [x for pair in pairs for x in pair if x is not None]
    wrong = [p - r for r, p in pairs if r is not None]
    return (scale_of_errors if signed else scale_of)(np.stack(values)), scale_of_errors(
        np.stack(wrong) if wrong else np.zeros(1)
    )


def is_plane(quantity: Quantity) -> bool:
    """Whether both axes are lengths, so that a circle should look like one."""
    return quantity.axes[0].unit == quantity.axes[1].unit


def aspect(quantity: Quantity) -> float:
    """Width over height of the plane; 1.4 where the axes are not alike."""
    if not is_plane(quantity):
        return 1.4
    high, wide = (abs(axis.edges[1] - axis.edges[0]) for axis in quantity.axes)
    return wide / high
