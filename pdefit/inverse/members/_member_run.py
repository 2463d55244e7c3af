"""Bookkeeping of many fits: stages, batches of members, and the state from which they resume."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from pdefit._util.errors import refusing
from pdefit._util.packed_state import pack, unpack
from pdefit._util.run_state import RunState
from pdefit.integrate.loop.batch import AbstractBatch, Devices, Vmap, on_one_device
from pdefit.inverse.fit.compiled_loop import Carry
from pdefit.inverse.fit.renew_steps import StepWatch, are_coarse, are_due, saved_grid
from pdefit.inverse.fit.stages import Stage, keeps, prepared, prepares
from pdefit.inverse.members import _batch
from pdefit.inverse.members.member_state import MemberProgress, Now
from pdefit.inverse.members.members import Members
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.objective.variants import is_adaptive
from pdefit.inverse.optimizers.base import AbstractOptimizer
from pdefit.inverse.shooting.formulation import AbstractFormulation
from pdefit.systems.capabilities import AbstractStable

# evaluations of every member between two looks at which have finished
_CHUNK = 4
# a batch shrinks when so many times fewer of its members are left, and an evaluation of it updates so many values that
# another program, which takes some seconds to compile, pays
_SHRINK, _PAYS = 8, 1e7
_NONE = np.zeros(0, int)


class MemberRun:
    """Bookkeeping of many fits: `slots` are the members of the present batch, -1 for empty slots."""

    def __init__(
        self,
        members: Members,
        stages: Sequence[Stage],
        at_once: int,
        devices: tuple[Any, ...],
        callback: Callable[[MemberProgress], None] | None,
    ):
        self.own, self.members, self.stages, self.callback = members, members, stages, callback
        self.devices, self.largest = devices, at_once
        self.stage, self.windows = 0, -1
        self.now = Now.at(np.array(members.theta0))
        first = members.first
        self.adaptive = is_adaptive(first)
        # of each member, if its constant step was left open
        is_left_open = first.asked_dt is None and not self.adaptive
        self.watches = [StepWatch() for _ in range(members.count)] if is_left_open else []
        self.limited = bool(self.watches) and isinstance(first.problem.system, AbstractStable)
        self.slots = np.zeros(0, int)
        self.carry: Carry | None = None

    # --- stages ------------------------------------------------------------------------------------------------------

    def minimise(self) -> None:
        """Run all stages from the present state of the fits."""
        while self.stage < len(self.stages):
            if self.carry is None:
                self._enter()
            self._through()
            self.stage, self.carry = self.stage + 1, None
        if self._formulation is not None and self._formulation.partial:
            self._use(-1)
            self._renew(np.arange(self.own.count))

    def _enter(self) -> None:
        """Begin a stage at the end of the previous one."""
        before, formulation = self._formulation, self.stages[self.stage].formulation
        if prepares(self.own.first, formulation):
            self._use(self.stage)
        elif not keeps(self.own.first, before):
            self._use(-1)
        size = self.members.theta0.shape[1]
        carried = self.now.theta
        theta = np.concatenate([carried[:, :size], np.asarray(self.own.theta0)[:, carried.shape[1] : size]], 1)
        self.now = self.now._replace(theta=theta)
        # a member that blew up in windows may be fine without
        self.now.used[:], self.now.ended[:], self.now.anew[:] = 0, False, False
        self._renew(np.arange(self.own.count))
        if prepared(self.own.first, before, self._formulation):
            self._return_to_start()
        self._refine(np.arange(self.own.count))
        self._fill(self._size(self.own.count))

    def _return_to_start(self) -> None:
        """Return members to their start if J there is lower than at the end of the preparing stages."""
        (there,), carried = self.evaluated(_batch.values), self.now.theta
        self.now = self.now._replace(theta=np.array(self.members.theta0))
        (here,) = self.evaluated(_batch.values)
        better = np.isfinite(here) & ~(there <= here)
        self.now.theta[~better] = carried[~better]
        self._renew(np.flatnonzero(better))

    @property
    def _formulation(self) -> AbstractFormulation | None:
        return None if self.windows < 0 else self.stages[self.windows].formulation

    def _use(self, windows: int) -> None:
        self.windows = windows
        self.members = self.own.reformulated(self._formulation)
        # the constant steps that were chosen last
        known = np.flatnonzero([watch.stable is not None for watch in self.watches])
        self.members, _ = self.members.restepped(known, lambda e, one: self.watches[e].applied(one))

    # --- batches -----------------------------------------------------------------------------------------------------

    def _size(self, count: int) -> int:
        """Size of a batch for `count` members: the multiple of the devices that holds a power of two."""
        least = max(len(self.devices), 1)
        return -(-min(1 << (count - 1).bit_length(), 1 << (self.largest.bit_length() - 1)) // least) * least

    @property
    def _batch(self) -> AbstractBatch:
        return Devices(self.devices) if len(self.devices) > 1 else Vmap()

    def _handed(self, tree: Any) -> Any:
        """A tree in the form that a program of several processes takes: in host memory, equal in each process."""
        others = any(device.process_index != jax.process_index() for device in self.devices)
        return jax.tree.map(lambda x: np.asarray(x) if isinstance(x, jax.Array) else x, tree) if others else tree

    @property
    def _optimizer(self) -> AbstractOptimizer:
        return self.stages[self.stage].optimizer

    def _some(self, index: Int[np.ndarray, " k"], members: Members | None = None) -> Members:
        """Some members, without their lengths, which programs do not use and which would cause recompilation."""
        some = (members or self.members).take(index)
        return dataclasses.replace(some, stack=dataclasses.replace(some.stack, extents=None))

    def _here(self) -> Members:
        """Members of the batch. Empty slots hold the first member, and do not move."""
        return self._some(np.maximum(self.slots, 0))

    def _fill(self, size: int, renewed: Int[np.ndarray, " r"] = _NONE) -> None:
        """Make a batch of the members that have not finished, and keep the states of members in progress.

        **Arguments:**

        - `size`: the size of the batch.
        - `renewed`: the members that restart from their best point, with other steps.
        """
        before, carry = self.slots, self.carry
        going = [s for s in before if s >= 0 and not self.now.ended[s] and self.now.used[s] and s not in renewed]
        waiting = [e for e in range(self.own.count) if not self.now.ended[e] and e not in {*going}]
        self.slots = np.array([*going, *waiting, *[-1] * size][:size])
        fresh = _batch.begun(self._here(), self._optimizer, jax.device_put(self.now.theta[np.maximum(self.slots, 0)]))
        if carry is None or not going:
            self.carry = fresh
            return
        places = {s: i for i, s in enumerate(before)}
        old = np.array([places.get(s, 0) if s in {*going} else 0 for s in self.slots])
        self.carry = _batch.chosen(~np.isin(self.slots, going), fresh, carry, old)

    def _through(self) -> None:
        """Advance all members to the end of the stage."""
        most = self.stages[self.stage].max_iterations
        while not self.now.ended.all():
            here = np.maximum(self.slots, 0)
            active = (self.slots >= 0) & ~self.now.ended[here]
            limit = np.where(active, np.minimum(1 if self.adaptive else _CHUNK, most - self.now.used[here]), 0)
            theta, (some, carry) = self.now.theta[here], self._handed((self._here(), self.carry))
            taken, self.carry = _batch.advanced(some, self._optimizer, carry, limit, self._batch)
            self._account(active, here, taken, most)
            renewed = self._renew_due(here[active], theta[active])
            again = self._begin_anew(here[active]) or bool(renewed.size)
            left = int((~self.now.ended).sum())
            under_way = int((active & ~self.now.ended[here]).sum())
            smaller = self._size(left) if self._pays(left) else self.slots.size
            if left and (under_way < left or again or smaller < self.slots.size):
                self._fill(smaller, renewed)
            if self.callback is not None:
                done = int(self.now.ended.sum())
                total = int(self.now.evaluations.sum())
                self.callback(MemberProgress(self.stage, len(self.stages), done, self.own.count, total, self.state))

    def _pays(self, left: int) -> bool:
        """True if a smaller batch saves more than its program costs."""
        if self._size(left) * _SHRINK > self.slots.size:
            return False
        functional = self.members.first
        tangents = functional.tangents if self._optimizer.tangents else 0
        steps = float(np.ptp(functional.observations.ts, axis=-1).max()) / functional.dt
        values = sum(np.size(x) for x in jax.tree.leaves(functional.problem.y0)) * steps
        return self.slots.size * values * (1 + tangents) > _PAYS

    def _account(self, active: np.ndarray, here: np.ndarray, taken: np.ndarray, most: int) -> None:
        carry, rows = self.carry, here[active]
        assert carry is not None
        self.now.used[rows] += taken[active]
        self.now.evaluations[rows] += taken[active]
        best, value = np.asarray(carry.best_theta)[active], np.asarray(carry.best_value)[active]
        finite = np.isfinite(value)
        # one that blew up keeps the point of the stage before
        self.now.theta[rows[finite]] = best[finite]
        self.now.loss[rows] = value
        converged = np.asarray(jax.vmap(self._optimizer.converged)(carry.state))[active]
        self.now.converged[rows] = converged & finite
        self.now.ended[rows] = np.asarray(carry.done)[active] | (self.now.used[rows] >= most)

    def _begin_anew(self, rows: np.ndarray) -> bool:
        """Restart, from their start, members that blew up at the end of the previous stage; returns whether any did."""
        start = np.asarray(self.members.theta0)
        blown = rows[~np.isfinite(self.now.loss[rows]) & self.now.ended[rows] & ~self.now.anew[rows]]
        blown = blown[np.any(self.now.theta[blown] != start[blown], axis=1)]
        self.now.theta[blown], self.now.anew[blown] = start[blown], True
        self.now.ended[blown], self.now.used[blown] = False, 0
        return bool(blown.size)

    # --- steps -----------------------------------------------------------------------------------------------------------

    def _begin_steps(self, e: int, one: AbstractObjective) -> AbstractObjective:
        """A member with steps that suit its point, at the start of a stage."""
        theta = jnp.asarray(self.now.theta[e])
        return one.renewed(theta) if self.adaptive else self.watches[e].start(one, theta)[0]

    def _next_steps(self, e: int, one: AbstractObjective) -> AbstractObjective:
        """A member with constant steps that are stable at its point."""
        theta, watch = jnp.asarray(self.now.theta[e]), self.watches[e]
        watch.look(one, theta)
        return watch.renew(one, theta)[0] if watch.due and self._left[e] else one

    def _renew(self, rows: Int[np.ndarray, " k"]) -> Int[np.ndarray, " r"]:
        """Choose the steps of some members at their points, and return the members whose steps changed."""
        if not (self.adaptive or self.limited):
            return _NONE
        before = self.members.time_grid
        self.members, done = self.members.restepped(rows, self._begin_steps)
        if self.watches:
            return done
        self.now.error[rows] = np.nan
        self.now.error[done] = self.now.chosen[done] = self.evaluated(_batch.step_errors, done)[0]
        grid = self.members.time_grid
        step = np.pad(before.step, [*[(0, 0)] * (before.step.ndim - 1), (0, grid.length - before.length)])
        return done[[bool(np.any(step[e] != grid.step[e])) for e in done]]

    def _renew_due(self, rows: Int[np.ndarray, " k"], before: Float[np.ndarray, "k p"]) -> Int[np.ndarray, " r"]:
        """Renew steps that no longer suit, and return the members that restart with new steps.

        **Arguments:**

        - `rows`: the members in progress.
        - `before`: their points before the last evaluations.
        """
        moved = rows[np.any(self.now.theta[rows] != before, axis=1)]
        if self.adaptive:
            self.now.error[moved] = self.evaluated(_batch.step_errors, moved)[0]
            due = rows[are_due(self.now.error[rows], self.now.chosen[rows])]
            changed = self._renew(due[self._left[due]])
            self.now.converged[due[~self._left[due]]] = False
        elif self.limited:
            self.members, changed = self.members.restepped(moved, self._next_steps)
            self.now.converged[[e for e in moved if self.watches[e].due]] = False
        else:
            changed = _NONE
        finer = self._refine(rows[self.now.ended[rows]])
        self.now.used[finer], changed = 0, np.union1d(changed, finer).astype(int)
        self.now.ended[changed] = self.now.converged[changed] = False
        return changed

    def _refine(self, rows: Int[np.ndarray, " k"]) -> Int[np.ndarray, " r"]:
        """Halve the steps of some members if that moves their residuals, and return the members whose steps changed."""
        if not self.watches or not rows.size or not self.members.first.small:
            return _NONE
        finer = self.members.halved()
        now, then = (self.evaluated(_batch.observed, rows, some.by_count()) for some in (self.members, finer))
        coarse, at = rows[are_coarse(now, then)], jnp.asarray(self.now.theta)
        self.members, changed = self.members.restepped(coarse, lambda e, one: self.watches[e].finer(one, at[e])[0])
        return changed

    @property
    def _left(self) -> Bool[np.ndarray, " E"]:
        """Mask of the members with evaluations left in this stage."""
        return self.now.used < self.stages[self.stage].max_iterations

    # --- saving and going on -------------------------------------------------------------------------------------------

    def state(self) -> RunState:
        """The state of all fits, from which they can be resumed."""
        steps, done = [watch.numbers() for watch in self.watches], int(self.now.evaluations.sum())
        numbers = {"stage": self.stage, "windows": self.windows, "iterations": done, "watches": steps}
        grid = self.members.time_grid if self.adaptive else None
        return RunState(numbers, pack(members=self.now, slots=self.slots, time_grid=grid, carry=self.carry))

    @refusing("these members")
    def restore(self, saved: RunState) -> None:
        """Restore saved fits, or refuse them if they belong to other members."""
        arrays, self.stage = saved.arrays, int(saved.numbers["stage"])
        # a state that is taken after the last stage has no evaluation under way
        if not 0 <= self.stage <= len(self.stages):
            raise ValueError("stage")
        for watch, known in zip(self.watches, saved.numbers["watches"], strict=True):
            watch.restored(self.own.first, known, arrays)
        self._use(int(saved.numbers["windows"]))
        like = self.now._replace(theta=np.asarray(self.members.theta0))
        self.now = unpack("members", like, arrays)
        # as many members, or processes, as run together now need not have done so before
        self.slots = np.array(arrays["slots"])
        if self.adaptive:
            stack = self.members.stack.with_time_grid(saved_grid(arrays, self.members.time_grid))
            self.members = dataclasses.replace(self.members, stack=stack)
        if self.stage == len(self.stages):
            return
        like = _batch.begun(self._here(), self._optimizer, jax.device_put(self.now.theta[np.maximum(self.slots, 0)]))
        self.carry = unpack("carry", like, arrays)

    # --- where it has ended --------------------------------------------------------------------------------------------

    def evaluated(
        self, function: Callable, rows: Int[np.ndarray, " k"] | None = None, members: Members | None = None
    ) -> tuple[np.ndarray, ...]:
        """Results of a function of `_batch` at the points of members, batch by batch.

        **Arguments:**

        - `function`: the function.
        - `rows`: the members; default all.
        - `members`: all members with other steps than now.
        """
        rows = np.arange(self.own.count) if rows is None else rows
        size, parts = self._size(self.own.count), []
        for begin in range(0, rows.size, size):
            index = rows[np.minimum(np.arange(begin, begin + size), rows.size - 1)]
            some, theta = self._handed((self._some(index, members), jax.device_put(self.now.theta[index])))
            found = on_one_device(function(some, theta, self._batch))
            parts.append([np.asarray(x)[: rows.size - begin] for x in found])
        return tuple(np.concatenate(x) for x in zip(*parts, strict=True)) if parts else (np.zeros(0),)
