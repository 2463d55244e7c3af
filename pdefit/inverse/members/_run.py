"""The bookkeeping of many fits: stages, batches of members, and what is saved to go on from."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from pdefit._util.errors import refusing
from pdefit.integrate.loop.batch import AbstractBatch, Devices, Vmap, on_one_device
from pdefit.inverse.fit.compiled_loop import Carry
from pdefit.inverse.fit.renew_steps import are_due, saved_grid
from pdefit.inverse.fit.result import RunState, pack, unpack
from pdefit.inverse.fit.stages import Stage, keeps, prepares
from pdefit.inverse.members import _batch
from pdefit.inverse.members.members import Members
from pdefit.inverse.objective.variants import is_adaptive
from pdefit.inverse.optimizers.base import AbstractOptimizer
from pdefit.inverse.shooting.formulation import AbstractFormulation

# evaluations of every member between two looks at which have finished
_CHUNK = 4
# a batch shrinks when so many times fewer of its members are left, and an evaluation of it updates so many values that
# another program, which takes some seconds to compile, pays
_SHRINK, _PAYS = 8, 1e7
_NONE = np.zeros(0, int)


@dataclasses.dataclass(frozen=True)
class MemberProgress:
    """Many fits under way, as a callback is given them.

    **Arguments:**

    - `stage`, `stages`: the number of the stage, from 0, and of all stages.
    - `finished`, `members`: how many members have finished the stage, of how many.
    - `evaluations`: evaluations so far, of all members and stages.
    - `state`: returns the state from which the fits can be resumed.
    """

    stage: int
    stages: int
    finished: int
    members: int
    evaluations: int
    state: Callable[[], RunState]


class MemberRun:
    """The bookkeeping of many fits: `slots` are the members of the batch under way, -1 for none."""

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
        count = members.count
        self.stage, self.windows = 0, -1
        self.theta = np.asarray(members.theta0)
        self.loss = np.full(count, np.inf)
        self.converged, self.evaluations = np.zeros(count, bool), np.zeros(count, int)
        # the errors of adaptive steps, where each is and where they were chosen
        self.error, self.chosen = np.full(count, np.nan), np.full(count, np.nan)
        # of this stage: evaluations of each member, whether it has finished, and whether it began anew
        self.used, self.ended, self.anew = np.zeros(count, int), np.zeros(count, bool), np.zeros(count, bool)
        self.slots = np.zeros(0, int)
        self.carry: Carry | None = None

    # --- stages ------------------------------------------------------------------------------------------------------

    def minimise(self) -> None:
        """Run all stages, from wherever the fits are."""
        while self.stage < len(self.stages):
            if self.carry is None:
                self._enter()
            self._through()
            self.stage, self.carry = self.stage + 1, None
        if self._formulation is not None and self._formulation.partial:
            self._use(-1)
            self._renew(np.arange(self.own.count))

    def _enter(self) -> None:
        """Begin a stage from where the one before ended."""
        formulation = self.stages[self.stage].formulation
        if prepares(self.own.common, formulation):
            self._use(self.stage)
        elif not keeps(self.own.common, self._formulation):
            self._use(-1)
        size = self.members.theta0.shape[1]
        self.theta = np.concatenate(
            [self.theta[:, :size], np.asarray(self.own.theta0)[:, self.theta.shape[1] : size]], 1
        )
        # a member that blew up in windows may be fine without
        self.used[:], self.ended[:], self.anew[:] = 0, False, False
        self._renew(np.arange(self.own.count))
        self._fill(self._size(self.own.count))

    @property
    def _formulation(self) -> AbstractFormulation | None:
        return None if self.windows < 0 else self.stages[self.windows].formulation

    def _use(self, windows: int) -> None:
        self.windows = windows
        self.members = self.own.reformulated(self._formulation)

    # --- batches -----------------------------------------------------------------------------------------------------

    def _size(self, count: int) -> int:
        """The size of a batch for so many members: the multiple of the devices that holds a power of two."""
        least = max(len(self.devices), 1)
        return -(-min(1 << (count - 1).bit_length(), 1 << (self.largest.bit_length() - 1)) // least) * least

    @property
    def _batch(self) -> AbstractBatch:
        return Devices(self.devices) if len(self.devices) > 1 else Vmap()

    def _handed(self, tree: Any) -> Any:
        """A tree as a program of several processes takes it: in host memory, the same in each."""
        others = any(device.process_index != jax.process_index() for device in self.devices)
        return jax.tree.map(lambda x: np.asarray(x) if isinstance(x, jax.Array) else x, tree) if others else tree

    @property
    def _optimizer(self) -> AbstractOptimizer:
        return self.stages[self.stage].optimizer

    def _here(self) -> Members:
        """The members of the batch. Empty places hold the first one, and do not move."""
        return self.members.take(np.maximum(self.slots, 0))

    def _fill(self, size: int, renewed: Int[np.ndarray, " r"] = _NONE) -> None:
        """Make a batch of the members that have not finished, and keep the states of those that are under way.

        **Arguments:**

        - `size`: of the batch.
        - `renewed`: those that begin anew from their best point, with other steps.
        """
        before, carry = self.slots, self.carry
        going = [s for s in before if s >= 0 and not self.ended[s] and self.used[s] and s not in renewed]
        waiting = [e for e in range(self.own.count) if not self.ended[e] and e not in {*going}]
        self.slots = np.array([*going, *waiting, *[-1] * size][:size])
        fresh = _batch.begun(self._here(), self._optimizer, jnp.asarray(self.theta[np.maximum(self.slots, 0)]))
        if carry is None or not going:
            self.carry = fresh
            return
        places = {s: i for i, s in enumerate(before)}
        old = np.array([places.get(s, 0) if s in {*going} else 0 for s in self.slots])
        moved = jax.tree.map(lambda x: x[old], carry)
        self.carry = _batch.chosen(~np.isin(self.slots, going), fresh, moved)

    def _through(self) -> None:
        """Advance all members to the end of the stage."""
        most = self.stages[self.stage].max_iterations
        while not self.ended.all():
            here = np.maximum(self.slots, 0)
            active = (self.slots >= 0) & ~self.ended[here]
            limit = np.where(active, np.minimum(1 if self._adaptive else _CHUNK, most - self.used[here]), 0)
            theta, (some, carry) = self.theta[here], self._handed((self._here(), self.carry))
            taken, self.carry = _batch.advanced(some, self._optimizer, carry, limit, self._batch)
            self._account(active, here, taken, most)
            renewed = self._look(here[active], theta[active], most)
            again = self._begin_anew(here[active]) or bool(renewed.size)
            left = int((~self.ended).sum())
            under_way = int((active & ~self.ended[here]).sum())
            smaller = self._size(left) if self._pays(left) else self.slots.size
            if left and (under_way < left or again or smaller < self.slots.size):
                self._fill(smaller, renewed)
            if self.callback is not None:
                done = int(self.ended.sum())
                total = int(self.evaluations.sum())
                self.callback(MemberProgress(self.stage, len(self.stages), done, self.own.count, total, self.state))

    def _pays(self, left: int) -> bool:
        """Test for a smaller batch that saves more than its program costs."""
        functional = self.members.common
        tangents = functional.tangents if self._optimizer.tangents else 0
        steps = float(np.ptp(functional.observations.ts, axis=-1).max()) / functional.dt
        values = sum(np.size(x) for x in jax.tree.leaves(functional.problem.y0)) * steps
        return self._size(left) * _SHRINK <= self.slots.size and self.slots.size * values * (1 + tangents) > _PAYS

    def _account(self, active: np.ndarray, here: np.ndarray, taken: np.ndarray, most: int) -> None:
        carry, rows = self.carry, here[active]
        assert carry is not None
        self.used[rows] += taken[active]
        self.evaluations[rows] += taken[active]
        best, value = np.asarray(carry.best_theta)[active], np.asarray(carry.best_value)[active]
        finite = np.isfinite(value)
        # one that blew up keeps the point of the stage before
        self.theta[rows[finite]] = best[finite]
        self.loss[rows] = value
        converged = np.asarray(jax.vmap(self._optimizer.converged)(carry.state))[active]
        self.converged[rows] = converged & finite
        self.ended[rows] = np.asarray(carry.done)[active] | (self.used[rows] >= most)

    def _begin_anew(self, rows: np.ndarray) -> bool:
        """Let members that blew up where the stage before ended begin this one from their start, and return whether any do."""
        start = np.asarray(self.members.theta0)
        blown = rows[~np.isfinite(self.loss[rows]) & self.ended[rows] & ~self.anew[rows]]
        blown = blown[np.any(self.theta[blown] != start[blown], axis=1)]
        self.theta[blown], self.anew[blown] = start[blown], True
        self.ended[blown], self.used[blown] = False, 0
        return bool(blown.size)

    # --- adaptive steps --------------------------------------------------------------------------------------------------

    @property
    def _adaptive(self) -> bool:
        return is_adaptive(self.own.common)

    def _renew(self, rows: Int[np.ndarray, " k"]) -> Int[np.ndarray, " r"]:
        """Choose the adaptive steps of some members at their points, and return those whose steps are others now."""
        if not self._adaptive:
            return _NONE
        before = self.members.time_grid
        self.members, done = self.members.renewed(self.theta, rows)
        # a member whose model blows up in an adaptive pass keeps its steps
        self.error[rows] = np.nan
        self.error[done] = self.chosen[done] = self.evaluated(_batch.step_errors, done)[0]
        grid = self.members.time_grid
        step = np.pad(before.step, [*[(0, 0)] * (before.step.ndim - 1), (0, grid.length - before.length)])
        return done[[bool(np.any(step[e] != grid.step[e])) for e in done]]

    def _look(self, rows: Int[np.ndarray, " k"], before: Float[np.ndarray, "k p"], most: int) -> Int[np.ndarray, " r"]:
        """Renew adaptive steps that no longer suit, and return the members that begin anew with others.

        **Arguments:**

        - `rows`: the members under way.
        - `before`: their points before the last evaluation.
        - `most`: the most evaluations of the stage.
        """
        if not self._adaptive:
            return _NONE
        moved = rows[np.any(self.theta[rows] != before, axis=1)]
        self.error[moved] = self.evaluated(_batch.step_errors, moved)[0]
        due = rows[are_due(self.error[rows], self.chosen[rows])]
        changed = self._renew(due[self.used[due] < most])
        self.ended[changed] = False
        self.converged[due[self.used[due] >= most]] = False
        self.converged[changed] = False
        return changed

    # --- saving and going on -------------------------------------------------------------------------------------------

    _ARRAYS = ("theta", "loss", "converged", "evaluations", "error", "chosen", "used", "ended", "anew", "slots")

    def state(self) -> RunState:
        """The state of all fits, from which they can be resumed."""
        arrays = {name: np.array(getattr(self, name)) for name in self._ARRAYS}
        numbers = {"stage": self.stage, "windows": self.windows, "iterations": int(self.evaluations.sum())}
        steps = pack("time_grid", self.members.time_grid) if self._adaptive else {}
        return RunState(numbers, arrays | steps | pack("carry", self.carry))

    @refusing("these members")
    def restore(self, saved: RunState) -> None:
        """Take over the state of saved fits. One that does not fit these is refused."""
        arrays, self.stage = saved.arrays, int(saved.numbers["stage"])
        # a state that is taken after the last stage has no evaluation under way
        if not 0 <= self.stage <= len(self.stages):
            raise ValueError("stage")
        self._use(int(saved.numbers["windows"]))
        if arrays["theta"].shape[:1] != (self.own.count,):
            raise ValueError("theta")
        if self._adaptive:
            self.members = self.members.with_time_grid(saved_grid(arrays, self.members.time_grid))
        for name in self._ARRAYS:
            # as many members, or processes, as run together now need not have done so before
            setattr(self, name, np.array(arrays[name]))
        if self.stage == len(self.stages):
            return
        like = _batch.begun(self._here(), self._optimizer, jnp.asarray(self.theta[np.maximum(self.slots, 0)]))
        self.carry = unpack("carry", like, arrays)

    # --- where it has ended --------------------------------------------------------------------------------------------

    def evaluated(self, function: Callable, rows: Int[np.ndarray, " k"] | None = None) -> tuple[np.ndarray, ...]:
        """The results of a function of `_batch` at the points of members, batch by batch.

        **Arguments:**

        - `function`: the function.
        - `rows`: the members; default all.
        """
        rows = np.arange(self.own.count) if rows is None else rows
        size, parts = self._size(self.own.count), []
        for begin in range(0, rows.size, size):
            index = rows[np.minimum(np.arange(begin, begin + size), rows.size - 1)]
            some, theta = self._handed((self.members.take(index), jnp.asarray(self.theta[index])))
            found = on_one_device(function(some, theta, self._batch))
            parts.append([np.asarray(x)[: rows.size - begin] for x in found])
        return tuple(np.concatenate(x) for x in zip(*parts, strict=True)) if parts else (np.zeros(0),)
