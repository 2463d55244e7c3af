"""The hosted driver: a functional evaluated piece by piece, with checkpoints in host memory or in a file."""

import dataclasses
import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from pdefit.adjoints.base import AbstractAdjoint
from pdefit.integrate.loop.time_loop import growth
from pdefit.inverse.linear.conjugate_gradients import in_turn
from pdefit.inverse.objective.abstract import AbstractEvaluated
from pdefit.inverse.objective.accumulate import AbstractAccumulation, Misfit, TangentLinearMisfit
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.objective.normal_equations import Tangents
from pdefit.inverse.objective.trajectory_runner import ObservationSchedule
from pdefit.inverse.offload import _programs as programs
from pdefit.inverse.offload.schedule import AbstractSchedule, Advance, Restore, Reverse, StorageTier, Store
from pdefit.inverse.offload.stores import CheckpointStore
from pdefit.inverse.offload.time_chunks import TimeChunks


@dataclasses.dataclass(frozen=True)
class OffloadedRun:
    """The plan of a trajectory in pieces, with the stores of its states.

    **Arguments:**

    - `pieces`: the pieces of the record.
    - `adjoint`: the adjoint of each piece.
    - `schedule`: the order in which pieces are run, stored and reversed.
    - `stores`: the store of each tier.
    """

    pieces: TimeChunks
    adjoint: AbstractAdjoint
    schedule: AbstractSchedule
    stores: Mapping[StorageTier, CheckpointStore]


