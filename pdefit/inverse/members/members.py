"""Members: many objectives of equal structure, with independent unknowns, evaluated in one program."""

import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from pdefit._util.errors import PdefitError
from pdefit._util.program import Program
from pdefit._util.trees import named_fields, taken
from pdefit.integrate.loop.batch import AbstractBatch
from pdefit.integrate.loop.time_grid import TimeGrid
from pdefit.inverse.controls.theta import Controls
from pdefit.inverse.fit.stages import prepares
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.objective.stack import Stack, extent
from pdefit.inverse.shooting.formulation import AbstractFormulation


class Members(eqx.Module):
    """A stack of E objectives J_e(theta_e) that are minimised independently.

    For many starts of one fit, for many animals or devices, and for repetitions with other noise. Not for recordings
    with shared unknowns (`Recordings`).

    Arrays that are equal in all members are stored once. So a thousand starts take the memory of one record.

    **Arguments:**

    - `stack`: the objectives.
    - `theta0`: the starts, (E, p).
    - `held`: the elements of theta that each member holds at its start, (E, h); None if all are fitted.
    """

    stack: Stack
    theta0: Float[Array, "E p"]
    held: Int[np.ndarray, "E h"] | None = None

    @staticmethod
    def of(functionals: Sequence[Functional]) -> "Members":
        """Members from one functional each, of equal structure: the same system, grid and controls.

        **Arguments:** `functionals`: initial states, data, times and parameters may differ, and so may the number of
        frames.

        **Errors:** PdefitError if there are no members or their structures differ.
        """
        if not functionals:
            raise PdefitError("Members expects one functional or more, but got none")
        return _members(functionals, jax.device_put(np.stack([f.theta0 for f in functionals])))

    @staticmethod
    def from_points(functional: AbstractObjective, theta0: Float[Array, "E p"]) -> "Members":
        """One objective from many starts. All begin with its steps.

        **Arguments:**

        - `functional`: the common objective.
        - `theta0`: the starts in search space, (E, p). Starts outside the bounds are moved onto them.
        """
        lower, upper = functional.controls.bounds
        points = jnp.clip(jnp.asarray(theta0, jnp.float64), lower[None], upper[None])
        return Members(Stack.beside(functional, jax.tree.map(lambda _: None, functional)), points)

    def with_data(self, values: dict[str, Float[Array, "E T ..."]]) -> "Members":
        """The same members with other observed values, each with its own.

        **Arguments:** `values`: the values of all members for each variable, (E, T, ...). The mask is kept, and masked
        values do not count.
        """
        made = [jnp.asarray(x) for x in values.values()]
        return eqx.tree_at(
            lambda m: [t.observations.values[n] for t in (m.stack.own, m.stack.common) for n in values],
            self,
            [*made, *[None] * len(made)],
            is_leaf=lambda x: x is None,
        )

    def starting_at(self, theta0: Float[Array, "E p"]) -> "Members":
        """The same members from other starts.

        **Arguments:** `theta0`: the starts in search space, (E, p).
        """
        return dataclasses.replace(self, theta0=jnp.asarray(theta0, jnp.float64))

    @property
    def time_grid(self) -> TimeGrid:
        """Time grids of all members, with a leading axis."""
        return self.stack.part(lambda o: o.time_grid, self.count)

    def by_count(self) -> "Members":
        """The same members for programs that run forward only, as `AbstractObjective.by_count`."""
        return dataclasses.replace(self, stack=self.stack.by_count(self.time_grid))

    def halved(self) -> "Members":
        """The same members with half of every step."""
        return dataclasses.replace(self, stack=self.stack.with_time_grid(self.time_grid.halved()))

    def restepped(
        self, which: Int[np.ndarray, " k"], chosen: Callable[[int, AbstractObjective], AbstractObjective]
    ) -> tuple["Members", Int[np.ndarray, " r"]]:
        """The members with some of their steps changed, and the indices of the changed members.

        **Arguments:**

        - `which`: the indices of the members that may need other steps.
        - `chosen`: maps the index of a member and its objective to the objective with new steps, or unchanged.
        """
        changed, first = dict[int, AbstractObjective](), self.first
        for e in which.tolist():
            one = self.member(e)
            # a member whose model blows up in an adaptive pass keeps its steps
            with contextlib.suppress(PdefitError):
                if (new := chosen(e, one)) is not one:
                    changed[e] = new
        if not changed:
            return self, np.zeros(0, int)
        before = self.time_grid
        grids = [
            changed[e].time_grid if e in changed else jax.tree.map(lambda x, e=e: x[e], before)
            for e in range(self.count)
        ]
        stack = self.stack.with_grids(grids, before.length)
        if isinstance(first, Functional) and first.steps is None:
            old = self.stack.extents or (extent(first),) * self.count
            new = tuple(x._replace(dt=changed[e].dt) if e in changed else x for e, x in enumerate(old))
            stack = dataclasses.replace(stack, extents=new)
        return dataclasses.replace(self, stack=stack), np.array([*changed])

    def holding(self, held: Int[np.ndarray, "E h"]) -> "Members":
        """The same members with some elements of theta held at their start.

        **Arguments:** `held`: the indices of these elements, (E, h).
        """
        return dataclasses.replace(self, held=np.asarray(held))

    @property
    def count(self) -> int:
        """Number of members."""
        return self.theta0.shape[0]

    @property
    def first(self) -> AbstractObjective:
        """The objective of the first member, at its own guess."""
        return self.stack.at(0)

    @property
    def controls(self) -> Controls:
        """The controls, which have the same names, units and bounds in all members."""
        return self.first.controls

    @property
    def boxes(self) -> tuple[Float[np.ndarray, "E p"], Float[np.ndarray, "E p"]]:
        """Lower and upper bounds of theta of every member."""
        own = bool(jax.tree.leaves(self.stack.own.controls))
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
        return self.stack.at(e).guessing(taken(self.theta0, e))

    def take(self, index: np.ndarray) -> "Members":
        """Some of the members.

        **Arguments:** `index`: their indices, in the required order.
        """
        return Members(
            self.stack.take(index), taken(self.theta0, index), None if self.held is None else self.held[index]
        )

    def each(self, function: Callable, *arguments: PyTree, batch: AbstractBatch | None = None) -> PyTree:
        """Results of a function of every member's functional and of its slice of some arrays, stacked. It is traced once.

        **Arguments:**

        - `function`: called as `function(functional, *slices)`.
        - `arguments`: trees of arrays with a leading axis of members, at least one.
        - `batch`: the batch in which the members run; default all at once (`Vmap()`).
        """
        return self.stack.each(function, *arguments, batch=batch)

    def reformulated(self, formulation: AbstractFormulation | None) -> "Members":
        """The same members with their records cut in another way, as in `AbstractObjective.reformulated`.

        They start from the starts of the remaining controls.

        **Arguments:** `formulation`: the cut of each record; None leaves it unchanged.
        """
        if not prepares(self.first, formulation):
            return self
        assert formulation is not None
        first = self.member(0)
        same = self.stack.extents is None and self.stack.own.observations.ts is None
        if not same or not isinstance(first, Functional):
            each = [self.member(e) for e in range(self.count)]
            changed = [f.reformulated(formulation, f.theta0) for f in each]
            return _members(changed, self.theta0[:, : changed[0].controls.size])
        # records of the same times are cut alike, so that only states at the starts of windows differ
        first = first.reformulated(formulation, first.theta0)
        own = {path: x for path, x in _leaves(self.stack.own).items() if not path.startswith(".layout")}
        if first.problem.nodes is not None:
            own |= _below("problem.nodes", self._nodes(formulation, first))
        elif self.controls.states.items:
            own |= _below("problem.y0", _STARTS(self))
        tree = jax.tree_util.tree_map_with_path(lambda path, _: own.get(jax.tree_util.keystr(path)), first)
        return Members(Stack.beside(first, tree), taken(self.theta0, np.s_[:, : first.controls.size]))

    def _nodes(self, formulation: AbstractFormulation, first: Functional) -> PyTree:
        """States at the starts of the windows of all members, stacked.

        **Arguments:**

        - `formulation`: the cut of the records.
        - `first`: the functional of the first member with this cut.
        """
        at, found = first.layout.nodes, []
        data = jax.tree.map(np.asarray, self.stack.part(lambda o: o.observations, self.count))
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


def _members(objectives: Sequence[AbstractObjective], theta0: Float[Array, "E p"]) -> Members:
    """Members from objectives. Records of equal length are not padded."""
    stack = Stack.of(objectives)
    if stack.extents is not None and len({*stack.extents}) == 1:
        stack = dataclasses.replace(stack, extents=None)
    return Members(stack, theta0)


def _leaves(tree: PyTree) -> dict[str, Any]:
    """The leaves of a tree by their path."""
    return {jax.tree_util.keystr(path): x for path, x in jax.tree_util.tree_flatten_with_path(tree)[0]}


def _below(place: str, tree: PyTree) -> dict[str, Array]:
    """The arrays of a tree by their path below a place of a functional."""
    return {f".{place}{path}": x for path, x in _leaves(tree).items()}


_STARTS = Program(lambda members: members.each(lambda f, x: f.at(x).y0, members.theta0))
