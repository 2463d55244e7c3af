"""Stacks of objectives of equal structure, evaluated in one program: stacking, padding, and extraction."""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PyTree

from pdefit._util.errors import PdefitError
from pdefit._util.program import values_of
from pdefit._util.trees import is_traced, taken, with_parts
from pdefit.data.observations import Observations
from pdefit.integrate.loop.batch import AbstractBatch, Vmap
from pdefit.integrate.loop.time_grid import TimeGrid
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.shooting.formulation import Layout
from pdefit.systems.events import alike

# the parts that must be alike, compared one by one so that an error can name the one that is not
_ALIKE = {
    "problem.system": "the same system, with arrays of equal shape",
    "problem.y0": "states of equal shape",
    "problem.observe": "the same observation operator",
    "controls": "the same controls, bounds, units and priors",
    "runner": "the same solver, adjoint and batch of segments",
    "formulation": "the same formulation",
    "regularizers": "the same regularizers",
}
# letters of a value in an error
_LONGEST = 60


class Extent(NamedTuple):
    """The size of a record without padding.

    **Arguments:**

    - `frames`: the number of observation times.
    - `segments`, `intervals`: the number of segments, and of intervals in each.
    - `dt`: the largest constant step, or the smallest adaptive one, in the system's time unit.
    """

    frames: int
    segments: int
    intervals: int
    dt: float


def extent(functional: Functional) -> Extent:
    """Size of the record of a functional."""
    layout = functional.layout
    return Extent(
        functional.observations.ts.size,
        layout.segments,
        layout.time_grid.intervals,
        functional.dt,
    )


