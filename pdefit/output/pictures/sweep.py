"""The page sweep.html: losses and errors of all jobs of a sweep against the swept values, and their last fields."""

import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.ticker import MaxNLocator

from pdefit._util.atomic import write_text
from pdefit.output.pictures.report import embedded, template
from pdefit.output.pictures.style import (
    BAD,
    GOOD,
    PALE,
    figure,
    kind_of_axis,
    panel_grid,
    panels_of,
    scale_of,
    scale_of_errors,
)

# panels of small multiples and of swept keys, and characters of a label, at most
_MOST_FIELDS, _MOST_KEYS, _LONGEST = 12, 8, 24
# swept values that have a tick each, at most
_MOST_TICKS = 6


class Shown(NamedTuple):
    """A job as shown on the page.

    **Arguments:**

    - `name`, `state`, `reason`, `verdict`: texts.
    - `values`: its swept values by key, numbers or texts.
    - `loss`, `error`: the final loss, and the largest relative error of an estimate; None if unknown.
    - `iterations`, `seconds`: the iterations and seconds of the fit.
    - `page`: its report, relative to the sweep; empty without one.
    - `frames`: the last frame of each field, on one or two axes.
    """

    name: str
    state: str
    reason: str
    verdict: str
    values: Mapping[str, Any]
    loss: float | None
    error: float | None
    iterations: int | None
    seconds: float | None
    page: str
    frames: Mapping[str, np.ndarray]


def write_sweep_page(path: Path, title: str, told: str, jobs: Sequence[Shown]) -> Path:
    """Write the page of a sweep, which needs no other file except the linked reports.

    **Arguments:**

    - `path`: the path of the page.
    - `title`, `told`: its heading, and the numbers of jobs by outcome.
    - `jobs`: all jobs in their order.
    """
    known = [job for job in jobs if job.loss is not None and math.isfinite(job.loss)]
    ranked = sorted(known, key=lambda job: job.loss or 0.0)
    best = ranked[0] if ranked else None
    keys = [key for key in dict.fromkeys(k for job in jobs for k in job.values)][:_MOST_KEYS]
    figures = []
    if ranked and keys:
        text = (
            "Loss at the end and largest relative error of an estimate, against each swept value. The best job is dark."
        )
        figures.append(embedded_figure(lambda p: _draw_values(p, known, keys, best), "swept values", text))
    if len(ranked) > 1:
        text = "Loss of all jobs from the best to the worst. Steps are minima that several jobs share."
        figures.append(embedded_figure(lambda p: _draw_waterfall(p, ranked), "waterfall", text))
    for field in dict.fromkeys(name for job in ranked for name in job.frames):
        shown = [job for job in ranked if field in job.frames][:_MOST_FIELDS]
        text = f"Last frame of {field} of the {len(shown)} best jobs, best first, in one scale."
        figures.append(embedded_figure(lambda p, s=shown, f=field: _draw_frames(p, s, f), field, text))
    page = template("sweep.html.jinja").render(
        name=title,
        told=told,
        best=best,
        keys=keys,
        figures=figures,
        jobs=[*ranked, *(j for j in jobs if j not in known)],
    )
    write_text(path, page)
    return path


