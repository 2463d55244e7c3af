"""Stacking of functionals of equal structure into one with a leading axis on every array, and the way back."""

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from pdefit._util.errors import PdefitError
from pdefit._util.trees import is_traced
from pdefit.data.observations import Observations
from pdefit.integrate.loop.time_grid import TimeGrid
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.shooting.formulation import Layout

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
Stacked = TypeVar("Stacked")
# letters of a value in an error
_LONGEST = 60


class Extent(NamedTuple):
    """The size of a record without padding.

    **Arguments:**

    - `frames`: the number of observation times.
    - `segments`, `intervals`: the number of segments, and of intervals of each.
    - `dt`: the largest constant step, or the smallest adaptive one, in the system's time unit.
    """

    frames: int
    segments: int
    intervals: int
    dt: float


def extent(functional: Functional) -> Extent:
    """The size of the record of a functional."""
    layout = functional.layout
    return Extent(
        functional.observations.ts.size,
        layout.segments,
        layout.time_grid.intervals,
        functional.dt,
    )


def stacked(functionals: Sequence[Functional]) -> Functional:
    """Several functionals as one, with a leading axis on every array.

    Shorter records are filled up with frames of weight zero, behind intervals and segments of zero length. Numbers of
    the problem that differ from record to record become arrays.
    """
    if any(f.layout.time_grid.frozen for f in functionals):
        functionals = [f.with_time_grid(f.layout.time_grid.as_frozen()) for f in functionals]
    each, length = [extent(f) for f in functionals], max(f.layout.time_grid.length for f in functionals)
    most = Extent(*map(max, zip(*each, strict=True)))
    if len({e.segments for e in each}) > 1 and functionals[0].controls.nodes:
        raise PdefitError(
            "Recordings with free node states expect as many segments in each, but have "
            f"{', '.join(str(e.segments) for e in each)}; cut the recordings to one length, or make no node states controls"
        )
    padded = [_padded(f, most, length) for f in functionals]
    # a solver is prepared for the sizes of each record, in lists of one length; without a list each step is prepared alone
    lists = [f.layout.time_grid.sizes for f in padded]
    sizes = None if any(x is None for x in lists) else max(x.shape[-1] for x in lists if x is not None)
    padded = [f.with_time_grid(f.layout.time_grid.with_sizes(sizes)) for f in padded]
    for name, what in _ALIKE.items():
        parts = [attrgetter(name)(f) for f in padded]
        for e, part in enumerate(parts):
            if not _alike(parts[0], part):
                raise PdefitError(f"Recordings expects {what} in all, but number {e} {_odd(parts[0], part, name)}")
    return _stack(padded)


def stacked_alike(objectives: Sequence[Any]) -> Any:
    """Several objectives of equal sizes as one, with a leading axis on every array. Adaptive steps may differ in number."""
    first = objectives[0]
    if first.steps is not None:
        grid = stacked_grids([o.time_grid for o in objectives], first.time_grid.count.shape)
        objectives = [o.with_time_grid(sliced(grid, e)) for e, o in enumerate(objectives)]
    return _stack(objectives)


def unstacked(functional: Functional, e: int, size: Extent) -> Functional:
    """One of the functionals that were stacked, without its padding.

    **Arguments:**

    - `functional`: what `stacked` returned.
    - `e`: the number of the recording.
    - `size`: its `extent` before stacking.
    """
    return cropped(sliced(functional, e), size)


def cropped(one: Functional, size: Extent) -> Functional:
    """A functional without the padding that it was given beside longer ones.

    **Arguments:**

    - `one`: the functional.
    - `size`: its `extent` before.
    """
    data, layout, problem = one.observations, one.layout, one.problem

    def frames(x: Array) -> Array:
        return x[: size.frames] if x.shape[0] > 1 else x

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


def sliced(tree: Stacked, e: int) -> Stacked:
    """One of the functionals that were stacked, with its padding."""
    arrays, rest = eqx.partition(tree, eqx.is_array)
    return eqx.combine(jax.tree.map(lambda x: x[e], arrays), rest)


# --- padding -----------------------------------------------------------------------------------------------------------


def _padded(functional: Functional, most: Extent, length: int) -> Functional:
    """The functional with as many frames, segments, intervals and steps as the largest has."""
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
    return eqx.tree_at(
        lambda f: (f.observations, f.measured_sigma, f.layout, f.problem.nodes, f.dt),
        functional,
        (observations, weights[1], _padded_layout(layout, most, length), nodes, most.dt),
        is_leaf=lambda x: x is None,
    )


