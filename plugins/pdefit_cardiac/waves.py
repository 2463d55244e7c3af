"""Waves in a film of the voltage: their arrival times, and the points about which they rotate."""

from collections import deque
from collections.abc import Iterable

import numpy as np


def activation_times(ts: np.ndarray, frames: Iterable[np.ndarray], level: float) -> np.ndarray:
    """First time at which the voltage of each cell rises through a level, linear between frames; NaN without one.

    A cell counts once it was below half the level. So noise on a falling voltage is no activation, and a cell
    excited at the start of the film is activated by the next wave.

    **Arguments:**

    - `ts`: the times of the frames, (n,).
    - `frames`: the voltage, 0 at rest, an array of the grid's shape for each time; NaN for missing values.
    - `level`: the threshold of the voltage.
    """
    rest = iter(frames)
    last = np.asarray(next(rest), float)
    found, when, rested = np.full(last.shape, np.nan), np.full(last.shape, ts[0]), last < level / 2
    for t, frame in zip(ts[1:], rest, strict=True):
        u = np.asarray(frame, float)
        rises = rested & np.isnan(found) & (u >= level)
        part = (level - last[rises]) / (u[rises] - last[rises])
        found[rises] = when[rises] + part * (t - when[rises])
        rested |= u < level / 2
        # across a gap the last value that was seen counts
        last, when = np.where(np.isfinite(u), u, last), np.where(np.isfinite(u), t, when)
    return found


def topological_charge(phase: np.ndarray) -> np.ndarray:
    """Winding number of the phase around every square of four cells, counterclockwise: 0, or 1 or -1 at a singularity.

    **Arguments:** `phase`: angles in radians, (n, m), with x along the first axis. The result is (n - 1, m - 1).
    """
    corners = phase[:-1, :-1], phase[1:, :-1], phase[1:, 1:], phase[:-1, 1:]
    turns = np.zeros(corners[0].shape)
    for here, there in zip(corners, (*corners[1:], corners[0]), strict=True):
        step = (there - here) / (2 * np.pi)
        turns += step - np.rint(step)
    return np.rint(turns)


def singularities(
    ts: np.ndarray, frames: Iterable[np.ndarray], level: float, delay: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Phase singularities: their frame numbers (k,), the first cells of their squares (k, 2), and charges (k,).

    The phase is the angle about `level` in the plane of the present and the delayed voltage. The tip of a wave rotating
    counterclockwise has charge 1. Voltages are averaged over 3 x 3 cells, so that noise makes few false pairs. Frames
    within the first delay have no phase, and so no singularity.

    **Arguments:**

    - `ts`, `frames`, `level`: as in `activation_times`, on a plane.
    - `delay`: the time between the two voltages. A short delay locates tips well, and a long delay tolerates more
      noise.

    Source: R. A. Gray, A. M. Pertsov, J. Jalife, Nature 392:75 (1998), doi:10.1038/32164.
    """
    found, past = [np.zeros((0, 4), int)], deque[tuple[float, np.ndarray]]()
    for number, (t, u) in enumerate(zip(ts, frames, strict=True)):
        past.append((t, _averaged(u)))
        # the last frame that is as old as the delay, to round-off
        while len(past) > 1 and past[1][0] <= t - delay * (1 - 1e-6):
            past.popleft()
        if past[0][0] <= t - delay * (1 - 1e-6):
            charge = topological_charge(np.arctan2(past[-1][1] - level, past[0][1] - level))
            squares = np.argwhere(np.abs(charge) > 0)
            found.append(np.column_stack([np.full(len(squares), number), squares, charge[*squares.T]]).astype(int))
    rows = np.concatenate(found)
    return rows[:, 0], rows[:, 1:3], rows[:, 3]


def _averaged(u: np.ndarray) -> np.ndarray:
    """Means over 3 x 3 cells; at a border its cells count twice."""
    padded = np.pad(np.asarray(u, float), 1, mode="edge")
    return np.lib.stride_tricks.sliding_window_view(padded, (3, 3)).mean((2, 3))
