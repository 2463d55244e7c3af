"""Solving a system forward."""

from collections.abc import Iterator, Sequence
from typing import Any

import diffrax
import equinox as eqx
import jax
import numpy as np
from jaxtyping import PyTree

from pdefit.errors import PdefitError, first_line
from pdefit.integrate.adaptive import Adaptive
from pdefit.integrate.adaptive_plan import adaptive_plan
from pdefit.integrate.adjoint import AbstractAdjoint, StoreAll
from pdefit.integrate.plan import TimePlan, plan_steps
from pdefit.integrate.stepper import Stepper, stage_matrix
from pdefit.systems.interfaces import AbstractStable
from pdefit.systems.system import AbstractSystem


def real_stability(solver: diffrax.AbstractSolver) -> float:
    """The x up to which an explicit Runge-Kutta method is stable for y' = -x y with step 1 (Euler: 2, RK4: 2.785); 2 for
    every other solver."""
    if not isinstance(solver, diffrax.AbstractERK):
        return 2.0
    tableau: Any = solver.tableau
    a = stage_matrix(tableau)
    stages = len(a)
    x = np.arange(0.01, 20.0, 0.005)
    growth = np.asarray(
        [abs(1 - z * tableau.b_sol @ np.linalg.solve(np.eye(stages) + z * a, np.ones(stages))) for z in x]
    )
    unstable = np.flatnonzero(growth > 1 + 1e-9)
    return float(x[unstable[0]]) if unstable.size else 20.0


def stability_limit(system: AbstractSystem, y0: PyTree, solver: diffrax.AbstractSolver) -> float | None:
    """The largest stable step of this solver at y0, from what the system says of explicit Euler; None if it says nothing."""
    if not isinstance(system, AbstractStable):
        return None
    return _stable_step(system, y0) * real_stability(solver) / 2


def _stable_step(system: Any, y0: PyTree) -> float:
    name = type(system).__name__
    try:
        step = float(system.stable_step(y0))
    # a plugin fails with any exception where a parameter has another shape than it expects
    except Exception as error:
        raise PdefitError(f"{name} cannot tell its stable step: {first_line(error)}; set its parameters") from None
    if not step > 0:
        raise PdefitError(
            f"{name} finds a stable step of {step:g} {system.time_unit}; correct its parameters or bounds"
        )
    return step


def choose_dt(
    problems: Sequence[tuple[AbstractSystem, PyTree]], dt: float | None, solver: diffrax.AbstractSolver
) -> float:
    """The step size asked for, refused beyond the stability limit of the first system at its state; when none is asked for,
    0.8 of Euler's limit, the smallest over all systems (a fit passes its guess and the corners of its bounds)."""
    system, y0 = problems[0]
    limit = stability_limit(system, y0, solver)
    if limit is None:
        if dt is None:
            raise PdefitError(f"{type(system).__name__} states no stable step, so a step size dt is expected; set dt")
        return dt
    if dt is None:
        return 0.8 * min(_stable_step(s, y) for s, y in problems)
    if dt > 1.01 * limit:
        raise PdefitError(
            f"The step dt = {dt:g} {system.time_unit} is beyond the stability limit {limit:.3g} {system.time_unit} of "
            f"{type(system).__name__} with {type(solver).__name__}; set dt to at most {limit:.2g}"
        )
    return dt


@eqx.filter_jit
def _solve(stepper: Stepper, y0: PyTree, plan: TimePlan, adjoint: AbstractAdjoint) -> PyTree:
    return adjoint.run(stepper, y0, plan, lambda y, _: y, np.zeros(plan.count.size + plan.look_first))[1]


def _plan(
    system: AbstractSystem,
    y0: PyTree,
    ts: np.ndarray,
    solver: diffrax.AbstractSolver,
    dt: float,
    t0: float,
    steps: Adaptive | None,
) -> TimePlan:
    if steps is None:
        return plan_steps(t0, ts, dt)
    return adaptive_plan(system, y0, ts, solver=solver, steps=steps, t0=t0)


def solve(
    system: AbstractSystem,
    y0: PyTree,
    ts: np.ndarray,
    *,
    solver: diffrax.AbstractSolver,
    dt: float,
    t0: float,
    steps: Adaptive | None = None,
) -> PyTree:
    """The states at the times ts, stacked on a leading axis, from y0 at t0; with steps of at most dt, or adaptive ones."""
    return _solve(Stepper(system, solver), y0, _plan(system, y0, ts, solver, dt, t0, steps), StoreAll())


def frames(
    system: AbstractSystem,
    y0: PyTree,
    ts: np.ndarray,
    *,
    solver: diffrax.AbstractSolver,
    dt: float,
    t0: float,
    steps: Adaptive | None = None,
    block: int = 32,
) -> Iterator[PyTree]:
    """The states at the times ts one after the other, holding no more than `block` of them."""
    stepper, ts = Stepper(system, solver), np.asarray(ts, np.float64)
    if ts.size and ts[0] == t0:
        yield y0
        ts = ts[1:]
    for first in range(0, ts.size, block):
        part = ts[first : first + block]
        states = _solve(stepper, y0, _plan(system, y0, part, solver, dt, t0, steps), StoreAll())
        for i in range(part.size):
            yield jax.tree.map(lambda x, i=i: x[i], states)
        y0, t0 = jax.tree.map(lambda x: x[-1], states), float(part[-1])