class HostedFunctional(AbstractEvaluated):
    """J(theta) of a functional whose trajectory does not fit the device, with the optimizers' derivatives.

    Values and derivatives equal the functional's own. The trajectory runs piece by piece, each by the same compiled
    program.

    **Arguments:**

    - `functional`: the functional.
    - `route`: makes the plan for a state with given leaves. Products with tangents double the state.
    """

    def __init__(self, functional: Functional, route: Callable[[PyTree], OffloadedRun]):
        self.functional, self.controls, self._make = functional, functional.controls, route
        self._routes: dict[Any, OffloadedRun] = {}
        # the pieces bring the observations: the device must not hold all of them
        data = functional.observations.at(slice(0, 1))
        self._bare = eqx.tree_at(lambda f: (f.observations, f.measured_sigma), functional, (data, {}))

    def route(self, accumulation: AbstractAccumulation, x: Array) -> OffloadedRun:
        """The plan of a run, made once for each kind of state.

        **Arguments:**

        - `accumulation`: the sum along the trajectory.
        - `x`: its argument, (p,).
        """
        like = jax.eval_shape(lambda x: accumulation.start(x), x)
        key = tuple((leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(like))
        if key not in self._routes:
            self._routes[key] = self._make(like)
        return self._routes[key]

    def _routed(self, accumulation: AbstractAccumulation, x: Array) -> tuple[OffloadedRun, AbstractAccumulation]:
        """The plan of a run, and the sum along the trajectory with the plan's adjoint."""
        route = self.route(accumulation, x)
        return route, eqx.tree_at(lambda m: m.functional.runner.adjoint, accumulation, route.adjoint)

    def close(self) -> None:
        """Drop all checkpoints, and remove their files."""
        for route in self._routes.values():
            for store in route.stores.values():
                store.close()
        self._routes.clear()

    # --- what optimizers ask ---------------------------------------------------------------------------------------------

    def value(self, theta):
        accumulation = Misfit(self._bare)
        pieces = self.route(accumulation, theta).pieces
        state, value = programs.start(accumulation, theta, pieces.first)
        for schedule in _in_order(pieces):
            state, part = jax.block_until_ready(programs.advance(accumulation, theta, state, schedule))
            value = value + part
        return value + programs.close(accumulation, theta, state)[0]

    def watched_gradient(self, theta):
        return self._gradient(Misfit(self._bare), theta)

    def gauss_newton_product(self, theta, v):
        return self._gradient(TangentLinearMisfit(self._bare, theta), v)[1]

    def normal_equations(self, theta):
        # one tangent for each control is carried from piece to piece
        tangents = Tangents(self._bare, theta)
        pieces = self.route(Misfit(self._bare), theta).pieces
        state, windows = programs.begin_tangents(tangents), _in_order(pieces)
        for schedule in windows if pieces.first is None else itertools.chain([pieces.first], windows):
            state = jax.block_until_ready(programs.advance_tangents(tangents, state, schedule))
        return programs.end_tangents(tangents, state)

    def repeat(self, condition, body, carry):
        return in_turn(condition, body, carry)

    def warm_up(self, theta: Float[Array, " p"]) -> tuple[float, float]:
        """Compile the programs of a gradient by running its first piece.

        **Returns:** the seconds of the piece's forward pass, and of its forward and reverse pass.
        """
        route, accumulation = self._routed(Misfit(self._bare), theta)
        schedule = route.pieces[0]
        state, value = programs.start(accumulation, theta, route.pieces.first)
        (after, part), forward = _timed(lambda: programs.advance(accumulation, theta, state, schedule))
        _, (gradient, cotangent) = programs.close(accumulation, theta, after)
        piece, back = _timed(lambda: programs.reverse(accumulation, theta, state, schedule, cotangent, gradient))
        jax.block_until_ready(programs.reverse_start(accumulation, theta, route.pieces.first, *piece[:2]))
        jax.block_until_ready((value + part, jnp.zeros_like(theta)))
        growth(_joined([jnp.zeros_like(piece[2])] * route.pieces.count))
        return forward, back

    # --- marching --------------------------------------------------------------------------------------------------------

    def _gradient(self, accumulation: AbstractAccumulation, x: Array) -> tuple[Array, Array, Array]:
        """The sum along the trajectory, its derivative and the growth of the adjoint, by the schedule."""
        route, accumulation = self._routed(accumulation, x)
        pieces, stores = route.pieces, route.stores
        state, value = programs.start(accumulation, x, pieces.first)
        tree = jax.tree.structure(state)
        # the number of pieces whose values were added: a piece counts once, however often it runs
        counted, norms = 0, []
        gradient, cotangent = jnp.zeros_like(x), state
        for action, upcoming in itertools.pairwise(itertools.chain(route.schedule.actions(), [None])):
            if isinstance(upcoming, Restore):
                stores[upcoming.tier].prefetch(upcoming.slot)
            match action:
                case Advance(first, last):
                    for b in range(first, last):
                        pieces.prefetch(b + 1)
                        # one piece at a time: results of pieces that wait in a queue would fill the memory
                        state, part = jax.block_until_ready(programs.advance(accumulation, x, state, pieces[b]))
                        if b == counted:
                            value, counted = value + part, b + 1
                            if counted == pieces.count:
                                part, (gradient, cotangent) = programs.close(accumulation, x, state)
                                value = value + part
                case Store(_, tier, slot):
                    stores[tier].write(slot, jax.tree.leaves(state))
                case Restore(_, tier, slot):
                    state = jax.tree.unflatten(tree, map(jnp.asarray, stores[tier].read(slot)))
                case Reverse(b):
                    pieces.prefetch(b - 1)
                    piece = programs.reverse(accumulation, x, state, pieces[b], cotangent, gradient)
                    cotangent, gradient, adjoint = jax.block_until_ready(piece)
                    norms.append(adjoint)
        gradient = programs.reverse_start(accumulation, x, pieces.first, cotangent, gradient)
        return value, gradient, growth(_joined(norms[::-1]))


def _timed(run: Callable[[], PyTree]) -> tuple[PyTree, float]:
    """The result of a run, and its seconds without compilation."""
    jax.block_until_ready(run())
    begin = time.perf_counter()
    return jax.block_until_ready(run()), time.perf_counter() - begin


def _joined(norms: list[Array]) -> Array:
    """Norms of the adjoint, joined from all pieces to one trajectory.

    The norm that enters at the end of a piece comes from the next one.
    """
    inside = [n[:, :-1] for n in norms]
    return jnp.concatenate([*inside, norms[-1][:, -1:]], axis=1)


def _in_order(pieces: TimeChunks) -> Iterator[ObservationSchedule]:
    """All pieces in order; the source of observations is told the next one."""
    for b in range(pieces.count):
        pieces.prefetch(b + 1)
        yield pieces[b]
