"""Trajectories of a record: their initial states, the remaining free controls, and their steps."""

from collections.abc import Callable, Collection, Sequence

import diffrax
import jax
import numpy as np
from jaxtyping import Array, Bool, PRNGKeyArray, PyTree

from pdefit._util.errors import PdefitError, unknown
from pdefit._util.trees import named_fields, with_parts
from pdefit.data.observations import Observations
from pdefit.integrate.adaptive.controller import adaptive_grid
from pdefit.integrate.adaptive.tolerance import Adaptive
from pdefit.integrate.loop.bends import bends, beside_jumps, reads_time, refuse_stages_beyond
from pdefit.integrate.loop.nudge import Nudge
from pdefit.integrate.loop.stable_step import MARGIN, choose_steps
from pdefit.integrate.loop.time_grid import NO_BENDS, TimeGrid, cropped_like, stack_grids
from pdefit.inverse.controls.bind import bind
from pdefit.inverse.controls.declare import Declaration
from pdefit.inverse.controls.priors import AbstractRegularizer
from pdefit.inverse.controls.theta import Controls
from pdefit.inverse.problem.problem import Problem
from pdefit.inverse.shooting.formulation import AbstractFormulation, Layout
from pdefit.inverse.shooting.nodes import check_free, node_path
from pdefit.systems.courses import Course, courses
from pdefit.systems.events import Events

# a step in search space that shows which inputs depend on unknowns
_MOVED = 1e-2


def cut(problem: Problem, observations: Observations, formulation: AbstractFormulation) -> tuple[Problem, Layout]:
    """The problem with a node state for every segment (if there are segments), and the layout of a record."""
    if observations.ts.size < 2:
        raise PdefitError(
            "A fit expects observations at two times or more, but there is one; where the state is known at an earlier time t, "
            "begin there: observations.with_nothing_at(t)"
        )
    problem = with_parts(problem, lambda p: p.events, Events.along(problem.events, observations.ts))
    # node states do not depend on the step
    layout = formulation.layout(observations.ts, np.inf)
    nodes = formulation.node_states(problem, observations, layout)
    return started(problem, nodes, formulation.nudging(problem, observations)), layout


def started(problem: Problem, nodes: PyTree | None, nudge: Nudge | None) -> Problem:
    """The problem with the given node states (None for its initial state) and nudge."""
    return with_parts(problem, lambda p: (p.nodes, p.nudge), (nodes, nudge))


def bound(
    problem: Problem, declared: Declaration, key: PRNGKeyArray, observations: Observations, layout: Layout
) -> tuple[Controls, Problem]:
    """The declared controls, and the problem at their guesses."""
    controls, problem = bind(problem, declared, key, observations)
    if problem.nodes is not None:
        demand_influence([c.kind for c in controls.items])
        check_free(problem, observations, layout.nodes, [c.path for c in controls.items])
    return controls, problem


def demand_influence(kinds: Collection[str]) -> None:
    """Refuse an unknown initial state together with windows that start from the data.

    **Arguments:** `kinds`: the kinds of the controls.
    """
    if "initial" in kinds:
        raise PdefitError(
            "Segments start from the data, so y0 has no influence; make nodes.<field> the control, or none"
        )


def remaining(controls: Controls, before: Problem, nodes: PyTree | None, formulation: AbstractFormulation) -> Controls:
    """Controls that remain for a record with another cut.

    Whether states stay free depends on the start of trajectories:

    - from the initial state, as before: it stays free;
    - from the initial state, if the formulation holds it: it is held at its value;
    - from the data, now or before: node states belong to the windows for which they were declared, and the initial
      state has no influence.

    **Arguments:**

    - `controls`, `before`: the controls and the problem so far.
    - `nodes`: the new node states; None if there is only the initial state.
    - `formulation`: the new cut of the record.
    """
    if nodes is None and before.nodes is None and not formulation.holds_state:
        return controls
    if not controls.without_states.items:
        raise PdefitError("A stage with windows or a held state needs a control that is no state; remove stage.window")
    return controls.without_states


def known(regularizers: Sequence[AbstractRegularizer], controls: Controls) -> tuple[AbstractRegularizer, ...]:
    """The regularizers, checked to name existing controls."""
    paths = [c.path for c in controls.items]
    for regularizer in regularizers:
        if regularizer.control not in paths:
            raise unknown("control", regularizer.control, paths)
    return tuple(regularizers)


