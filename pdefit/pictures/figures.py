"""All figures of a run, from its directory alone."""

import json
from pathlib import Path

from pdefit.files.parameters_file import read_parameters
from pdefit.pictures.convergence import draw_convergence
from pdefit.pictures.parameters import draw_parameters
from pdefit.pictures.series import draw_forecast, draw_residuals


def draw_all(run: Path) -> list[Path]:
    """Draw what the run's files allow into `figures/`; returns the pictures."""
    summary = json.loads((run / "summary.json").read_text(encoding="utf-8"))
    rows = read_parameters(run / "parameters.csv")
    folder, unit = run / "figures", summary["time_unit"]
    draw_convergence(folder / "convergence.png", run / "history.h5", rows)
    drawn = [folder / "convergence.png"]
    if rows:
        draw_parameters(folder / "parameters.png", rows)
        drawn.append(folder / "parameters.png")
    if (run / "residuals.csv").exists():
        draw_residuals(folder / "residuals.png", run / "residuals.csv", unit)
        drawn.append(folder / "residuals.png")
    if (run / "forecast.csv").exists():
        forecast = summary["forecast"]
        draw_forecast(
            folder / "forecast.png", run / "forecast.csv", unit, forecast["unit"], forecast["baseline"]["name"]
        )  # fmt: skip
        drawn.append(folder / "forecast.png")
    return drawn
