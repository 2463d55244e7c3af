"""Normal equations of Gauss-Newton, summed along the trajectories: neither Jacobian nor residuals are stored."""

from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array, Float, PyTree

from pdefit._util.errors import PdefitError
from pdefit.adjoints.tangent.tangents_in_turn import InTurn, goes_in_turn, stacked, unstacked
from pdefit.adjoints.tangent.tangents_together import TangentLinearStepper, jvp_many
from pdefit.integrate.loop.time_grid import TimeGrid
from pdefit.integrate.loop.time_loop import fold
from pdefit.inverse.controls.theta import Controls
from pdefit.inverse.objective.record_residuals import AbstractRecord
from pdefit.inverse.objective.segment_jacobian import SegmentNormalEquations, continuity_blocks, pattern
from pdefit.inverse.objective.smooth_tangents import followed
from pdefit.inverse.objective.trajectory_runner import ObservationSchedule
from pdefit.inverse.shooting.continuity import gaps

# values of tangents, or of the matrix, that are held at most: 2 GB in float64
_MOST_VALUES = 250_000_000


class NormalEquations(NamedTuple):
    """J, its gradient and the Gauss-Newton matrix in k directions, of a trajectory's observations so far.

    All are float64.

    **Arguments:**

    - `half_square`: half the sum of squared residuals.
    - `gradient`: J_r^T r, (..., k).
    - `matrix`: J_r^T J_r, (..., k, k).
    """

    half_square: Float[Array, "..."]
    gradient: Float[Array, "... k"]
    matrix: Float[Array, "... k k"]

    def plus(self, r: PyTree, jac: PyTree) -> "NormalEquations":
        """The normal equations with more residuals added.

        **Arguments:**

        - `r`: the residuals, a tree of arrays.
        - `jac`: their derivatives in the k directions, on a leading axis.
        """
        half_square, gradient, matrix = self
        for residual, moved in zip(jax.tree.leaves(r), jax.tree.leaves(jac), strict=True):
            rows = jnp.concatenate([moved, residual[None]]).reshape(len(moved) + 1, -1).astype(jnp.float64)
            products = rows @ rows.T
            half_square, gradient = half_square + products[-1, -1] / 2, gradient + products[:-1, -1]
            matrix = matrix + products[:-1, :-1]
        return NormalEquations(half_square, gradient, matrix)


class TangentState(NamedTuple):
    """S trajectories in progress.

    **Arguments:**

    - `states`: the states, (S, ...).
    - `tangents`: their derivatives in k directions, (S, k, ...).
    - `total`: the total over the observations so far, such as `NormalEquations`.
    """

    states: PyTree
    tangents: PyTree
    total: PyTree


