"""Residuals and forecast errors over time."""

from pathlib import Path

import numpy as np

from pdefit.output.pictures._quantities import with_unit
from pdefit.output.pictures.style import COLORS, figure
from pdefit.output.store.tables import read_series


def draw_residuals(path: Path, table: Path, time_unit: str) -> None:
    """Draw the root mean square residual in standard deviations, a panel for each series; 1 is the noise."""
    ts, columns = read_series(table)
    across = min(3, len(columns))
    down = -(-len(columns) // across)
    with figure(path, 7.0, 1.0 + 1.5 * down if down > 1 else 3.2) as fig:
        panels = fig.subplots(down, across, sharex=True, sharey=True, squeeze=False)
        for panel in panels.flat:
            panel.set_visible(False)
        for panel, (name, values) in zip(panels.flat, columns.items(), strict=False):
            panel.set_visible(True)
            panel.plot(ts, values, lw=0.9, color=COLORS[0])
            panel.axhline(1.0, color="black", lw=0.8, ls=":")
            panel.set_title(name, fontsize=9)
        # after all panels: the shared axis does not grow any more once a limit is set
        panels.flat[0].set_ylim(bottom=0)
        fig.supxlabel(with_unit("time", time_unit), fontsize=9)
        fig.supylabel("rms residual / sigma", fontsize=9)


def draw_forecast(path: Path, table: Path, time_unit: str, unit: str, baseline: str) -> None:
    """Draw the error of the forecast (full) and of the baseline (dashed)."""
    ts, columns = read_series(table)
    names = [n for n in columns if not n.endswith(" baseline")]
    with figure(path, 7.0, 4.0) as fig:
        axes = fig.subplots()
        for k, name in enumerate(names):
            color = COLORS[k % 9]
            axes.plot(ts, _positive(columns[name]), color=color, label=name)
            axes.plot(ts, _positive(columns[f"{name} baseline"]), color=color, ls="--", lw=0.8)
        axes.plot([], [], color="black", label="forecast")
        axes.plot([], [], color="black", ls="--", lw=0.8, label=baseline)
        label = f"error ({unit})" if unit else "relative error"
        axes.set(yscale="log", xlabel=with_unit("time", time_unit), ylabel=label, title="Forecast error")
        fig.legend(loc="outside right upper")


def _positive(values: np.ndarray) -> np.ndarray:
    return np.where(values > 0, values, np.nan)
