"""Members: many objectives of equal structure, each with unknowns of its own, evaluated in one program."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from pdefit._util.errors import PdefitError
from pdefit._util.trees import named_fields
from pdefit.integrate.loop.batch import AbstractBatch, Vmap
from pdefit.integrate.loop.time_grid import TimeGrid
from pdefit.inverse.controls.theta import Controls
from pdefit.inverse.fit.stages import prepares
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.objective.stacking import Extent, cropped, extent, sliced, stacked, stacked_alike, stacked_grids
from pdefit.inverse.shooting.formulation import AbstractFormulation

Tree = TypeVar("Tree")


class Members(eqx.Module):
    """A stack of E objectives J_e(theta_e) that are minimised independently.

    For many starts of one fit, for many animals or devices, and for repetitions with other noise. Not for recordings
    that share unknowns (`Recordings`).

    Arrays that are equal in all members are stored once. So a thousand starts take the memory of one record.

    **Arguments:**

    - `common`: the functional of the first member, or the objective from which all start.
    - `own`: the same tree with the arrays that differ between members, (E, ...), and None for equal arrays.
    - `theta0`: the starts, (E, p).
    - `sizes`: the `Extent` of each record, (E, 4); None if all records have one length.
    - `held`: the elements of theta that each member holds at its start, (E, h); None if all are fitted.
    """

    common: AbstractObjective
    own: AbstractObjective
    theta0: Float[Array, "E p"]
    sizes: Float[np.ndarray, "E 4"] | None = None
    held: Int[np.ndarray, "E h"] | None = None

    @staticmethod
    def of(functionals: Sequence[Functional]) -> "Members":
        """Members from a functional each, of equal structure: the same system, grid and controls.

        **Arguments:** `functionals`: initial states, data, times and parameters may differ, and so may the number of
        frames.

        **Errors:** PdefitError if there are no members or their structures differ.
        """
        if not functionals:
            raise PdefitError("Members expects one functional or more, but got none")
        return _members(functionals, jnp.asarray(np.stack([f.theta0 for f in functionals])))

    @staticmethod
    def from_points(functional: AbstractObjective, theta0: Float[Array, "E p"]) -> "Members":
        """One objective from many starts, all with its steps.

        **Arguments:**

        - `functional`: the objective of all.
        - `theta0`: the starts in search space, (E, p). Those outside the bounds are moved onto them.
        """
        lower, upper = functional.controls.bounds
        points = jnp.clip(jnp.asarray(theta0, jnp.float64), lower[None], upper[None])
        return Members(functional, jax.tree.map(lambda _: None, functional), points)

    def with_data(self, values: dict[str, Float[Array, "E T ..."]]) -> "Members":
        """The same members with other observed values, each with its own.

        **Arguments:** `values`: for each variable the values of all members, (E, T, ...). The mask stays, and values that it
        leaves out do not count.
        """
        made = [jnp.asarray(x) for x in values.values()]
        own = eqx.tree_at(
            lambda o: [o.observations.values[name] for name in values], self.own, made, is_leaf=lambda x: x is None
        )
        return dataclasses.replace(self, own=own)

    def starting_at(self, theta0: Float[Array, "E p"]) -> "Members":
        """The same members from other starts.

        **Arguments:** `theta0`: the starts in search space, (E, p).
        """
        return dataclasses.replace(self, theta0=jnp.asarray(theta0, jnp.float64))

    @property
    def time_grid(self) -> TimeGrid:
        """The steps of all members, with a leading axis."""
        return self._whole(self.own.time_grid, self.common.time_grid)

    def with_time_grid(self, grid: TimeGrid) -> "Members":
        """The same members with other steps of the same trajectories.

        **Arguments:** `grid`: the steps of each, with a leading axis.
        """
        # both trees have the same length of steps, which is no array
        common = self.common.with_time_grid(sliced(grid, 0))
        return dataclasses.replace(self, common=common, own=self.own.with_time_grid(grid))

    def renewed(
        self, theta: Float[np.ndarray, "E p"], which: Int[np.ndarray, " k"]
    ) -> tuple["Members", Int[np.ndarray, " r"]]:
        """The members with adaptive steps chosen anew for some, and the numbers of the members with such steps.

        **Arguments:**

        - `theta`: the points of all, (E, p).
        - `which`: the numbers of those whose steps are chosen anew, each at its point.
        """
        before, done = self.time_grid, list[int]()
        grids = [sliced(before, e) for e in range(self.count)]
        for e in which.tolist():
            try:
                grids[e] = self.member(e).renewed(jnp.asarray(theta[e])).time_grid
            except PdefitError:
                # the model blows up there, and keeps its steps
                continue
            done.append(e)
        return self.with_time_grid(stacked_grids(grids, before.count.shape[1:], before.length)), np.array(done, int)

    def holding(self, held: Int[np.ndarray, "E h"]) -> "Members":
        """The same members, each of which holds some elements of theta at its start.

        **Arguments:** `held`: the numbers of these elements, (E, h).
        """
        return dataclasses.replace(self, held=np.asarray(held))

    @property
    def count(self) -> int:
        """The number of members."""
        return self.theta0.shape[0]

    @property
    def controls(self) -> Controls:
        """The unknowns, which have the same names, units and bounds in all members."""
        return self.common.controls

    @property
    def boxes(self) -> tuple[Float[np.ndarray, "E p"], Float[np.ndarray, "E p"]]:
        """The lower and the upper bounds of theta of every member."""
        own = bool(jax.tree.leaves(self.own.controls))
        boxes = (
            [self.member(e).controls.bounds for e in range(self.count)] if own else [self.controls.bounds] * self.count
        )
        lower, upper = np.stack([lower for lower, _ in boxes]), np.stack([upper for _, upper in boxes])
        if self.held is not None:
            rows = np.arange(self.count)[:, None], self.held
            lower[rows] = upper[rows] = np.asarray(self.theta0)[rows]
        return lower, upper

    def member(self, e: int) -> AbstractObjective:
        """The objective of one member, whose guess is its start."""
        one = eqx.combine(jax.tree.map(lambda x: x[e], self.own), self.common)
        if self.sizes is not None:
            *counts, dt = self.sizes[e].tolist()
            assert isinstance(one, Functional)
            one = cropped(one, Extent._make([*map(int, counts), dt]))
        return one.guessing(self.theta0[e])

    def take(self, index: np.ndarray) -> "Members":
        """Some of the members.

        **Arguments:** `index`: their numbers, in the order in which they are wanted.
        """
        own = jax.tree.map(lambda x: x[index], self.own)
        sizes, held = (None if x is None else x[index] for x in (self.sizes, self.held))
        return Members(self.common, own, self.theta0[index], sizes, held)

    def each(self, function: Callable, *arguments: PyTree, batch: AbstractBatch | None = None) -> PyTree:
        """A function of every member's functional and of its slice of some arrays, stacked. It is traced once.

        **Arguments:**

        - `function`: called as `function(functional, *slices)`.
        - `arguments`: trees of arrays with a leading axis of the members, one at least.
        - `batch`: how the members are run; default all at once (`Vmap()`).
        """
        batch = batch or Vmap()
        return batch(lambda own, *slices: function(eqx.combine(own, self.common), *slices), self.own, *arguments)

    def reformulated(self, formulation: AbstractFormulation | None) -> "Members":
        """The same members with their records cut in another way, as of `AbstractObjective.reformulated`.

        They start from the starts of the controls that remain.

        **Arguments:** `formulation`: how each record is cut; None leaves it as it is.
        """
        if not prepares(self.common, formulation):
            return self
        assert formulation is not None
        first = self.member(0)
        if self.sizes is not None or self.own.observations.ts is not None or not isinstance(first, Functional):
            each = [self.member(e) for e in range(self.count)]
            changed = [f.reformulated(formulation, f.theta0) for f in each]
            return _members(changed, self.theta0[:, : changed[0].controls.size])
        # records of the same times are cut alike, so that only states at the starts of windows differ
        first = first.reformulated(formulation, first.theta0)
        own = {path: x for path, x in _leaves(self.own).items() if not path.startswith(".layout")}
        if first.problem.nodes is not None:
            own |= _below("problem.nodes", self._nodes(formulation, first))
        elif self.controls.states.items:
            own |= _below("problem.y0", self.each(lambda f, x: f.at(x).y0, self.theta0))
        tree = jax.tree_util.tree_map_with_path(lambda path, _: own.get(jax.tree_util.keystr(path)), first)
        return Members(first, tree, self.theta0[:, : first.controls.size])

    def _nodes(self, formulation: AbstractFormulation, first: Functional) -> PyTree:
        """The states at the starts of the windows of all members, stacked.

        **Arguments:**

        - `formulation`: how the records are cut.
        - `first`: the functional of the first member, cut so.
        """
        at, found = first.layout.nodes, []
        data = self._whole(self.own.observations, self.common.observations)
        for name, state in named_fields(first.problem.nodes).items():
            # what is observed is taken as it is: one member after the other would take longer than the fits
            if name not in data.values:
                break
            values, mask = data.values[name], data.mask[name]
            if not (mask[:, at].all() and np.array_equal(values[0, at], state)):
                break
            found.append(jnp.asarray(values[:, at], state.dtype))
        else:
            return jax.tree.unflatten(jax.tree.structure(first.problem.nodes), found)
        each = [self.member(e) for e in range(self.count)]
        nodes = [formulation.node_states(f.problem, f.observations, first.layout) for f in each]
        return jax.tree.map(lambda *x: jnp.asarray(np.stack(x)), *nodes)

    def _whole(self, own: Tree, common: Tree) -> Tree:
        """A part of the objectives with the arrays of all members in host memory.

        **Arguments:** `own`, `common`: that part of both trees.
        """

        def one(own: Any, common: Any) -> Any:
            if own is not None:
                return np.asarray(own)
            return (
                np.broadcast_to(np.asarray(common), (self.count, *np.shape(common))) if eqx.is_array(common) else common
            )

        return jax.tree.map(one, own, common, is_leaf=lambda x: x is None)


def _members(objectives: Sequence[AbstractObjective], theta0: Float[Array, "E p"]) -> Members:
    """Members from stacked objectives. Arrays that are equal in all members are taken out of the stack."""
    functionals = [f for f in objectives if isinstance(f, Functional)]
    sizes = [extent(f) for f in functionals]
    stack = stacked(functionals) if functionals else stacked_alike(objectives)
    first = sliced(stack, 0)
    own = jax.tree.map(lambda x: x if eqx.is_array(x) and _differs(np.asarray(x)) else None, stack)
    return Members(first, own, theta0, np.array(sizes, float) if len({*sizes}) > 1 else None)


def _differs(x: np.ndarray) -> bool:
    return not np.array_equal(x, np.broadcast_to(x[:1], x.shape))


def _leaves(tree: PyTree) -> dict[str, Any]:
    """The leaves of a tree by their path."""
    return {jax.tree_util.keystr(path): x for path, x in jax.tree_util.tree_flatten_with_path(tree)[0]}


def _below(place: str, tree: PyTree) -> dict[str, Array]:
    """The arrays of a tree by their path below a place of a functional."""
    return {f".{place}{path}": x for path, x in _leaves(tree).items()}