def residual_counts(name: str, problem: Problem, controls: Controls, layout: Layout) -> Bool[Array | np.ndarray, "S I"]:
    """Mask of observations of a variable that may be residuals.

    Each counts once, and not if a node state was made from it.
    """
    counts = layout.counts
    if problem.nodes is None:
        return counts
    free = [c.path for c in controls.nodes]
    from_data = name in named_fields(problem.y0) and node_path(problem, name) not in free
    # the first frame is the end of no window: it can be a residual only where trajectories do not start from it
    later = np.arange(counts.size).reshape(counts.shape) > 0
    return counts & later if from_data or not free else counts


def frozen_steps(
    problem: Problem,
    starts: PyTree,
    ts: np.ndarray,
    layout: Layout,
    solver: diffrax.AbstractSolver,
    steps: Adaptive,
) -> TimeGrid:
    """Time grid of every trajectory of a layout, with the steps of an adaptive pass.

    **Arguments:**

    - `problem`: the equations, and their exogenous inputs.
    - `starts`: the states at the starts of the trajectories, (S, ...).
    - `ts`: the observation times of the record.
    - `layout`: the S trajectories.
    - `solver`: a solver with an error estimate.
    - `steps`: the tolerance.
    """

    def one(s: int) -> TimeGrid:
        y0, first = jax.tree.map(lambda x: x[s], starts), float(ts[layout.nodes[s]])
        times = ts[np.unique(layout.index[s])]
        given = {"args": problem.args, "events": problem.events}
        return adaptive_grid(problem.system, y0, times, solver=solver, steps=steps, t0=first, **given)

    return stack_grids([one(s) for s in range(layout.segments)])


def inputs_of(problem: Problem, ts: np.ndarray) -> list[Course]:
    """Courses of all inputs over a record.

    **Arguments:** `problem`: the problem with its present values; `ts`: the observation times.
    """
    return courses(problem.system, problem.y0, problem.args, ts[0], ts[-1])


def laid_out(
    formulation: AbstractFormulation, at: Callable[[Array], Problem], theta: Array, ts: np.ndarray, dt: float
) -> Layout:
    """Trajectories of a record, with constant steps that end at events and at bends of inputs, whatever their unknown values.

    Steps do not end at knots that move with an unknown: the objective would have kinks there.

    **Arguments:**

    - `formulation`, `ts`: the cut of the record, and its observation times.
    - `at`, `theta`: the problem as a function of the unknowns, and the unknowns, (p,).
    - `dt`: the largest step, in the system's time unit.
    """
    guess = at(theta)
    here, due = inputs_of(guess, ts), NO_BENDS if guess.events is None else guess.events.ends(ts)
    # without inputs, and with rates that do not read the time, nothing bends or jumps at any theta
    if not (here or reads_time(guess.system, guess.y0, guess.args)):
        return formulation.layout(ts, dt, due)
    moved = at(jax.device_put(np.asarray(theta) + _MOVED * np.random.default_rng(0).normal(size=theta.shape)))
    pairs = zip(here, inputs_of(moved, ts) if here else here, strict=True)
    fixed = [x for pair in pairs if np.array_equal(pair[0].knots, pair[1].knots) for x in pair]
    found = bends(ts, dt, fixed)
    beside = beside_jumps(moved.system, moved.y0, moved.args, np.union1d(ts, found))
    return formulation.layout(ts, dt, np.union1d(np.union1d(found, beside), due))


def constant_steps(
    problem: Problem, solver: diffrax.AbstractSolver, dt: float | None, lay_out: Callable[[float], Layout]
) -> tuple[diffrax.AbstractSolver, float, Layout]:
    """Solver, largest constant step, and the layout with its steps, at the guesses.

    **Arguments:**

    - `problem`: the problem at the guesses.
    - `solver`, `dt`: as given; None for a step that is left open.
    - `lay_out`: `laid_out` as a function of the largest step.
    """
    solver, dt = choose_steps([(problem.system, problem.y0)], dt, solver, MARGIN, problem.args)
    layout = lay_out(dt)
    if layout.time_grid.frozen and reads_time(problem.system, problem.y0, problem.args):
        refuse_stages_beyond(solver)
    return solver, dt, layout


def shortened_layout(formulation: AbstractFormulation, ts: np.ndarray, dt: float, whole: TimeGrid) -> Layout:
    """Layout of the beginning of a record, with the steps of the whole record if they are frozen.

    **Arguments:**

    - `formulation`: the cut of the record.
    - `ts`: the observation times of the beginning.
    - `dt`: the largest step, for constant steps.
    - `whole`: the time grid of the whole record.
    """
    # of frozen steps only the intervals count
    layout = formulation.layout(ts, np.inf if whole.frozen else dt)
    if not whole.frozen:
        return layout
    return Layout(cropped_like(whole, layout.time_grid), layout.index, layout.counts, layout.nodes)
