"""Exploration: a fit from many starts, in which weak starts are dropped early."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from pdefit._util.errors import PdefitError, refusing
from pdefit._util.packed_state import pack, unpack
from pdefit._util.run_state import RunState
from pdefit.inverse.fit.stages import Stage
from pdefit.inverse.members._member_run import MemberRun
from pdefit.inverse.members.draw_starts import Starts
from pdefit.inverse.members.fit_members import AT_ONCE, outcome, stages_of
from pdefit.inverse.members.member_state import MemberProgress
from pdefit.inverse.members.members import Members
from pdefit.inverse.members.optima import Optima, find_optima
from pdefit.inverse.members.result import MemberFits
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.objective.compiled import value_of
from pdefit.inverse.optimizers.base import AbstractOptimizer
from pdefit.inverse.shooting.formulation import Single

# evaluations after which starts are compared, and the parts of the record on which they are
_TRIAL, _PARTS = 10, (1 / 4, 1 / 2)
# frames below which a record has no beginning that tells starts apart
_FRAMES = 8


@dataclasses.dataclass(frozen=True)
class Exploration:
    """Result of an exploration: the end point of every start of one fit.

    **Arguments:**

    - `starts`: the starts, (E, p).
    - `theta`, `loss`: the end point of each start, (E, p), and J there, (E,); infinite for dropped or blown-up starts.
    - `dropped`: the index of the comparison after which each start was dropped; -1 for starts fitted to the end.
    - `evaluations`: the number of evaluations of each start.
    - `converged`: whether each start ended in a minimum.
    - `optima`: the distinct optima.
    - `score`: the score of each start, (E,), the lowest of which is chosen: J, or the misfit of held-out frames.
    """

    starts: Float[np.ndarray, "E p"]
    theta: Float[np.ndarray, "E p"]
    loss: Float[np.ndarray, " E"]
    dropped: Int[np.ndarray, " E"]
    evaluations: Int[np.ndarray, " E"]
    converged: np.ndarray
    optima: Optima
    score: Float[np.ndarray, " E"]

    @property
    def best(self) -> int:
        """Index of the chosen start."""
        return int(np.argmin(self.score))

    @property
    def point(self) -> Float[Array, " p"]:
        """End point of the chosen start, (p,)."""
        return jnp.asarray(self.theta[self.best])

    def record(self) -> dict[str, Any]:
        """Entries of summary.json."""
        return {
            "count": self.loss.size,
            "dropped": int((self.dropped >= 0).sum()),
            "optima": self.optima.best.size,
            "reached": self.optima.reached.tolist(),
            "loss": [float(self.loss[e]) for e in self.optima.best],
            "evaluations": int(self.evaluations.sum()),
            "text": str(self),
        }

    def __str__(self) -> str:
        """Sentence about the number of starts that reached the best optimum."""
        if not self.optima.best.size:
            return f"{self.loss.size} starts, none of which gave a finite J"
        ended, reached = int((self.dropped < 0).sum()), int(self.optima.reached[self.optima.label[self.best]])
        dropped = self.loss.size - ended
        early = f", {dropped} of them dropped early" if dropped else ""
        others = f"; {self.optima.best.size - 1} other optima" if self.optima.best.size > 1 else ""
        return f"best of {self.loss.size} starts{early}, reached by {reached} of the {ended} that were fitted{others}"


def explore(
    functional: AbstractObjective,
    starts: Starts | None = None,
    stages: Sequence[Stage | AbstractOptimizer] | None = None,
    *,
    seed: int = 0,
    at_once: int = AT_ONCE,
    devices: Sequence[Any] = (),
    callback: Callable[[MemberProgress], None] | None = None,
    judge: AbstractObjective | None = None,
) -> Exploration:
    """Fits from many starts, and their distinct optima. `pdefit.fit` continues from the best.

    **Arguments:**

    - `functional`: the objective.
    - `starts`: the starts; default `Starts()`.
    - `stages`: as in `fit_members`; by default the stages of `choose_stages`.
    - `seed`: the seed of the starts.
    - `at_once`, `devices`, `callback`: as in `fit_members`.
    - `judge`: the objective that chooses among the optima, such as the misfit of held-out frames,
      `pdefit.stopping.Holdout(record).judged(functional)`; by default the lowest J.
    """
    given = {"at_once": at_once, "devices": devices, "callback": callback, "judge": judge}
    return Explorer(functional, stages, starts or Starts(), seed, **given).explore()


class _Now(NamedTuple):
    """The state of an exploration, with the fields of `Exploration`."""

    theta: Float[np.ndarray, "E p"]
    loss: Float[np.ndarray, " E"]
    dropped: Int[np.ndarray, " E"]
    evaluations: Int[np.ndarray, " E"]
    converged: np.ndarray


class Explorer:
    """A fit from many starts, in progress.

    **Arguments:**

    - `functional`: the objective.
    - `stages`: as in `explore`.
    - `starts`, `seed`: the design of the starts, and its seed.
    - `at_once`, `devices`: as in `fit_members`.
    - `callback`: called after every few evaluations.
    - `judge`: as in `explore`.
    """

    def __init__(
        self,
        functional: AbstractObjective,
        stages: Sequence[Stage | AbstractOptimizer] | None,
        starts: Starts,
        seed: int = 0,
        *,
        at_once: int = AT_ONCE,
        devices: Sequence[Any] = (),
        callback: Callable[[MemberProgress], None] | None = None,
        judge: AbstractObjective | None = None,
    ):
        self.functional, self.starts, self.callback, self.judge = functional, starts, callback, judge
        self.at_once, self.devices = at_once, tuple(devices)
        whole = [dataclasses.replace(s, reweight=None, stop=None) for s in stages_of(functional, stages)]
        self.rungs = [*self._trials(whole[-1]), whole]
        self.points = np.asarray(starts.points(functional, seed))
        count = len(self.points)
        none, far = np.zeros(count, int), np.full(count, np.inf)
        self.now = _Now(np.array(self.points), far, none - 1, none, np.zeros(count, bool))
        self.rung, self.run = 0, None

    def _trials(self, last: Stage) -> list[list[Stage]]:
        """Stages on the beginning of the record after which starts are compared."""
        records = [part.observations.ts for part, _ in self.functional.parts(self.functional.theta0)]
        whole = self.functional.formulation == Single() and min(ts.size for ts in records) >= _FRAMES
        if not whole or not 0 < self.starts.keep < self.starts.count:
            return []
        ends = [max(float(ts[max(1, round((ts.size - 1) * part))]) for ts in records) for part in _PARTS]
        return [[Stage(last.optimizer, _TRIAL, Single(until=end))] for end in ends]

    @property
    def alive(self) -> Int[np.ndarray, " a"]:
        """Indices of the starts that have not been dropped."""
        return np.flatnonzero(self.now.dropped < 0)

    def explore(self) -> Exploration:
        """Fit all starts."""
        while True:
            last = self.rung == len(self.rungs) - 1
            run = self.run or self._begun()
            self.run = run
            run.minimise()
            self._account(run)
            if last:
                return self._exploration(outcome(run))
            self._drop(run)
            self.rung, self.run = self.rung + 1, None

    def _begun(self) -> MemberRun:
        members = Members.from_points(self.functional, jnp.asarray(self.now.theta[self.alive]))
        return MemberRun(members, self.rungs[self.rung], self.at_once, self.devices, self._report)

    def _account(self, run: MemberRun) -> None:
        self.now.theta[self.alive, : run.now.theta.shape[1]] = run.now.theta
        self.now.evaluations[self.alive] += run.now.evaluations

    def _drop(self, run: MemberRun) -> None:
        """Drop the worse half, but keep at least the required number."""
        alive = self.alive
        left = max(self.starts.keep, -(-alive.size // 2)) if self.rung + 2 < len(self.rungs) else self.starts.keep
        order = np.argsort(run.now.loss, kind="stable")
        self.now.dropped[alive[order[left:]]] = self.rung

    def _exploration(self, fits: MemberFits) -> Exploration:
        alive, sizes = self.alive, np.asarray(self.functional.controls.sizes(self.functional.theta0))
        self.now.loss[alive], self.now.converged[alive] = fits.loss, fits.converged
        optima = find_optima(fits.theta, fits.loss, fits.matrix, sizes, self.functional.observed_values)
        label = np.full(self.now.loss.size, -1)
        label[alive] = optima.label
        optima = Optima(label, optima.reached, alive[optima.best] if optima.best.size else optima.best)
        score = self.now.loss
        if self.judge is not None:
            score = np.full(self.now.loss.size, np.inf)
            for e in optima.best:
                score[e] = float(value_of(self.judge, jnp.asarray(self.now.theta[e])))
        score = np.where(np.isfinite(score), score, np.inf)
        if not np.isfinite(self.now.loss).any():
            raise PdefitError(
                "The model blows up from all starts; give bounds (starts.within=bounds), or a better guess"
            )
        return Exploration(starts=self.points, **self.now._asdict(), optima=optima, score=score)

    def _report(self, progress: MemberProgress) -> None:
        if self.callback is not None:
            self.callback(dataclasses.replace(progress, state=self.state))

    # --- saving and going on -------------------------------------------------------------------------------------------

    def state(self) -> RunState:
        """The state from which the exploration can be resumed, bit for bit."""
        inner = RunState({}, {}) if self.run is None else self.run.state()
        numbers = {**inner.numbers, "rung": self.rung, "under_way": self.run is not None}
        return RunState(numbers, pack(starts=self.now) | inner.arrays)

    @refusing("these starts")
    def restore(self, saved: RunState) -> None:
        """Restore a saved exploration, or refuse it if it belongs to another fit."""
        self.rung = saved.numbers["rung"]
        if not 0 <= self.rung < len(self.rungs):
            raise ValueError("rung")
        self.now = unpack("starts", self.now, saved.arrays)
        if saved.numbers["under_way"]:
            self.run = self._begun()
            self.run.restore(saved)