class Stack(eqx.Module):
    """E objectives of equal structure as one, with common arrays stored once.

    Numbers in a problem that differ between objectives become arrays.

    **Arguments:**

    - `common`: the tree of an objective with the common arrays, and None for all other arrays.
    - `own`: the same tree with the arrays of each objective, (E, ...), and None elsewhere.
    - `extents`: the size of each record without padding; None if no record is padded.
    """

    common: Any
    own: Any
    extents: tuple[Extent, ...] | None = eqx.field(static=True, default=None)

    @staticmethod
    def of(objectives: Sequence[Any], *varied: Callable[[Any], list[Any]]) -> "Stack":
        """The stack of several objectives. Shorter records are padded with frames of weight zero.

        **Arguments:**

        - `objectives`: functionals, or other objectives that differ only in the number of adaptive steps.
        - `varied`: functions that select arrays to be stored for each objective, even if they are equal.
        """
        objectives = [_stacked(objective) for objective in objectives]
        extents = tuple(extent(f) for f in objectives if isinstance(f, Functional))
        if extents:
            alike = _alike_all(objectives, extents)
        else:
            grids = _alike_grids([o.time_grid for o in objectives])
            alike = [o.with_time_grid(grid) for o, grid in zip(objectives, grids, strict=True)]
        first, tree = alike[0], jax.tree.structure(alike[0])
        kept = jax.tree.map(lambda _: False, first)
        for where in varied:
            kept = eqx.tree_at(where, kept, replace_fn=lambda _: True)
        dtype = jax.tree.leaves(first.problem.y0)[0].dtype
        leaves = zip(jax.tree.leaves(kept), *map(tree.flatten_up_to, alike), strict=True)
        common, own = zip(*(_shared_or_own(x, dtype, keep) for keep, *x in leaves), strict=True)
        return Stack(jax.tree.unflatten(tree, common), jax.tree.unflatten(tree, own), extents or None)

    @property
    def state_size(self) -> int:
        """Number of values of all states; common ones count once."""
        parts = self.common, self.own
        return sum(values_of(t.problem.y0) if isinstance(t, Functional) else t.stack.state_size for t in parts)

    @staticmethod
    def beside(first: Any, own: Any) -> "Stack":
        """The stack with one known objective and known differing arrays.

        **Arguments:**

        - `first`: one of the objectives.
        - `own`: as in `Stack`.
        """
        first, own = _stacked(first), _stacked(own)
        common = jax.tree.map(lambda x, shared: shared if x is None else None, own, first, is_leaf=_is_none)
        return Stack(common, own)

    def at(self, e: int) -> Any:
        """One of the objectives, without padding."""
        one = eqx.combine(jax.tree.map(lambda x: taken(x, e), self.own), self.common)
        return one if self.extents is None else cropped(one, self.extents[e])

    def take(self, index: Int[np.ndarray, " k"]) -> "Stack":
        """The stack of some of the objectives, by index."""
        own = jax.tree.map(lambda x: taken(x, index), self.own)
        return Stack(self.common, own, self.extents and tuple(self.extents[e] for e in index))

    def each(self, function: Callable, *arguments: PyTree, batch: AbstractBatch | None = None) -> PyTree:
        """Results of a function of every objective and of its slice of some arrays, stacked. It is traced once.

        **Arguments:**

        - `function`: called as `function(objective, *slices)`.
        - `arguments`: trees of arrays with a leading axis of objectives, at least one.
        - `batch`: the batch in which the objectives run; default all at once (`Vmap()`).
        """
        return (batch or Vmap())(
            lambda own, *slices: function(eqx.combine(own, self.common), *slices), self.own, *arguments
        )

    def part(self, where: Callable[[Any], Any], count: int) -> Any:
        """A part of all objectives, with a leading axis on every array.

        **Arguments:**

        - `where`: selects the part of a tree.
        - `count`: the number of objectives.
        """

        def whole(own: Any, common: Any) -> Any:
            if own is not None or not eqx.is_array(common):
                return own if own is not None else common
            library = np if isinstance(common, np.ndarray) else jnp
            return library.broadcast_to(common, (count, *common.shape))

        return jax.tree.map(whole, where(self.own), where(self.common), is_leaf=_is_none)

    def with_time_grid(self, grid: TimeGrid) -> "Stack":
        """The stack with other steps for the same trajectories.

        **Arguments:** `grid`: the time grids of all objectives, with a leading axis.
        """
        arrays, rest = eqx.partition(grid, eqx.is_array)
        return Stack(self.common.with_time_grid(rest), self.own.with_time_grid(arrays), self.extents)

    def by_count(self, grid: TimeGrid) -> "Stack":
        """The stack for programs that run forward only, as `AbstractObjective.by_count`.

        **Arguments:** `grid`: the time grids of all objectives.
        """
        stack = self.with_time_grid(grid.by_count())
        return Stack(stack.common.without_reverse(), stack.own.without_reverse(), self.extents)

    def with_grids(self, grids: Sequence[TimeGrid], length: int) -> "Stack":
        """The stack with a time grid for each objective.

        **Arguments:**

        - `grids`: the time grids. Shorter ones are padded with steps of zero length.
        - `length`: the minimal number of steps of an interval; if it only grows, few programs are compiled.
        """
        return self.with_time_grid(jax.tree.map(lambda *x: np.stack(x), *_alike_grids(grids, length)))


def _stacked(objective: Any) -> Any:
    """An objective whose adjoint has no choices of its own."""
    adjoint = objective.runner.adjoint.stacked() if isinstance(objective, Functional) else None
    return objective if adjoint is None else eqx.tree_at(lambda f: f.runner.adjoint, objective, adjoint)


def _is_none(x: Any) -> bool:
    return x is None


def _shared_or_own(leaves: Sequence[Any], dtype: Any, keep: bool) -> tuple[Any, Any]:
    """One leaf of a stack: the common array and None, or None and the stacked arrays.

    One program runs all objectives, so a number that differs between them must become an input. An equal number stays a
    number, because code may branch on it.

    **Arguments:**

    - `leaves`: the leaves of all objectives.
    - `dtype`: the type of numbers that differ.
    - `keep`: whether arrays are stored for each objective even if all are equal.
    """
    first = leaves[0]
    if not eqx.is_array(first):
        return (first, None) if all(x == first for x in leaves) else (None, jax.device_put(np.asarray(leaves, dtype)))
    if not keep and not is_traced(leaves) and all(x is first or np.array_equal(x, first) for x in leaves):
        return first, None
    # sigma may hold for all frames in one recording, and for each in another
    shape = np.broadcast_shapes(*(x.shape for x in leaves))
    if all(isinstance(x, np.ndarray) for x in leaves):
        return None, np.stack([np.broadcast_to(x, shape) for x in leaves])
    alike = [x if x.shape == shape else jnp.broadcast_to(x, shape) for x in leaves]
    # JAX would compile a program that takes hundreds of arrays
    return None, jnp.stack(alike) if is_traced(leaves) else jax.device_put(np.stack(alike))


