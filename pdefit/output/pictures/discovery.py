"""Figure of formulas for learned terms: misfit against number of terms."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from pdefit.output.pictures.study import Picture, Record
from pdefit.output.pictures.style import BAD, GOOD, TRUE

# beyond this many times the difference that counts the criterion has a logarithmic axis
_WIDE = 10.0


def draw_discovery(panels: Sequence[Axes], found: Record) -> None:
    """Draw the criterion of every set of terms against its size and, if known, its chi2 per value of held-out frames.

    A line joins the best sets of each number of terms. The chosen set is marked, and so is the difference of the
    criterion within which sets are not distinguished.

    **Arguments:**

    - `panels`: one or two axes.
    - `found`: the content of discovery.json.
    """
    first, *others = panels
    sets = found["sets"]
    least = min(one["criterion"] for one in sets)
    above = [one["criterion"] - least for one in sets]
    _draw_front(first, sets, above)
    first.axhline(found["close"], color="#999999", lw=0.8, ls=":")
    if max(above) > _WIDE * found["close"]:
        first.set_yscale("symlog", linthresh=10.0)
        first.set_ylim(-2.0, 2 * max(above))
        first.set_yticks([0.0, *(t for t in first.get_yticks() if t >= 10.0)])
    first.set(xlabel="terms", ylabel="criterion, above the least")
    for axes in others[: _ahead(found)]:
        _draw_front(axes, sets, [one["held_out"] for one in sets])
        axes.axhline(1.0, color="#999999", lw=0.8, ls=":")
        axes.set(xlabel="terms", ylabel=r"$\chi^2$ of a value that was kept", yscale="log")


def _ahead(found: Record) -> bool:
    """True if predictions at held-out frames are known."""
    return any(one["held_out"] is not None for one in found["sets"])


DISCOVERY = Picture(
    "discovery.json",
    lambda found: (6.4 if _ahead(found) else 3.4, 2.6),
    lambda fig, found: fig.subplots(1, 1 + _ahead(found), squeeze=False)[0].tolist(),
    draw_discovery,
    lambda fig, panels, found: fig.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=3),
)


def _draw_front(axes: Axes, sets: Sequence[Record], values: Sequence[float | None]) -> None:
    numbers = np.asarray([one["terms"] for one in sets])
    heights = np.asarray(values, float)
    shown = np.isfinite(heights)
    axes.plot(numbers[shown], heights[shown], "o", color=GOOD, ms=3.5, alpha=0.6, label="set of terms")
    sizes = np.unique(numbers[shown])
    axes.plot(
        sizes, [np.min(heights[shown & (numbers == n)]) for n in sizes], color=TRUE, lw=0.8, label="best of its size"
    )
    if shown[0]:
        axes.plot(numbers[0], heights[0], "o", color=BAD, ms=7, mfc="none", mew=1.4, label="taken")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
