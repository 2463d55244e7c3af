"""A record cut into pieces of equal shape, which run one after the other by one compiled program."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from pdefit.data.observations import Observations
from pdefit.integrate.loop.time_grid import TimeGrid
from pdefit.inverse.objective.trajectory_runner import ObservationSchedule
from pdefit.inverse.offload.planner import Chunking
from pdefit.inverse.offload.stores import TargetSource


class TimeChunks:
    """Pieces of a record: piece `b` begins at the end of piece `b - 1`.

    The last piece is padded with intervals of zero length whose observations are no residuals. Each piece holds exactly
    the frames that it needs, read on demand. If the initial state is observed, `first` is a piece of length zero with
    that observation. `count` is the number of pieces after it.

    **Arguments:**

    - `whole`: the steps and observations of the record.
    - `cut`: the size of the pieces.
    - `targets`: the source of the observations.
    """

    def __init__(self, whole: ObservationSchedule, cut: Chunking, targets: TargetSource):
        self._targets = targets
        self._dtype = jax.tree.leaves(whole.observations.values)[0].dtype
        self._counts = {n: np.asarray(r) for n, r in whole.counts.items()}
        self._index = np.asarray(whole.index)
        self._grid = jax.tree.map(np.asarray, whole.time_grid)
        self.first = (
            self._window(slice(0, 1), self._still(), self._frames(slice(0, 1)).size)
            if self._grid.observes_start
            else None
        )
        if self._grid.observes_start:
            self._index, self._counts = self._index[:, 1:], {n: r[:, 1:] for n, r in self._counts.items()}
        parts = -(-self._grid.length // cut.length)
        self._split(parts, cut.length)
        self.count = -(-self._grid.intervals // cut.group)
        self._pad(self.count * cut.group - self._grid.intervals)
        self._group = cut.group
        self._most_frames = max(self._frames(self._columns(b)).size for b in range(self.count))

    def __getitem__(self, b: int) -> ObservationSchedule:
        """Piece b, with its observations."""
        columns = self._columns(b)
        part = eqx.tree_at(lambda g: (g.start, g.step, g.count), self._grid, replace_fn=lambda x: x[:, columns])
        return self._window(columns, part, self._most_frames)

    def prefetch(self, b: int) -> None:
        """Announce that piece b will be needed next."""
        if 0 <= b < self.count:
            frames = self._frames(self._columns(b))
            self._targets.prefetch(int(frames[0]), int(frames[-1]) + 1)

    def _columns(self, b: int) -> slice:
        return slice(b * self._group, (b + 1) * self._group)

    def _frames(self, columns: slice) -> np.ndarray:
        """Sorted indices of the frames that any trajectory observes in these intervals."""
        return np.unique(self._index[:, columns])

    def _window(self, columns: slice, grid: TimeGrid, most_frames: int) -> ObservationSchedule:
        frames = self._frames(columns)
        filled = np.concatenate([frames, np.full(most_frames - frames.size, frames[-1])])
        index = np.searchsorted(frames, self._index[:, columns])
        counts = {n: jnp.asarray(r[:, columns]) for n, r in self._counts.items()}
        return ObservationSchedule(grid, index, counts, self._read(filled))

    def _read(self, frames: np.ndarray) -> Observations:
        """Frames by index, in as few contiguous reads as possible; the last index may be repeated."""
        edges = np.flatnonzero(np.diff(frames) > 1) + 1
        runs = [(int(r[0]), int(r[-1]) + 1) for r in np.split(frames, edges)]
        parts = [self._targets.read(*run) for run in runs]
        pick = np.searchsorted(np.concatenate([np.arange(*run) for run in runs]), frames)

        def joined(*arrays: Any) -> Array:
            # a sigma that holds for all frames has a first axis of one
            each = [np.broadcast_to(a, (n - m, *a.shape[1:])) for a, (m, n) in zip(arrays, runs, strict=True)]
            return jnp.asarray(np.concatenate(each)[pick])

        values, mask, sigma, positions = (
            jax.tree.map(joined, *(getattr(p, name) for p in parts))
            for name in ("values", "mask", "sigma", "positions")
        )
        # files give float64
        values, sigma, positions = (
            jax.tree.map(lambda x: x.astype(self._dtype), tree) for tree in (values, sigma, positions)
        )
        # increasing where the last frame is repeated, too
        ts = self._targets.ts[frames] + np.cumsum(np.diff(frames, prepend=-1) == 0)
        return Observations(ts, *jax.tree.map(jnp.asarray, (values, mask, sigma, positions)))

    # --- cutting -------------------------------------------------------------------------------------------------------

    def _still(self) -> TimeGrid:
        """An interval of zero length at the start, which ends with the observation of the first frame."""
        grid = self._grid
        none = np.zeros_like(grid.count[:, :1])
        return TimeGrid(grid.start[:, :1], np.zeros(none.shape), none, 1, observes_start=False, sizes=grid.sizes)

    def _split(self, parts: int, length: int) -> None:
        """Cut every interval into parts of `length` steps.

        The observation at its end is a residual of the last part only.
        """
        grid = self._grid
        s, i = grid.count.shape
        before = length * np.arange(parts)
        count = np.clip(grid.count[..., None] - before, 0, length)
        if grid.frozen:
            missing = parts * length - grid.length
            steps = np.pad(grid.step, ((0, 0), (0, 0), (0, missing))).reshape(s, i, parts, length)
            used = np.where(np.arange(length) < count[..., None], steps, 0.0).sum(axis=-1)
            start = grid.start[..., None] + np.cumsum(used, axis=-1) - used
            steps = steps.reshape(s, i * parts, length)
        else:
            start = grid.start[..., None] + np.minimum(before, grid.count[..., None]) * grid.step[..., None]
            steps = np.repeat(grid.step, parts, axis=1)
        last = np.tile(np.arange(parts) == parts - 1, i)
        self._grid = TimeGrid(start.reshape(s, -1), steps, count.reshape(s, -1), length, observes_start=False)
        self._index = np.repeat(self._index, parts, axis=1)
        self._counts = {n: np.repeat(r, parts, axis=1) & last for n, r in self._counts.items()}

    def _pad(self, more: int) -> None:
        """Add intervals of zero length at the end."""

        def last(x: np.ndarray) -> np.ndarray:
            return np.concatenate([x, np.repeat(x[:, -1:], more, axis=1)], axis=1)

        def nothing(x: np.ndarray) -> np.ndarray:
            return np.concatenate([x, np.zeros_like(x[:, :1]).repeat(more, axis=1)], axis=1)

        grid = self._grid
        self._grid = TimeGrid(
            last(grid.start), nothing(grid.step), nothing(grid.count), grid.length, observes_start=False
        )  # fmt: skip
        self._index, self._counts = last(self._index), {n: nothing(r) for n, r in self._counts.items()}
