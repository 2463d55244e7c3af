"""What the page of a sweep shows of its jobs."""

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

import numpy as np

from pdefit.cli.sweeps.jobs import Job, tally
from pdefit.cli.sweeps.table import last_frames, rows_of
from pdefit.output.pictures.sweep import Shown, write_sweep_page

# points along an axis of a small map
_MOST_POINTS = 128


def write_page(directory: Path, jobs: Sequence[Job]) -> Path:
    """Write sweep.html into the directory of a sweep."""
    shown = [_shown(job, row) for job, row in zip(jobs, rows_of(jobs), strict=True)]
    name = next((job.files.summary.experiment for job in jobs if job.files.summary.experiment), directory.name)
    return write_sweep_page(directory / "sweep.html", name, tally(jobs), shown)


def _shown(job: Job, row: dict[str, object]) -> Shown:
    errors = [abs(x) for key, x in row.items() if key.endswith(".relative_error") and isinstance(x, float)]
    seconds = row.get("seconds")
    return Shown(
        name=job.name,
        state=job.state,
        reason=job.reason,
        verdict=job.files.summary.verdict,
        values={key: row[key] for key in job.values},
        loss=job.loss,
        error=max(errors, default=None),
        iterations=job.iterations,
        seconds=seconds if isinstance(seconds, float) else None,
        page=f"{quote(job.name)}/report.html" if job.files.has("report.html") else "",
        frames={name: frame for name, x in last_frames(job).items() if (frame := _small(x.values)) is not None},
    )


def _small(frame: np.ndarray) -> np.ndarray | None:
    """A frame on one or two axes with few points; None for numbers and for what has more axes."""
    if frame.ndim not in (1, 2) or frame.size < 2 or frame.dtype.kind not in "fiu":
        return None
    return frame[tuple(slice(None, None, -(-n // _MOST_POINTS)) for n in frame.shape)]
