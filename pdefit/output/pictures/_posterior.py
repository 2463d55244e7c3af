"""Unknown fields with their standard deviation, and the eigenvalues from which it was made."""

from pathlib import Path
from typing import Any

import numpy as np

from pdefit.data.readers.fields import open_film
from pdefit.output.pictures._maps import aspect, colorbar, draw_image
from pdefit.output.pictures._quantities import quantities, with_unit
from pdefit.output.pictures._scales import Scale, scale_of
from pdefit.output.pictures.style import PREDICTED, TRUE, figure

_MOST = 3


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
            known = "true" in part
            ratio = (part["predicted"] - part["true"]) / part["std"] if known else part["std"] / part["prior"]
            largest = float(np.nanmax(np.abs(ratio)))
            panels: list[tuple[str, np.ndarray, Scale, str]] = [
                ("estimate", part["predicted"], scale_of(part["predicted"]), quantity.label),
                ("standard deviation", part["std"], scale_of(part["std"]), with_unit("std", quantity.field.unit)),
                ("error / std", ratio, Scale(-largest, largest, is_error=True), "")
                if known
                else ("std / std of the prior", ratio, Scale(0.0, largest), ""),
            ]
            for k, (title, values, scale, label) in enumerate(panels):
                axes = fig.add_subplot(spec[row, k])
                if len(quantity.axes) == 2:
                    axes.locator_params(nbins=3)
                    draw_image(axes, quantity, values, scale)
                    colorbar(fig, scale, label, ax=axes, orientation="horizontal", pad=0.02)
                else:
                    x = quantity.axes[0].values
                    axes.plot(x, values, color=PREDICTED)
                    axes.set(xlabel=quantity.axes[0].label, ylabel=label)
                    if k == 0:
                        band = 1.96 * part["std"]
                        axes.fill_between(x, values - band, values + band, color=PREDICTED, alpha=0.25, lw=0)
                        axes.plot(x, part.get("true", np.full_like(x, np.nan)), color=TRUE, lw=0.8, ls="--")
                axes.set_title(title, fontsize=9)
        axes = fig.add_subplot(spec[-1, :])
        values = np.asarray(summary.get("eigenvalues") or [np.nan], float)
        axes.semilogy(np.arange(values.size) + 1, values, color=PREDICTED, marker=".", ms=3, lw=0.8)
        axes.axhline(1.0, color=TRUE, lw=0.8, ls=":")
        told = f"what the data add to the prior: {summary.get('degrees_of_freedom') or np.nan:.4g} degrees of freedom"
        axes.set(xlabel="number", ylabel="eigenvalue", title=told)
