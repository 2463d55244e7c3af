"""Steps and observation times of trajectories: plain numbers, fixed before anything is traced."""

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pdefit._util.errors import PdefitError

# at a microsecond for the smallest of steps, one solve takes a quarter of an hour
MOST_STEPS = 1e9
# sizes of steps that differ by less are the same, and the most of them that are worth a list
_SAME, _MOST_SIZES = 1e-11, 256
NO_BENDS = np.zeros(0)


class TimeGrid(eqx.Module):
    """Steps between observation times, regular or not.

    All I intervals between observations are scanned with `length` steps. If an interval needs fewer, its last steps
    have zero length. A batch of time grids has one leading axis on every array.

    **Arguments:**

    - `start`: the start of each interval, (I,), in the system's time unit.
    - `step`: the size of the equal steps of each interval, (I,). Frozen steps, from an adaptive pass, each have their
      own size, (I, length).
    - `count`: the number of steps of each interval, (I,).
    - `length`: the padded number of steps, at least the largest count; 0 if they are counted (`by_count`).
    - `observes_start`: whether the state at `start[0]` is observed too, before any step.
    - `sizes`: the distinct sizes of steps, (D,), by default found from `step`. None for frozen steps, or for very many
      sizes.
    """

    start: np.ndarray
    step: np.ndarray
    count: np.ndarray
    length: int = eqx.field(static=True)
    observes_start: bool = eqx.field(static=True)
    sizes: np.ndarray | None

    def __init__(
        self,
        start: np.ndarray,
        step: np.ndarray,
        count: np.ndarray,
        length: int,
        observes_start: bool,
        sizes: np.ndarray | None = None,
    ):
        self.start, self.step, self.count = start, step, count
        self.length, self.observes_start = length, observes_start
        self.sizes = _different(step, count) if sizes is None and not self.frozen else sizes

    @property
    def frozen(self) -> bool:
        """True if each step has its own size, as adaptive steps have."""
        return self.step.ndim > self.start.ndim

    @property
    def counted(self) -> bool:
        """True if each interval takes as many steps as it needs, by a loop that has no reverse derivative."""
        return self.length == 0

    def by_count(self) -> "TimeGrid":
        """The same steps without padding: one program for any number of them, without reverse derivatives."""
        return TimeGrid(self.start, self.step, self.count, 0, self.observes_start, self.sizes)

    @property
    def longest(self) -> int:
        """Number of steps of the longest trajectory."""
        return int(np.max(np.sum(self.count, axis=-1)))

    @property
    def intervals(self) -> int:
        """Number of intervals of one trajectory, padding included."""
        return int(self.count.shape[-1])

    @property
    def end(self) -> float:
        """End time of a single time grid."""
        last = self.step[-1, : self.count[-1]].sum() if self.frozen else self.count[-1] * self.step[-1]
        return float(self.start[-1] + last)

    @property
    def steps(self) -> int:
        """Number of steps of all trajectories, without padding."""
        return int(self.count.sum())

    @property
    def smallest(self) -> float:
        """Smallest step of all trajectories."""
        if self.frozen:
            return float(np.min(self.step, where=np.arange(self.length) < self.count[..., None], initial=np.inf))
        return float(np.min(self.step, where=self.count > 0, initial=np.inf))

    @property
    def largest(self) -> float:
        """Largest step of all trajectories."""
        return float(np.max(self.step))

    def as_frozen(self) -> "TimeGrid":
        """The same steps, with one size for each."""
        step = self.step if self.frozen else self.step[..., None]
        sizes = np.where(np.arange(self.length) < self.count[..., None], step, 0.0)
        return TimeGrid(self.start, sizes, self.count, self.length, self.observes_start)

    def with_sizes(self, count: int | None) -> "TimeGrid":
        """The same steps with `count` sizes in their list, padded by repeating the last; None for no list."""
        sizes = self.sizes if count else None
        if sizes is not None:
            before = [(0, 0)] * (sizes.ndim - 1)
            sizes = np.pad(sizes, [*before, (0, (count or 0) - sizes.shape[-1])], mode="edge")
        return eqx.tree_at(lambda g: g.sizes, self, sizes, is_leaf=lambda x: x is None)

    def halved(self) -> "TimeGrid":
        """The time grid with every step halved."""
        step = (np.repeat(self.step, 2, axis=-1) if self.frozen else self.step) / 2
        return TimeGrid(self.start, step, 2 * self.count, 2 * self.length, self.observes_start)

    def ends(self) -> list[np.ndarray]:
        """Start and ends of all steps, for each trajectory of a batch."""
        ends = self.start[..., None] + np.cumsum(self.as_frozen().step, axis=-1)
        return [np.unique(np.append(start[0], x)) for start, x in zip(self.start, ends, strict=True)]

    def times_and_sizes(self) -> tuple[Array, Array]:
        """Start and size of every step of one time grid, (I, length) each, in float64."""
        start, count = jnp.asarray(self.start, jnp.float64)[:, None], jnp.asarray(self.count)[:, None]
        if self.frozen:
            j = jnp.arange(self.step.shape[-1])[None]
            sizes = jnp.where(j < count, jnp.asarray(self.step, jnp.float64), 0.0)
            return start + jnp.cumsum(sizes, axis=1) - sizes, sizes
        j, step = jnp.arange(self.length)[None], jnp.asarray(self.step, jnp.float64)[:, None]
        # a step of zero length returns its state: it pads intervals that need fewer steps than the longest
        return start + jnp.minimum(j, count) * step, jnp.where(j < count, step, 0.0)


