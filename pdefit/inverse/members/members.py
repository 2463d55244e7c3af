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
from pdefit.inverse.controls.vector import Controls
from pdefit.inverse.fit.stages import prepares
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.objective.stacking import Extent, cropped, extent, sliced, stacked
from pdefit.inverse.shooting.formulation import AbstractFormulation

Objective = TypeVar("Objective", bound=AbstractObjective)


class Members(eqx.Module):
    """E objectives J_e(theta_e) that are minimised independently of each other.

    For many starts of one fit, for many animals or devices, and for repetitions with other noise. Not for recordings
    that share unknowns (`Recordings`).

    Arrays that are equal in all members are held once. So a thousand starts take the memory of one record.

    **Arguments:**

    - `common`: the functional of the first member, or the objective from which all start.
    - `own`: by their path in it the arrays that differ, with a leading axis of E members.
    - `theta0`: the point from which each starts, (E, p).
    - `sizes`: of records that differ in length, what `Extent` says of each, (E, 5); else None.
    - `held`: the elements of theta that each member holds at its start, (E, h); None where all are fitted.
    """

    common: AbstractObjective
    own: dict[str, Array | np.ndarray]
    theta0: Float[Array, "E p"]
    sizes: Float[np.ndarray, "E 5"] | None = None
    held: Int[np.ndarray, "E h"] | None = None

    @staticmethod
    def of(functionals: Sequence[Functional]) -> "Members":
        """Members from a functional each, of equal structure: the same system, grid and controls.

        **Arguments:** `functionals`: initial states, data, times and parameters may differ, and so may the number of frames.

        **Errors:** PdefitError where there are none, where steps are adaptive, or where structures differ.
        """
        if not functionals:
            raise PdefitError("Members expects one functional or more, but got none")
        return _members(functionals, jnp.asarray(np.stack([f.theta0 for f in functionals])))

    @staticmethod
    def from_points(functional: AbstractObjective, theta0: Float[Array, "E p"]) -> "Members":
        """One functional from many starts.

        **Arguments:**

        - `functional`: the objective of all.
        - `theta0`: the starts in search space, (E, p). Those outside the bounds are moved onto them.
        """
        refuse_adaptive(functional)
        lower, upper = functional.controls.box()
        return Members(functional, {}, jnp.clip(jnp.asarray(theta0, jnp.float64), lower[None], upper[None]))

    def with_data(self, values: dict[str, Float[Array, "E T ..."]]) -> "Members":
        """The same members with other observed values, each with its own.

        **Arguments:** `values`: for each variable the values of all members, (E, T, ...). The mask stays, and values that it
        leaves out do not count.
        """
        own = {f".observations.values['{name}']": jnp.asarray(x) for name, x in values.items()}
        return dataclasses.replace(self, own=self.own | own)

    def starting_at(self, theta0: Float[Array, "E p"]) -> "Members":
        """The same members from other starts.

        **Arguments:** `theta0`: the starts in search space, (E, p).
        """
        return dataclasses.replace(self, theta0=jnp.asarray(theta0, jnp.float64))

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
        own = any(".controls" in path for path in self.own)
        boxes = (
            [self.member(e).controls.box() for e in range(self.count)] if own else [self.controls.box()] * self.count
        )
        lower, upper = np.stack([lower for lower, _ in boxes]), np.stack([upper for _, upper in boxes])
        if self.held is not None:
            rows = np.arange(self.count)[:, None], self.held
            lower[rows] = upper[rows] = np.asarray(self.theta0)[rows]
        return lower, upper

    def member(self, e: int) -> Functional:
        """The functional of one member, whose guess is its start."""
        one = _filled(self.common, {path: x[e] for path, x in self.own.items()})
        # of many recordings only profiles are members, which need no functional of their own
        assert isinstance(one, Functional)
        if self.sizes is not None:
            *counts, dt = self.sizes[e].tolist()
            one = cropped(one, Extent._make([*map(int, counts), dt]))
        return eqx.tree_at(lambda f: f.problem, one, one.controls.filled(one.problem, self.theta0[e]))

    def take(self, index: np.ndarray) -> "Members":
        """Some of the members.

        **Arguments:** `index`: their numbers, in the order in which they are wanted.
        """
        own = {path: x[index] for path, x in self.own.items()}
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
        return batch(lambda own, *slices: function(_filled(self.common, own), *slices), self.own, *arguments)

    def reformulated(self, formulation: AbstractFormulation | None) -> "Members":
        """The same members with their records cut in another way, as of `AbstractObjective.reformulated`.

        Their starts are those of the controls that remain.

        **Arguments:** `formulation`: how each record is cut; None leaves it as it is.
        """
        if not prepares(self.common, formulation):
            return self
        assert formulation is not None
        if self.sizes is not None or ".observations.ts" in self.own:
            each = [self.member(e) for e in range(self.count)]
            changed = [f.reformulated(formulation, f.theta0) for f in each]
            return _members(changed, self.theta0[:, : changed[0].controls.size])
        # records of the same times are cut alike, so that only states at the starts of windows differ
        first = self.member(0)
        first = first.reformulated(formulation, first.theta0)
        paths, own = _leaves(first), dict(self.own)
        if first.problem.nodes is not None:
            own |= _below("problem.nodes", self._nodes(formulation, first))
        elif self.controls.states.items:
            own |= _below("problem.y0", self.each(lambda f, x: f.at(x).y0, self.theta0))
        own = {path: x for path, x in own.items() if path in paths}
        return Members(first, own, self.theta0[:, : first.controls.size])

    def _nodes(self, formulation: AbstractFormulation, first: Functional) -> PyTree:
        """The states at the starts of the windows of all members, stacked.

        **Arguments:**

        - `formulation`: how the records are cut.
        - `first`: the functional of the first member, cut so.
        """
        at, found = first.layout.nodes, []
        for name, state in named_fields(first.problem.nodes).items():
            values, mask = (self._stacked(f".observations.{kind}['{name}']") for kind in ("values", "mask"))
            # what is observed is taken as it is: one member after the other would take longer than the fits
            if values is None or mask is None or not (mask[:, at].all() and np.array_equal(values[0, at], state)):
                break
            found.append(jnp.asarray(values[:, at], state.dtype))
        else:
            return jax.tree.unflatten(jax.tree.structure(first.problem.nodes), found)
        each = [self.member(e) for e in range(self.count)]
        nodes = [formulation.node_states(f.problem, f.observations, first.layout) for f in each]
        return jax.tree.map(lambda *x: jnp.asarray(np.stack(x)), *nodes)

    def _stacked(self, path: str) -> np.ndarray | None:
        """The array at a path of all members; None where there is none."""
        if path in self.own:
            return np.asarray(self.own[path])
        one = _leaves(self.common).get(path)
        return None if one is None else np.broadcast_to(np.asarray(one), (self.count, *np.shape(one)))


