"""First look at the variables of a data file: their first, middle and last frames."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes

from pdefit._util.errors import with_space
from pdefit.output.pictures.style import COLORS, Scale, figure, scale_of, with_unit

# most points of an image along an axis
_MOST = 600


class Look(NamedTuple):
    """Frames of a variable.

    **Arguments:**

    - `label`: its name, with its unit.
    - `ts` (n,): the times of the frames.
    - `frames` (n, ...): its values; many frames with one number each are drawn as a curve.
    - `axes`: the label and positions (m,) of each axis of a frame.
    """

    label: str
    ts: np.ndarray
    frames: np.ndarray
    axes: Sequence[tuple[str, np.ndarray]] = ()


def draw_first_look(path: Path, looks: Sequence[Look], time_unit: str) -> None:
    """Draw a row for each variable, with one scale for its frames. For a volume the middle slice is drawn."""
    with figure(path, 7.0, 0.4 + 2.1 * len(looks)) as fig:
        parts: Any = np.ravel(np.asarray(fig.subfigures(len(looks), 1, squeeze=False), object))
        for part, look in zip(parts, looks, strict=True):
            frames = look.frames
            while frames.ndim > 3:
                frames = frames.take(frames.shape[-1] // 2, axis=-1)
            if frames.ndim == 1:
                axes = part.subplots()
                axes.plot(look.ts, frames, ".-", ms=3, color=COLORS[0])
                axes.set(xlabel=with_unit("time", time_unit), ylabel=look.label)
                continue
            grid = part.subplots(1, len(frames), squeeze=False)[0]
            draw, scale, drawn = _draw_line if frames.ndim == 2 else _draw_image, scale_of(frames), None
            for axes, t, frame in zip(grid, look.ts, frames, strict=True):
                axes.set_title(f"t = {t:.6g}{with_space(time_unit)}", fontsize=9)
                drawn = draw(axes, frame, scale, look)
                axes.label_outer()
            if frames.ndim == 3:
                part.colorbar(drawn, ax=list(grid), label=look.label)


def _draw_line(axes: Axes, frame: np.ndarray, scale: Scale, look: Look) -> None:
    """Draw a curve of values (n,) over their positions."""
    label, where = look.axes[0]
    axes.plot(where, frame, color=COLORS[0])
    axes.set(xlabel=label, ylabel=look.label, **scale.axis)


def _draw_image(axes: Axes, frame: np.ndarray, scale: Scale, look: Look) -> Any:
    """Draw an image of values, the first axis to the right and the second upwards; returns the mappable of the colour bar."""
    axes.grid(False)
    (across, x), (up, y) = look.axes[:2]
    step = max(1, -(-max(frame.shape) // _MOST))
    # half a step beyond the outermost points
    ends = [(w[0] - h, w[-1] + h) for w in (x, y) for h in [(w[-1] - w[0]) / max(w.size - 1, 1) / 2 or 0.5]]
    width, height = (abs(b - a) for a, b in ends)
    image = axes.imshow(
        frame.T[::step, ::step], interpolation="nearest", origin="lower", extent=(*ends[0], *ends[1]),
        **scale.colours, aspect="equal" if max(width, height) < 4 * min(width, height) else "auto",
    )  # fmt: skip
    axes.set(xlabel=across, ylabel=up)
    return image