class Tangents(eqx.Module):
    """Trajectories of a functional with their tangents, one for each direction of theta.

    State and tangents are stepped together, and their observations are summed on the way. So the memory is 1 + k
    states for any length of the record.

    **Arguments:**

    - `functional`: the objective of one record.
    - `theta`: the point, (p,).
    - `seeds`: the directions, (k, p). By default one for each shared control and each element of one node state;
      devices that the trajectories leave idle share them.
    - `owners`: for other seeds, the controls moved by each.
    - `among`: on one of several devices, the total number of directions; else 0.
    """

    functional: AbstractRecord
    theta: Float[Array, " p"]
    seeds: Float[Array, "k p"] | None = None
    owners: tuple[Controls, ...] | None = None
    among: int = eqx.field(static=True, default=0)

    @property
    def _seeds(self) -> Float[Array, "k p"]:
        functional = self.functional
        if self.seeds is not None:
            return self.seeds
        return jnp.asarray(pattern(functional.controls, functional.layout.segments).seeds)

    def start(self, empty: PyTree = None) -> TangentState:
        """State before the first step.

        **Arguments:**

        - `empty`: a total of another type than `NormalEquations`, (S, ...), before any observation.
        """
        seeds, values = self._seeds, sum(x.size for x in jax.tree.leaves(self.functional.problem.y0))
        _refuse_many(seeds.shape[0], seeds.shape[1] if empty is None else 0, values)
        states, tangents = jvp_many(lambda x: self.functional.starts(self.functional.at(x)), (self.theta,), (seeds,))
        s, k = self.functional.layout.segments, seeds.shape[0]
        none = NormalEquations(jnp.zeros(s), jnp.zeros((s, k)), jnp.zeros((s, k, k)))
        return TangentState(states, _swapped(tangents), none if empty is None else empty)

    def advance(self, state: TangentState, schedule: ObservationSchedule) -> TangentState:
        """State after a window.

        **Arguments:**

        - `state`: the state at the start of the window.
        - `schedule`: the window with its steps and observations.
        """
        k, batch = self._seeds.shape[0], self.functional.runner.batch
        devices = batch.idle(self.functional.layout.segments, k) if self.seeds is None else ()
        return self._shared(state, schedule, devices) if len(devices) > 1 else self._advance(state, schedule)

    def _shared(self, state: TangentState, schedule: ObservationSchedule, devices: tuple) -> TangentState:
        """State after a window; each device steps the trajectories and its share of the tangents."""
        k, owners = self._seeds.shape[0], self._owners
        # directions of zero make the shares equal
        share = -(-k // len(devices))
        more = (0, share * len(devices) - k)
        # one program for all devices: a tangent has the owners of its place on each of them
        each_place = ({c.path: c for owner in owners[i::share] for c in owner.items} for i in range(share))
        places = tuple(Controls(tuple(found.values())) for found in each_place)

        def one(seeds: Array, tangents: PyTree) -> TangentState:
            mine = Tangents(self.functional, self.theta, seeds, places, k)
            return mine._advance(TangentState(state.states, tangents, state.total), schedule)

        first, second = PartitionSpec("directions"), PartitionSpec(None, "directions")
        after = TangentState(PartitionSpec(), second, PartitionSpec())
        mesh = Mesh(np.array(devices), ("directions",))
        run = jax.shard_map(one, mesh=mesh, in_specs=(first, second), out_specs=after, check_vma=False)
        padded = jax.tree.map(lambda x: jnp.pad(x, [(0, 0), more, *[(0, 0)] * (x.ndim - 2)]), state.tangents)
        end = run(jnp.pad(self._seeds, [more, (0, 0)]), padded)
        return TangentState(end.states, jax.tree.map(lambda x: x[:, :k], end.tangents), end.total)

    def _advance(self, state: TangentState, schedule: ObservationSchedule) -> TangentState:
        runner = self.functional.runner
        functional, k = self.functional, self._seeds.shape[0]
        problem, moved = jvp_many(lambda x: followed(functional, x), (self.theta,), (self._seeds,))
        moved = functional.controls.touched(moved)

        stepper = runner.stepper(functional.at(self.theta))
        twin = runner.stepper(problem) if functional.smooth_tangents else None

        def summed(total: PyTree, pair: tuple[PyTree, PyTree], i: PyTree) -> PyTree:
            y, dy = pair
            here, change = (problem.instrument, y, problem.args), (moved.instrument, dy, moved.args)
            r, jac = jvp_many(lambda o, y, a: schedule.residuals(o, y, a, i), here, change)
            if self.among:
                jac = jax.tree.map(lambda x: lax.all_gather(x, "directions", tiled=True)[: self.among], jac)
            return total.plus(r, jac)

        pushed = TangentLinearStepper(stepper, runner.stepper(moved), twin, several=True).prepared(schedule.time_grid)

        def trajectory(state: TangentState, grid: TimeGrid, inputs: PyTree) -> TangentState:
            (y, dy), total = fold(pushed, (state.states, state.tangents), grid, summed, inputs, state.total)
            return TangentState(y, dy, total)

        def trajectory_in_turn(state: TangentState, grid: TimeGrid, inputs: PyTree) -> TangentState:
            def summed_in_turn(total: PyTree, pair: tuple[PyTree, list[PyTree]], i: PyTree) -> PyTree:
                return summed(total, (pair[0], stacked(pair[1])), i)

            each = InTurn(stepper, [runner.stepper(p) for p in self._tangents_by_control(moved)], grid.frozen)
            begin = state.states, unstacked(state.tangents, k)
            (y, dys), total = fold(each, begin, grid, summed_in_turn, inputs, state.total, each.through)
            return TangentState(y, stacked(dys), total)

        if twin is None and stepper.events is None and goes_in_turn(runner.solver, state.states, k):
            return runner.batch(trajectory_in_turn, state, schedule.time_grid, schedule.inputs)
        return runner.batch(trajectory, state, schedule.time_grid, schedule.inputs)

    def _tangents_by_control(self, moved: PyTree) -> list[PyTree]:
        """Tangents of the problem, one tree for each direction; None for leaves that its control does not change."""
        owners = self._owners
        return [owner.touched(each) for owner, each in zip(owners, unstacked(moved, len(owners)), strict=True)]

    @property
    def _owners(self) -> tuple[Controls, ...]:
        """The controls that change the problem along each direction. Node states change nothing in it."""
        if self.owners is not None:
            return self.owners
        owners = [Controls((c,)) for c in self.functional.controls.shared.items for _ in range(c.size)]
        return (*owners, *[Controls(())] * (self._seeds.shape[0] - len(owners)))

    def close(self, state: TangentState) -> SegmentNormalEquations:
        """Normal equations of all segments, with gaps between them, regularizers and priors."""
        states, tangents, total = state
        edges, moved = jvp_many(
            self.functional.ends_and_starts, (self.theta, states), (self._seeds, _swapped(tangents))
        )
        return _closed(self.functional, self.theta, total, edges, moved)

    def groups(self) -> SegmentNormalEquations:
        """Normal equations of all segments, by one window over the whole record."""
        return self.close(self.advance(self.start(), self.functional.schedule))


def held_equations(functional: AbstractRecord, theta: Float[Array, " p"]) -> SegmentNormalEquations:
    """Normal equations of all segments of a small record, with the Jacobian of the residuals.

    **Arguments:** as in `Tangents`.
    """
    seeds = jnp.asarray(pattern(functional.controls, functional.layout.segments).seeds)
    parts, moved = jvp_many(functional.residual_parts, (theta,), (seeds,))
    each = [jnp.reshape(r, (r.shape[0], -1)) for r in parts.observed.values()]
    tangents = [
        jnp.reshape(moved.observed[n], (len(seeds), *r.shape)) for n, r in zip(parts.observed, each, strict=True)
    ]
    r, jac = jnp.concatenate(each, axis=1), jnp.concatenate(tangents, axis=2)
    total = NormalEquations(
        jnp.sum(r**2, axis=1) / 2, jnp.einsum("ksm,sm->sk", jac, r), jnp.einsum("ksm,lsm->skl", jac, jac)
    )
    return _closed(functional, theta, total, parts[1:3], moved[1:3])._replace(held=(parts, moved))


def _closed(
    functional: AbstractRecord, theta: Array, total: NormalEquations, edges: Sequence[Array], moved: Sequence[Array]
) -> SegmentNormalEquations:
    """The normal equations of all segments with gaps between them, regularizers and priors.

    **Arguments:**

    - `functional`, `theta`: as in `Tangents`.
    - `total`: the normal equations of the observations.
    - `edges`, `moved`: the `ends_and_starts` of the segments, (S, n), and their derivatives in k directions, (k, S, n).
    """
    layout = pattern(functional.controls, functional.layout.segments)
    d_ends, d_starts = (jnp.moveaxis(x, 0, -1) for x in moved)
    r, jac = gaps(*edges).astype(jnp.float64), continuity_blocks(d_ends, d_starts).astype(jnp.float64)
    width = [(0, jac.shape[2] - total.gradient.shape[1])]
    extra, extra_jac = extra_equations(functional, theta)
    return SegmentNormalEquations(
        half_square=total.half_square + jnp.sum(r**2, axis=1) / 2,
        gradient=jnp.pad(total.gradient, [(0, 0), *width]) + jnp.einsum("snc,sn->sc", jac, r),
        matrix=jnp.pad(total.matrix, [(0, 0), *width, *width]) + jnp.einsum("snc,snd->scd", jac, jac),
        columns=layout.columns,
        extra=extra,
        extra_jac=extra_jac,
    )


def extra_equations(functional: AbstractRecord, theta: Float[Array, " p"]) -> tuple[Array, Array]:
    """Residuals of regularizers and priors as one vector, (e,), and their Jacobian, (e, p)."""

    def extra(theta: Array) -> Array:
        return jnp.concatenate([jnp.zeros(0), *functional.extra_residuals(theta)])

    return extra(theta), jax.jacfwd(extra)(theta)


def _refuse_many(k: int, p: int, values: int) -> None:
    """Refuse tangents, or a matrix, that would not fit into memory."""
    if max(k * values, p * p) > _MOST_VALUES:
        raise PdefitError(
            f"Levenberg-Marquardt would carry {k} tangents of {values} values and a matrix of {p} controls; it is for few "
            f"controls: use stages=lbfgs or stages=gauss_newton_cg for fields"
        )


def _swapped(tree: PyTree) -> PyTree:
    """A tree with its two leading axes swapped."""
    return jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), tree)
