"""Unknown fields with their standard deviation, and the eigenvalues from which it was made."""

from pathlib import Path
from typing import Any

import numpy as np

from pdefit.data.readers.fields import open_film
from pdefit.output.pictures._maps import aspect, colorbar, draw_image
from pdefit.output.pictures._quantities import Quantity, quantities, with_unit
from pdefit.output.pictures._scales import Scale, scale_of
from pdefit.output.pictures.style import PREDICTED, TRUE, figure

_MOST = 3
_HALF = 1.959964


def draw_posterior(path: Path, file: Path, summary: dict[str, Any]) -> None:
    """Draw estimate, standard deviation and its ratio to the prior of up to three fields, and the eigenvalues.

    Where the truth is known, the third panel is the error in standard deviations.

    **Arguments:**

    - `path`, `file`: of the picture, and of posterior.h5.
    - `summary`: the section `posterior` of summary.json.
    """
    with open_film(file) as film:
        shown = [q for q in quantities(film) if q.axes][:_MOST]
        parts = [{kind: next(q.frames(film, kind, [0])) for kind in q.field.kinds} for q in shown]
    # inches
    heights = [min(max(2.0 / aspect(q), 1.2), 3.2) if len(q.axes) == 2 else 1.7 for q in shown]
    with figure(path, 7.6, sum(heights) + 0.5 * len(shown) + 2.0) as fig:
        spec = fig.add_gridspec(len(shown) + 1, 3, height_ratios=[*heights, 1.6])
        for row, (quantity, part) in enumerate(zip(shown, parts, strict=True)):
            third = (part["predicted"] - part["true"] if "true" in part else part["std"]) / _positive(
                part["std"] if "true" in part else part["prior"]
            )
            panels = [fig.add_subplot(spec[row, k]) for k in range(3)]
            titles = ("estimate", "standard deviation", "error / std" if "true" in part else "std / std of prior")
            for axes, title in zip(panels, titles, strict=True):
                axes.set_title(title, fontsize=9)
            if len(quantity.axes) == 2:
                largest = float(np.nanmax(np.abs(third), initial=1.0))
                last = Scale(-largest, largest, is_error=True) if "true" in part else Scale(0.0, largest)
                values = (part["predicted"], part["std"], third)
                scales = (scale_of(part["predicted"]), Scale(0.0, float(np.nanmax(part["std"])) or 1.0), last)
                for axes, value, scale, label in zip(
                    panels, values, scales, (quantity.label, with_unit("std", quantity.field.unit), ""), strict=True
                ):
                    image = draw_image(axes, quantity, value, scale)
                    colorbar(fig, image, scale, label, ax=axes, orientation="horizontal", pad=0.02)
            else:
                _draw_lines(panels, quantity, part, third)
        _draw_spectrum(fig.add_subplot(spec[-1, :]), summary)


def _draw_lines(panels: list[Any], quantity: Quantity, part: dict[str, np.ndarray], third: np.ndarray) -> None:
    """A field on a line, with its 95 % interval."""
    x, width = quantity.axes[0].values, _HALF * part["std"]
    panels[0].fill_between(x, part["predicted"] - width, part["predicted"] + width, color=PREDICTED, alpha=0.25, lw=0)
    panels[0].plot(x, part["predicted"], color=PREDICTED)
    if "true" in part:
        panels[0].plot(x, part["true"], color=TRUE, lw=0.8, ls="--")
    panels[1].plot(x, part["std"], color=PREDICTED, label="posterior")
    panels[1].plot(x, part["prior"], color=TRUE, lw=0.8, label="prior")
    panels[1].set(yscale="log")
    panels[1].legend()
    panels[2].plot(x, third, color=PREDICTED)
    panels[0].set(ylabel=quantity.label)
    for axes in panels:
        axes.set(xlabel=quantity.axes[0].label)


def _draw_spectrum(axes: Any, summary: dict[str, Any]) -> None:
    """The eigenvalues, with a line at 1."""
    values = np.asarray(summary.get("eigenvalues") or [np.nan], float)
    axes.semilogy(np.arange(values.size) + 1, _positive(values), color=PREDICTED, marker=".", ms=3, lw=0.8)
    axes.axhline(1.0, color=TRUE, lw=0.8, ls=":")
    freedom = summary.get("degrees_of_freedom")
    told = "" if freedom is None else f" ({freedom:.4g} degrees of freedom)"
    axes.set(xlabel="number", ylabel="eigenvalue", title=f"what the data add to the prior{told}")


def _positive(values: np.ndarray) -> np.ndarray:
    return np.where(values > 0, values, np.nan)
