"""Forward solutions of a system, and their numerical method."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import diffrax
import jax
import numpy as np
from jaxtyping import Array, PyTree

from pdefit._util.program import Program, values_of
from pdefit._util.trees import demand_float64
from pdefit.integrate.adaptive.controller import adaptive_grid
from pdefit.integrate.adaptive.tolerance import Adaptive
from pdefit.integrate.loop.bends import Passed, bends, beside_jumps, passed_over, refuse_stages_beyond
from pdefit.integrate.loop.stable_step import choose_steps, demand_values, settle
from pdefit.integrate.loop.stepper import Stepper
from pdefit.integrate.loop.time_grid import TimeGrid, constant_grid, edges_of, step_ends
from pdefit.integrate.loop.time_loop import store_all
from pdefit.integrate.solvers.rk4 import RK4
from pdefit.systems.courses import Course, courses
from pdefit.systems.events import Events
from pdefit.systems.system import AbstractSystem


class Numerics(NamedTuple):
    """The numerical method of a forward run.

    **Arguments:**

    - `solver`: the time stepping method, with a fixed number of stages.
    - `dt`: the largest constant step, in the system's time unit.
    - `steps`: the tolerance of adaptive steps, which replace constant steps `dt`.
    - `args`: exogenous inputs of the system.
    - `events`: doses, infusions and resets.
    """

    solver: diffrax.AbstractSolver
    dt: float
    steps: Adaptive | None = None
    args: PyTree = None
    events: Events | None = None

    def stepper(self, system: AbstractSystem) -> Stepper:
        """Stepper of a system by this method."""
        return Stepper(system, self.solver, self.args, None, self.events)

    def bends(self, system: AbstractSystem, y0: PyTree, ts: np.ndarray, t0: float) -> np.ndarray:
        """Times at which steps end because of an event, or a bend or jump of an input, (B,).

        **Arguments:** as in `grid`.
        """
        if not (ts.size and ts[-1] > t0):
            return np.zeros(0)
        found = self._bends(courses(system, y0, self.args, t0, ts[-1]), ts, t0)
        edges = np.union1d(edges_of(t0, ts)[0], found)
        found = np.union1d(found, beside_jumps(system, y0, self.args, edges))
        if found.size and self.steps is None:
            refuse_stages_beyond(self.solver)
        return found if self.events is None else np.union1d(found, self.events.ends(edges_of(t0, ts)[0]))

    def _bends(self, inputs: Sequence[Course], ts: np.ndarray, t0: float) -> np.ndarray:
        """Bends of inputs at which steps end."""
        return bends(edges_of(t0, ts)[0], self.dt if self.steps is None else np.inf, inputs)

    def passed(self, system: AbstractSystem, y0: PyTree, ts: np.ndarray) -> Passed:
        """The input that constant steps from ts[0] on resolve worst.

        **Arguments:** as in `grid`.
        """
        if self.steps is not None:
            return Passed()
        inputs = courses(system, y0, self.args, ts[0], ts[-1])
        return passed_over(step_ends(np.union1d(ts, self._bends(inputs, ts, float(ts[0]))), self.dt), inputs)

    def grid(
        self, system: AbstractSystem, y0: PyTree, ts: np.ndarray, t0: float, ends: np.ndarray | None = None
    ) -> TimeGrid:
        """Time grid from t0 to the times ts by this method.

        **Arguments:**

        - `system`, `y0`: the equations and the state at t0, for which adaptive steps are chosen.
        - `ts` (I,): increasing times; the first may be t0 itself.
        - `t0`: the start time.
        - `ends`: the times of `bends` for a longer record that contains this one; by default for this record.
        """
        ends = self.bends(system, y0, ts, t0) if ends is None else ends
        if self.steps is None:
            return constant_grid(t0, ts, self.dt, ends)
        return adaptive_grid(
            system, y0, ts, solver=self.solver, steps=self.steps, t0=t0, args=self.args, ends=ends, events=self.events
        )


def choose_numerics(
    problems: Sequence[tuple[AbstractSystem, PyTree]],
    solver: diffrax.AbstractSolver | None,
    dt: float | None,
    steps: Adaptive | None,
    args: PyTree = None,
    events: Events | None = None,
) -> Numerics:
    """Numerical method of forward runs, with all open choices made.

    **Arguments:**

    - `problems`: systems, each with a state. Constant steps are stable for all of them.
    - `solver`: the solver; `None` is RK4.
    - `dt`: the step; `None` is 0.8 of the largest stable step, or as in `choose_steps` if a system states none.
    - `steps`, `args`, `events`: as in `Numerics`.
    """
    demand_values([(system, (y0, args)) for system, y0 in problems])
    solver = RK4() if solver is None else solver
    if steps is not None:
        steps.refuse_dt(dt)
        return Numerics(settle(problems, None, solver), np.inf, steps, args, events)
    return Numerics(*choose_steps(problems, dt, solver, args=args), None, args, events)


def _run(stepper: Stepper, y0: PyTree, grid: TimeGrid) -> PyTree:
    inputs = np.zeros(grid.count.size + grid.observes_start)
    return store_all(stepper.prepared(grid), y0, grid, lambda y, _: y, inputs)[1]


_STATES = Program(_run, lambda stepper, y0, grid: values_of(y0))


def states(system: AbstractSystem, y0: PyTree, ts: np.ndarray, numerics: Numerics, *, t0: float) -> PyTree:
    """States at given times, stacked on a leading axis.

    **Arguments:**

    - `system`: the equations.
    - `y0`: the state at t0.
    - `ts`: the times, increasing, (I,), in the system's time unit; the first may be t0 itself.
    - `numerics`: the solver and its steps, which must be set.
    - `t0`: the time of y0.
    """
    demand_float64()
    numerics = numerics._replace(solver=settle([(system, y0)], numerics.dt, numerics.solver))
    return _STATES(numerics.stepper(system), y0, numerics.grid(system, y0, ts, t0))


def frames(
    system: AbstractSystem,
    y0: PyTree,
    ts: np.ndarray,
    numerics: Numerics,
    *,
    t0: float,
    block: int = 32,
) -> Iterator[PyTree]:
    """States at given times, one after the other.

    **Arguments:** as in `states`, and

    - `block`: the number of states held in memory.
    """
    demand_float64()
    numerics = numerics._replace(solver=settle([(system, y0)], numerics.dt, numerics.solver))
    stepper, ts = numerics.stepper(system), np.asarray(ts, np.float64)
    if ts.size and ts[0] == t0:
        yield y0
        ts = ts[1:]
    ends = numerics.bends(system, y0, ts, t0) if ts.size else None
    # blocks of one size, where that is possible, take one program
    for part in np.array_split(ts, -(-ts.size // block)) if ts.size else ():
        found = _STATES(stepper, y0, numerics.grid(system, y0, part, t0, ends))
        for i in range(part.size):
            yield (y0 := _frame(found, i))
        t0 = float(part[-1])


@jax.jit
def _frame(states: PyTree, i: int | Array) -> PyTree:
    """One of several stacked states, by one program."""
    return jax.tree.map(lambda x: x[i], states)