def cropped(one: Functional, size: Extent) -> Functional:
    """A functional without the padding from its stack.

    **Arguments:**

    - `one`: the functional.
    - `size`: its original `extent`.
    """
    data, layout, problem = one.observations, one.layout, one.problem

    def frames(x: Array) -> Array:
        return taken(x, slice(size.frames)) if x.shape[0] > 1 else x

    data = Observations(
        data.ts[: size.frames],
        *(jax.tree.map(frames, part) for part in (data.values, data.mask, data.sigma, data.positions)),
    )
    grid, s, i = layout.time_grid, slice(size.segments), slice(size.intervals)
    count = np.asarray(grid.count[s, i])
    length = int(count.max(initial=1))
    step = grid.step[s, i, :length] if grid.frozen else grid.step[s, i]
    looks = size.intervals + grid.observes_start
    layout = Layout(
        TimeGrid(grid.start[s, i], step, count, length, grid.observes_start),
        layout.index[s, :looks],
        layout.counts[s, :looks],
        layout.nodes[s],
    )
    nodes = jax.tree.map(lambda x: x[s], problem.nodes)
    measured = jax.tree.map(frames, one.measured_sigma)
    return eqx.tree_at(
        lambda f: (f.observations, f.measured_sigma, f.layout, f.problem.nodes, f.dt),
        one,
        (data, measured, layout, nodes, size.dt),
        is_leaf=lambda x: x is None,
    )


# --- padding -----------------------------------------------------------------------------------------------------------


def _alike_all(functionals: Sequence[Functional], extents: Sequence[Extent]) -> list[Functional]:
    """The functionals padded to the largest numbers of frames, segments, intervals and steps."""
    most = Extent(*map(max, zip(*extents, strict=True)))
    if len({e.segments for e in extents}) > 1 and functionals[0].controls.nodes:
        raise PdefitError(
            "Recordings with free node states expect as many segments in each, but have "
            f"{', '.join(str(e.segments) for e in extents)}; cut the recordings to one length, or make no node states controls"
        )
    grids = _alike_grids([f.time_grid for f in functionals])
    padded = [_padded(f, most, grid) for f, grid in zip(functionals, grids, strict=True)]
    events = alike([f.problem.events for f in functionals])
    padded = [with_parts(f, lambda f: f.problem.events, e) for f, e in zip(padded, events, strict=True)]
    for name, what in _ALIKE.items():
        parts = [attrgetter(name)(f) for f in padded]
        for e, part in enumerate(parts):
            if not _alike(parts[0], part):
                raise PdefitError(f"Recordings expects {what} in all, but number {e} {_odd(parts[0], part, name)}")
    return padded


def _padded(functional: Functional, most: Extent, grid: TimeGrid) -> Functional:
    """The functional padded to the largest numbers of frames and segments, with padded steps."""
    data, layout = functional.observations, functional.layout
    frames, segments = most.frames - data.ts.size, most.segments - layout.segments

    def longer(x: Array, fill: float | bool) -> Array:
        return jnp.concatenate([x, jnp.full((frames, *x.shape[1:]), fill, x.dtype)]) if frames else x

    def each(x: Array, fill: float) -> Array:
        return longer(x, fill) if x.shape[0] > 1 else x

    weights = [{n: each(x, 1.0) for n, x in s.items()} for s in (data.sigma, functional.measured_sigma)]
    observations = eqx.tree_at(
        lambda o: (o.ts, o.values, o.mask, o.sigma, o.positions),
        data,
        (
            np.concatenate([data.ts, data.ts[-1] + 1.0 + np.arange(frames)]),
            {n: longer(x, 0.0) for n, x in data.values.items()},
            {n: longer(x, False) for n, x in data.mask.items()},
            weights[0],
            {n: each(x, 0.0) for n, x in data.positions.items()},
        ),
    )
    nodes = jax.tree.map(lambda x: jnp.concatenate([x, jnp.repeat(x[-1:], segments, axis=0)]), functional.problem.nodes)
    # observations of more intervals and segments are no residuals
    more = _more(layout.time_grid, grid.count.shape)
    indices = np.pad(layout.index, more, mode="edge"), np.pad(layout.counts, more)
    layout = Layout(grid, *indices, np.pad(layout.nodes, more[0], mode="edge"))
    return eqx.tree_at(
        lambda f: (f.observations, f.measured_sigma, f.layout, f.problem.nodes, f.dt),
        functional,
        (observations, weights[1], layout, nodes, most.dt),
        is_leaf=lambda x: x is None,
    )