def _padded_layout(layout: Layout, most: Extent, length: int) -> Layout:
    """The layout with more intervals and segments, all of zero length, whose observations are no residuals."""
    grid, shape = layout.time_grid, (most.segments, most.intervals)
    more = _more(grid, shape)
    return Layout(
        padded_grid(grid, shape, length),
        np.pad(layout.index, more, mode="edge"),
        np.pad(layout.counts, more),
        np.pad(layout.nodes, more[0], mode="edge"),
    )


def padded_grid(grid: TimeGrid, shape: tuple[int, ...], length: int) -> TimeGrid:
    """The steps of a batch of trajectories with more intervals and segments, all of zero length, and more steps.

    **Arguments:**

    - `grid`: the batch.
    - `shape`: the numbers of segments and intervals.
    - `length`: the number of steps of an interval.
    """
    more, start = _more(grid, shape), grid.start
    if shape != grid.count.shape:
        used = grid.step[:, -1].sum(axis=-1) if grid.frozen else grid.count[:, -1] * grid.step[:, -1]
        end = (grid.start[:, -1] + used)[:, None]
        start = np.concatenate([start, np.repeat(end, more[1][1], axis=1)], axis=1)
        start = np.concatenate([start, np.full((more[0][1], start.shape[1]), end[-1, 0])])
    steps = [(0, length - grid.length)] if grid.frozen else []
    return TimeGrid(start, np.pad(grid.step, [*more, *steps]), np.pad(grid.count, more), length, grid.observes_start)


def _more(grid: TimeGrid, shape: tuple[int, ...]) -> list[tuple[int, int]]:
    """Widths of the padding at the end of each axis of a batch of steps."""
    return [(0, wanted - there) for wanted, there in zip(shape, grid.count.shape, strict=True)]


def stacked_grids(grids: Sequence[TimeGrid], shape: tuple[int, ...], length: int = 0) -> TimeGrid:
    """Frozen steps of several objectives with a leading axis.

    **Arguments:**

    - `grids`: the steps of each.
    - `shape`: the shape of the counts of each, to which shorter ones are padded.
    - `length`: the least number of steps of an interval. One that only grows meets few programs.
    """
    length = max(length, *(g.length for g in grids))
    return jax.tree.map(lambda *x: np.stack(x), *(padded_grid(g, shape, length) for g in grids))


# --- stacking ----------------------------------------------------------------------------------------------------------


def _alike(a: PyTree, b: PyTree) -> bool:
    """Test for two trees that can be stacked.

    They have equal structure, arrays of equal shape and type, and all else equal, but for floats.
    """
    if jax.tree.structure(a) != jax.tree.structure(b):
        return False

    def same(x: Any, y: Any) -> bool:
        if isinstance(x, jax.Array | np.ndarray) and isinstance(y, jax.Array | np.ndarray):
            return x.shape == y.shape and x.dtype == y.dtype
        return isinstance(x, float) and isinstance(y, float) or bool(x == y)

    return all(same(x, y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))


def _odd(a: PyTree, b: PyTree, path: str) -> str:
    """The innermost part in which the second of two trees differs from the first, with both values, in words."""
    one, other = (dict(enumerate(x)) if isinstance(x, tuple | list) else getattr(x, "__dict__", {}) for x in (a, b))
    if type(a) is type(b) and one.keys() == other.keys():
        for key in one:
            if not _alike(one[key], other[key]):
                return _odd(one[key], other[key], f"{path}.{key}")
    first, second = (" ".join(eqx.tree_pformat(x).split())[:_LONGEST] for x in (a, b))
    told = f"has {second} for {path}, and number 0 has {first}"
    return f"{told}; make them equal, or write them as numbers or arrays of one shape, which may differ"


def _stack(functionals: Sequence[Any]) -> Any:
    """The leaves of all functionals, stacked. Arrays of NumPy stay arrays of NumPy."""
    dtype = jax.tree.leaves(functionals[0].problem.y0)[0].dtype

    # one program runs all recordings, so a number that differs between them must become an input of it; one that is equal
    # in all stays a number, because code may branch on it
    def one(*leaves: Any) -> Any:
        if all(isinstance(x, np.ndarray) for x in leaves):
            return np.stack(leaves)
        if eqx.is_array(leaves[0]):
            # JAX would compile a program that takes hundreds of arrays
            return jnp.stack(_like(leaves)) if is_traced(leaves) else jnp.asarray(np.stack(_like(leaves)))
        return leaves[0] if all(x == leaves[0] for x in leaves) else jnp.asarray(leaves, dtype)

    return jax.tree.map(one, *functionals)


def _like(leaves: Sequence[Any]) -> list[Any]:
    """Arrays broadcast to one shape: sigma may hold for all frames in one recording, and for each in another."""
    shape = np.broadcast_shapes(*(x.shape for x in leaves))
    return [x if x.shape == shape else jnp.broadcast_to(x, shape) for x in leaves]