def _different(step: np.ndarray, count: np.ndarray) -> np.ndarray | None:
    """Distinct sizes of steps, up to round-off, common to all trajectories; None if there are very many."""
    sizes = np.sort(np.asarray(step)[np.asarray(count) > 0])
    if sizes.size:
        sizes = sizes[np.diff(sizes, prepend=-np.inf) > _SAME * sizes[-1]]
    else:
        sizes = np.zeros(1)
    return None if sizes.size > _MOST_SIZES else np.broadcast_to(sizes, (*step.shape[:-1], sizes.size))


def constant_grid(t0: float, ts: Float[np.ndarray, " K"], dt: float, bends: np.ndarray = NO_BENDS) -> TimeGrid:
    """Time grid with steps of at most dt, equal within each interval, or between the bends in it.

    **Arguments:**

    - `t0`: the start of the trajectory.
    - `ts`: the observation times, increasing; the first may be t0 itself.
    - `dt`: the largest step, in the unit of the times.
    - `bends`: further times at which steps end, increasing. With bends, every step has its own size.
    """
    ts = np.asarray(ts, np.float64)
    if not dt > 0:
        raise PdefitError(f"Constant steps expect dt above 0, but got {dt:g}; set dt larger, or leave it out")
    if ts.size == 0 or ts[-1] == t0 or ts[0] < t0 or np.any(np.diff(ts) <= 0):
        given = f"{ts.size} from {ts[0]:g} to {ts[-1]:g}" if ts.size else "none"
        raise PdefitError(
            f"Steps expect increasing times that begin at t0 = {t0:g} or later, but got {given}; sort them"
        )
    edges, observes_start = edges_of(t0, ts)
    duration = np.diff(edges)
    if (ts[-1] - t0) / dt > MOST_STEPS:
        raise PdefitError(
            f"A step of {dt:g} divides {ts[-1] - t0:g} into more than {MOST_STEPS:.0e} steps; set dt larger"
        )
    if bends.size:
        ends = step_ends(np.union1d(edges, bends[(bends > t0) & (bends < ts[-1])]), dt)
        return frozen_grid(edges, np.split(np.diff(ends), np.searchsorted(ends, edges[1:-1])), observes_start)
    count = _counts(duration, dt)
    return TimeGrid(
        start=edges[:-1],
        step=duration / count,
        count=count,
        length=int(count.max(initial=0)),
        observes_start=observes_start,
    )