def _alike_grids(grids: Sequence[TimeGrid], length: int = 0) -> list[TimeGrid]:
    """Time grids padded to equal numbers of segments, intervals and steps, with steps of zero length."""
    if any(grid.frozen for grid in grids):
        grids = [grid.as_frozen() for grid in grids]
    shape = tuple(map(max, zip(*(grid.count.shape for grid in grids), strict=True)))
    padded = [_padded_grid(grid, shape, max(length, *(g.length for g in grids))) for grid in grids]
    # a solver is prepared for the sizes of each record, in lists of one length; without a list each step is prepared alone
    lists = [grid.sizes for grid in padded]
    sizes = None if any(x is None for x in lists) else max(x.shape[-1] for x in lists if x is not None)
    return [grid.with_sizes(sizes) for grid in padded]


def _padded_grid(grid: TimeGrid, shape: tuple[int, ...], length: int) -> TimeGrid:
    """A time grid with more intervals and segments, all of zero length, and more steps."""
    if (shape, length) == (grid.count.shape, grid.length):
        return grid
    more, start = _more(grid, shape), grid.start
    if shape != grid.count.shape:
        used = grid.step[:, -1].sum(axis=-1) if grid.frozen else grid.count[:, -1] * grid.step[:, -1]
        end = (grid.start[:, -1] + used)[:, None]
        start = np.concatenate([start, np.repeat(end, more[1][1], axis=1)], axis=1)
        start = np.concatenate([start, np.full((more[0][1], start.shape[1]), end[-1, 0])])
    steps = [(0, length - grid.length)] if grid.frozen else []
    return TimeGrid(start, np.pad(grid.step, [*more, *steps]), np.pad(grid.count, more), length, grid.observes_start)


def _more(grid: TimeGrid, shape: tuple[int, ...]) -> list[tuple[int, int]]:
    """Padding widths at the end of each axis of a time grid."""
    return [(0, wanted - there) for wanted, there in zip(shape, grid.count.shape, strict=True)]


# --- comparing --------------------------------------------------------------------------------------------------------


def _alike(a: PyTree, b: PyTree) -> bool:
    """True if two trees can be stacked.

    They must have equal structure, arrays of equal shape and type, and equal other leaves, except for floats.
    """
    if jax.tree.structure(a) != jax.tree.structure(b):
        return False

    def same(x: Any, y: Any) -> bool:
        if isinstance(x, jax.Array | np.ndarray) and isinstance(y, jax.Array | np.ndarray):
            return x.shape == y.shape and x.dtype == y.dtype
        return isinstance(x, float) and isinstance(y, float) or bool(x == y)

    return all(same(x, y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))


def _odd(a: PyTree, b: PyTree, path: str) -> str:
    """Innermost part in which two trees differ, with both values, in words."""
    one, other = (dict(enumerate(x)) if isinstance(x, tuple | list) else getattr(x, "__dict__", {}) for x in (a, b))
    if type(a) is type(b) and one.keys() == other.keys():
        for key in one:
            if not _alike(one[key], other[key]):
                return _odd(one[key], other[key], f"{path}.{key}")
    first, second = (" ".join(eqx.tree_pformat(x).split())[:_LONGEST] for x in (a, b))
    told = f"has {second} for {path}, and number 0 has {first}"
    return f"{told}; make them equal, or write them as numbers or arrays of one shape, which may differ"