def embedded_figure(draw: Callable[[Path], None], name: str, caption: str) -> dict[str, str]:
    """A figure embedded in the page as text."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "figure.png"
        draw(path)
        return {"source": embedded(path, "image/png"), "caption": caption, "alternative": name}


def _draw_values(path: Path, jobs: Sequence[Shown], keys: Sequence[str], best: Shown | None) -> None:
    """Draw the loss, and the error if known, against each swept key."""
    rows: list[tuple[str, list[float | None]]] = [("loss J", [job.loss for job in jobs])]
    if any(job.error for job in jobs):
        rows.append(("|estimate / truth - 1|", [job.error for job in jobs]))
    with figure(path, 1.2 + 2.6 * max(len(keys), 2), 0.6 + 2.2 * len(rows)) as fig:
        axes = fig.subplots(len(rows), len(keys), squeeze=False, sharey="row", sharex="col")
        for column, key in enumerate(keys):
            places, labels, log = _places([job.values.get(key) for job in jobs])
            for (name, heights), ax in zip(rows, axes[:, column], strict=True):
                shown = [(x, y) for x, y in zip(places, heights, strict=True) if y is not None and y > 0]
                if shown:
                    ax.plot(*zip(*shown, strict=True), "o", ms=4.5, color=PALE, mec=GOOD, mew=0.8)
                if best is not None and (height := heights[jobs.index(best)]):
                    ax.plot(places[jobs.index(best)], height, "o", ms=6, color=GOOD)
                ax.set(yscale=kind_of_axis([y for _, y in shown]), xscale="log" if log else "linear")
                swept = sorted({*places})
                if labels:
                    ax.set_xticks(range(len(labels)), labels, rotation=30, ha="right")
                elif len(swept) <= _MOST_TICKS:
                    ax.set_xticks(swept, [f"{x:.4g}" for x in swept])
                    ax.set_xticks([], minor=True)
                if column == 0:
                    ax.set_ylabel(name)
            axes[-1, column].set_xlabel(short_label(key))
            is_whole = all(isinstance(job.values.get(key), int) for job in jobs)
            if not labels and not log and len({*places}) > _MOST_TICKS and is_whole:
                axes[-1, column].xaxis.set_major_locator(MaxNLocator(integer=True))


def _places(values: Sequence[Any]) -> tuple[list[float], list[str], bool]:
    """Axis positions of values, labels if they are texts, and whether the axis is logarithmic."""
    if all(isinstance(x, int | float) and not isinstance(x, bool) for x in values):
        wide = min(values) > 0 and max(values) / min(values) > 30
        return [float(x) for x in values], [], wide
    labels = list(dict.fromkeys(map(str, values)))
    return [float(labels.index(str(x))) for x in values], [short_label(label) for label in labels], False


def _draw_waterfall(path: Path, jobs: Sequence[Shown]) -> None:
    """Draw the losses in order."""
    losses = [job.loss or np.nan for job in jobs]
    with figure(path, 5.0, 2.8) as fig:
        ax = fig.subplots()
        ax.plot(range(1, len(losses) + 1), losses, ".-", color=GOOD, lw=0.8)
        doubted = [n for n, job in enumerate(jobs) if not job.verdict.startswith("fitted")]
        ax.plot([n + 1 for n in doubted], [losses[n] for n in doubted], ".", color=BAD, label="not fitted to the noise")
        ax.set(yscale=kind_of_axis(losses), xlabel="job, the best first", ylabel="loss J")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        if doubted:
            ax.legend()


def _draw_frames(path: Path, jobs: Sequence[Shown], field: str) -> None:
    """Draw last frames as small multiples: lines or maps, with a common scale."""
    down, across = panels_of(len(jobs), 4)
    frames = [np.asarray(job.frames[field], float) for job in jobs]
    values = np.concatenate([frame.ravel() for frame in frames])
    is_mixed = np.any(values < 0) and np.any(values > 0)
    scale = scale_of_errors(values, clip=False) if is_mixed and frames[0].ndim > 1 else scale_of(values)
    with panel_grid(path, (1.9 * across + 0.6, 1.7 * down + 0.3), (down, across)) as (fig, grid):
        for axes, job, frame in zip(grid.flat, jobs, frames, strict=False):
            axes.set_title(short_label(job.name), fontsize=6.5)
            axes.tick_params(labelsize=6)
            if frame.ndim == 1:
                axes.plot(frame, color=GOOD, lw=1.0)
                axes.set(**scale.axis)
            else:
                axes.imshow(frame.T, origin="lower", aspect="auto", **scale.colours)
                axes.set_axis_off()
        if frames[0].ndim > 1:
            fig.colorbar(ScalarMappable(**scale.colours), ax=grid, label=field, shrink=0.8)


def short_label(text: str) -> str:
    """A label short enough for a panel, without dollar signs, which would begin a formula."""
    text = text.replace("$", "")
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 4]}...{text[-1]}"
