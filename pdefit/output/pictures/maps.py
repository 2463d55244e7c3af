"""Fields on a plane: truth, prediction and error at a few times."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.ticker import FuncFormatter, MaxNLocator

from pdefit.data.readers.fields import Film
from pdefit.output.pictures.quantities import Axis, Quantity, with_unit
from pdefit.output.pictures.scales import Scale, scale_of, scale_of_errors
from pdefit.output.pictures.style import BEYOND, NAMES, figure

# a plane this much wider than high is drawn as strips above each other
_STRIP = 2.2
# and one this much wider has room for two times only
_WIDE = 1.5
# numbers outside of these are shown as multiples of a power of ten, which the label tells
_PLAIN = (1e-2, 1e4)


def draw_map(path: Path, film: Film, quantity: Quantity) -> None:
    """Images at up to four times (two of wide planes, three of strips): the fit's first and last, the forecast's middle and
    last. Truth (or what was observed) and prediction share their colours; the error has its own. Columns run to the right,
    rows upwards."""
    numbers = telling_frames(film)
    if _WIDE < aspect(quantity) <= _STRIP:
        numbers = numbers[1::2] or numbers
    elif aspect(quantity) > _STRIP and len(numbers) > 3:
        numbers = [*numbers[:2], numbers[-1]]
    pairs = list(quantity.pairs(film, numbers))
    rows = panels(quantity.field.reference)
    shared, errors = scales(pairs)
    sheet = (_Strips if aspect(quantity) > _STRIP else _Table)(len(numbers), len(rows), aspect(quantity))
    with figure(path, sheet.width, sheet.height, layout=None) as fig:
        drawn: dict[str, Any] = {}
        for k, (number, pair) in enumerate(zip(numbers, pairs, strict=True)):
            for r, row in enumerate(rows):
                axes = fig.add_axes(sheet.cell(k, r))
                drawn[row] = draw_image(axes, quantity, value_of(row, *pair), errors if row == "error" else shared)
                sheet.label(axes, k, r, row, quantity)
                if r == 0:
                    later = number >= film.forecast
                    title = f"{when(film, number)}{sheet.between + 'forecast' if later else ''}"
                    axes.set_title(title, fontsize=9, color=BEYOND if later else "black")
        named = {
            rows[-2 if len(rows) > 1 else 0]: quantity.label,
            "error": with_unit(f"prediction{sheet.minus}{rows[0]}", quantity.field.unit),
        }
        for name, label in named.items():
            if name in drawn:
                beside = fig.add_axes(sheet.colorbar(name == "error", len(rows)))
                colorbar(fig, drawn[name], beside, errors if name == "error" else shared, label, sheet.orientation)
        if quantity.note:
            fig.text(0.99, 0.995, quantity.note, ha="right", va="top", fontsize=8)


class _Table:
    """A column for each time, a row for each panel; all lengths in inches."""

    # in a label beside one row, which is not high, two lines
    between, minus, orientation = "\n", "\n- ", "vertical"
    left, right, top, bottom, gap = 0.85, 1.0, 0.42, 0.5, 0.12

    def __init__(self, times: int, rows: int, wide: float):
        self.times, self.rows = times, rows
        self.width = 7.0 if times > 1 else 4.2
        self.across = (self.width - self.left - self.right - (times - 1) * self.gap) / times
        self.down = self.across / wide
        self.height = self.top + rows * self.down + (rows - 1) * self.gap + self.bottom

    def cell(self, k: int, r: int) -> tuple[float, float, float, float]:
        x = self.left + k * (self.across + self.gap)
        y = self.height - self.top - r * (self.down + self.gap) - self.down
        return self._part(x, y, self.across, self.down)

    def colorbar(self, of_error: bool, rows: int) -> tuple[float, float, float, float]:
        first, last = (rows - 1, rows - 1) if of_error else (0, max(rows - 2, 0))
        y = self.height - self.top - last * (self.down + self.gap) - self.down
        high = (last - first) * (self.down + self.gap) + self.down
        return self._part(self.width - self.right + 0.1, y, 0.12, high)

    def label(self, axes: Any, k: int, r: int, row: str, quantity: Quantity) -> None:
        axes.tick_params(labelleft=k == 0, labelbottom=r == self.rows - 1)
        # the last number of one panel would touch the first of the next
        axes.locator_params(axis="x", nbins=3, prune="upper" if k < self.times - 1 else None)
        axes.locator_params(axis="y", nbins=3, prune="upper" if r else None)
        if k == 0:
            axes.set_ylabel(f"{row}\n{quantity.axes[0].label}")
        if r == self.rows - 1:
            axes.set_xlabel(quantity.axes[1].label)

    def _part(self, x: float, y: float, width: float, height: float) -> tuple[float, float, float, float]:
        return x / self.width, y / self.height, width / self.width, height / self.height


class _Strips:
    """Long planes: all below each other, time by time."""

    between, minus, orientation = ", ", " - ", "horizontal"
    width, left, right, bottom, gap, head = 7.0, 0.9, 0.2, 1.05, 0.06, 0.3

    def __init__(self, times: int, rows: int, wide: float):
        self.times, self.rows = times, rows
        self.across = self.width - self.left - self.right
        self.down = max(self.across / wide, 0.12)
        self.group = self.head + rows * (self.down + self.gap)
        self.height = times * self.group + self.bottom

    def cell(self, k: int, r: int) -> tuple[float, float, float, float]:
        y = self.height - k * self.group - self.head - r * (self.down + self.gap) - self.down
        return self.left / self.width, y / self.height, self.across / self.width, self.down / self.height

    def colorbar(self, of_error: bool, rows: int) -> tuple[float, float, float, float]:
        across = 0.46 * self.across
        x = self.left + (self.across - across if of_error else 0.0)
        return x / self.width, 0.45 / self.height, across / self.width, 0.1 / self.height

    def label(self, axes: Any, k: int, r: int, row: str, quantity: Quantity) -> None:
        is_last = (k, r) == (self.times - 1, self.rows - 1)
        axes.set_ylabel(row, rotation=0, ha="right", va="center")
        axes.set_yticks([])
        axes.tick_params(labelbottom=is_last, length=3.0 if is_last else 0.0)
        if is_last:
            vertical, horizontal = quantity.axes
            low, high = sorted(vertical.edges)
            beside = f"{vertical.name} upwards from {low:.4g} to {high:.4g} {vertical.unit}"
            axes.set_xlabel(f"{horizontal.label}; {beside}", labelpad=1)


def colorbar(fig: Any, drawn: Any, beside: Any, scale: Scale, label: str, orientation: Any = "vertical") -> Any:
    """The colours of a scale; a power of ten stands in the label, where it covers nothing."""
    bar = fig.colorbar(drawn, cax=beside, orientation=orientation)
    beside.grid(False)
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
    """Values (rows, columns) in the plane of the two axes; cells of unequal size keep their sizes."""
    vertical, horizontal = quantity.axes
    axes.grid(False)
    look: Any = {"cmap": scale.colormap(), "norm": scale.norm()}
    if vertical.is_uniform and horizontal.is_uniform:
        image = axes.imshow(
            values, origin="lower", extent=(*horizontal.edges, *vertical.edges), interpolation="nearest",
            aspect="equal" if is_plane(quantity) else "auto", **look,
        )  # fmt: skip
    else:
        image = axes.pcolormesh(horizontal.values, vertical.values, values, shading="nearest", **look)
        axes.set_aspect("equal" if is_plane(quantity) else "auto")
    # angles from the pole grow downwards on a map
    if vertical.name == "colatitude":
        axes.set_ylim(*sorted(vertical.edges, reverse=True))
    return image


def telling_frames(film: Film, most: int = 4) -> list[int]:
    """The fit's first and last frames, the forecast's middle and last; without a forecast, evenly taken."""
    last = film.ts.size - 1
    if film.forecast > last or film.forecast == 0:
        return film.chosen(most)
    return sorted({0, film.forecast - 1, (film.forecast + last) // 2, last})


def panels(reference: str | None) -> list[str]:
    """What is drawn beside each other."""
    return ["prediction"] if reference is None else [NAMES[reference], "prediction", "error"]


def value_of(panel: str, reference: np.ndarray | None, prediction: np.ndarray) -> np.ndarray:
    """The numbers of one of the panels."""
    if panel == "prediction" or reference is None:
        return prediction
    return prediction - reference if panel == "error" else reference


def scales(pairs: list[tuple[np.ndarray | None, np.ndarray]]) -> tuple[Scale, Scale]:
    """The range that truth and prediction share, and that of the error."""
    values = [x for pair in pairs for x in pair if x is not None]
    wrong = [p - r for r, p in pairs if r is not None]
    return scale_of(np.stack(values)), scale_of_errors(np.stack(wrong) if wrong else np.zeros(1))


def is_plane(quantity: Quantity) -> bool:
    """Whether both axes are lengths, so that a circle should look like one."""
    return quantity.axes[0].unit == quantity.axes[1].unit


def aspect(quantity: Quantity) -> float:
    """Width over height of the plane; 1.4 where the axes are not alike."""
    if not is_plane(quantity):
        return 1.4
    return _length(quantity.axes[1]) / _length(quantity.axes[0])


def _length(axis: Axis) -> float:
    first, last = axis.edges
    return abs(last - first)


def when(film: Film, number: int) -> str:
    """The time of a frame, with its unit."""
    return f"t = {film.when(number)}"