def _counts(duration: np.ndarray, dt: float) -> np.ndarray:
    """Numbers of equal steps of at most dt."""
    # 1e-9: a duration that is a whole number of steps up to round-off must not get one step more
    return np.maximum(np.ceil(duration / dt - 1e-9), 1).astype(np.int64)


def step_ends(edges: Float[np.ndarray, " E"], dt: float) -> Float[np.ndarray, " N"]:
    """Start and ends of all equal steps of at most dt between edges, (N,)."""
    duration = np.diff(edges)
    count = _counts(duration, dt)
    number = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    return np.append(np.repeat(edges[:-1], count) + number * np.repeat(duration / count, count), edges[-1])


def edges_of(t0: float, ts: Float[np.ndarray, " K"]) -> tuple[Float[np.ndarray, " E"], bool]:
    """Ends of all intervals of a trajectory, and whether its start is observed.

    **Arguments:**

    - `t0`: the start time of the trajectory.
    - `ts`: the observation times, increasing; the first may be t0 itself.
    """
    ts = np.asarray(ts, np.float64)
    observes_start = bool(ts[0] == t0)
    return (ts if observes_start else np.concatenate([[t0], ts])), observes_start


def stack_grids(grids: Sequence[TimeGrid]) -> TimeGrid:
    """A batch of time grids.

    Shorter grids are padded with intervals of zero length, whose observations have no weight.
    """
    intervals, length = max(grid.start.size for grid in grids), max(grid.length for grid in grids)

    def pad(x: np.ndarray, fill: int | float) -> np.ndarray:
        return np.concatenate([x, np.full((intervals - len(x), *x.shape[1:]), fill, x.dtype)])

    def padded_steps(grid: TimeGrid) -> np.ndarray:
        return pad(np.pad(grid.step, ((0, 0), (0, length - grid.length))) if grid.frozen else grid.step, 0.0)

    if len({(grid.observes_start, grid.frozen) for grid in grids}) > 1:
        raise ValueError("Time grids in a batch must all observe their first state, or none; and be of one kind")
    return TimeGrid(
        start=np.stack([pad(grid.start, grid.end) for grid in grids]),
        step=np.stack([padded_steps(grid) for grid in grids]),
        count=np.stack([pad(grid.count, 0) for grid in grids]),
        length=length,
        observes_start=grids[0].observes_start,
    )


def frozen_grid(edges: np.ndarray, sizes: Sequence[np.ndarray], observes_start: bool) -> TimeGrid:
    """Time grid from given step sizes.

    Its length is a power of two, so that grids with slightly different numbers of steps share one compiled program.

    **Arguments:**

    - `edges`: the ends of the intervals, (I + 1,).
    - `sizes`: the steps of each interval.
    - `observes_start`: whether the state at the first edge is observed.
    """
    count = np.asarray([s.size for s in sizes], np.int64)
    length = 1 << (int(count.max(initial=1)) - 1).bit_length()
    step = np.stack([np.pad(s, (0, length - s.size)) for s in sizes])
    return TimeGrid(np.asarray(edges[:-1], np.float64), step, count, length, observes_start)


def cropped_like(grid: TimeGrid, like: TimeGrid) -> TimeGrid:
    """The first trajectories and intervals of a batch of frozen time grids.

    **Arguments:**

    - `grid`: the batch that is cropped.
    - `like`: the batch whose trajectories and intervals are kept.
    """
    s, i = like.count.shape
    taken = like.count > 0
    return TimeGrid(
        start=like.start,
        step=np.where(taken[..., None], grid.step[:s, :i], 0.0),
        count=np.where(taken, grid.count[:s, :i], 0),
        length=grid.length,
        observes_start=grid.observes_start,
    )