def _members(functionals: Sequence[Functional], theta0: Float[Array, "E p"]) -> Members:
    """Members from functionals that are stacked. What is equal in all is taken out of the stack."""
    stack, sizes = stacked(functionals), [extent(f) for f in functionals]
    first = sliced(stack, 0)
    refuse_adaptive(first)
    own = {path: x for path, x in _leaves(stack).items() if eqx.is_array(x) and _differs(np.asarray(x))}
    return Members(first, own, theta0, np.array(sizes, float) if len({*sizes}) > 1 else None)


def _differs(x: np.ndarray) -> bool:
    return not np.array_equal(x, np.broadcast_to(x[:1], x.shape))


def _leaves(tree: PyTree) -> dict[str, Any]:
    """The leaves of a tree by their path."""
    return {jax.tree_util.keystr(path): x for path, x in jax.tree_util.tree_flatten_with_path(tree)[0]}


def _below(place: str, tree: PyTree) -> dict[str, Array]:
    """The arrays of a tree by their path below a place of a functional."""
    return {f".{place}{path}": x for path, x in _leaves(tree).items()}


def _filled(functional: Objective, arrays: dict[str, Any]) -> Objective:
    """The functional with other arrays at some paths."""
    return jax.tree_util.tree_map_with_path(lambda path, x: arrays.get(jax.tree_util.keystr(path), x), functional)


def refuse_adaptive(functional: AbstractObjective) -> None:
    """Refuse adaptive steps, which differ from fit to fit."""
    if functional.steps is not None:
        raise PdefitError("Many fits in one program expect constant steps; set dt in place of adaptive steps")
