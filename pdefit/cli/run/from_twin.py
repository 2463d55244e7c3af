"""Observations of a twin, from a true system with its own numerics; its film is integrated once and cached."""

import dataclasses
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from pdefit._util.block_mean import block_mean
from pdefit._util.cached_tree import cached_tree, origin
from pdefit._util.trees import cast
from pdefit.cli.config.settings import Settings
from pdefit.cli.config.sources import TwinSettings
from pdefit.cli.run.initial_state import following, initial_state
from pdefit.cli.run.open_settings import choose_method, suitable_solver
from pdefit.cli.run.source import Source, fitted_frames, frame_times
from pdefit.cli.run.trial import check_memory, try_observe, try_step
from pdefit.cli.runtime.console import Console
from pdefit.cli.runtime.terminal import warn
from pdefit.data.observations import Observations
from pdefit.integrate.loop.stable_step import MARGIN, choose_steps, stability_limit
from pdefit.inverse.controls.bind import bind
from pdefit.inverse.controls.paths import PARTS
from pdefit.inverse.fit.choose_solver import SolverChoice
from pdefit.inverse.problem.problem import Problem
from pdefit.inverse.problem.twin import Twin
from pdefit.inverse.shooting.formulation import Single
from pdefit.inverse.shooting.trajectories import frozen_steps
from pdefit.systems.events import Events
from pdefit.systems.system import AbstractSystem
from pdefit.systems.terms.base import AbstractTerm


def from_twin(settings: Settings, given: TwinSettings) -> Source:
    """Observations made by a true system. `twin=self` takes the step of the model."""
    system = settings.system.build()
    # what is unknown to the model is in the equations of the truth, unless it is given other terms
    truth = settings.system.changed({"unknown": None, **given.system}).refined(given.refine).build()
    args, ts = settings.args, frame_times(settings.times)
    fine, prepared, moved = initial_state(settings.initial, settings.seed, truth, None, args)
    span = float(ts[-1] - ts[0])
    # constant steps unless others are given, whatever the model has
    solver = given.solver or suitable_solver(truth, fine, span, args)
    events = Events.along(settings.events, ts)
    twin = Twin(truth, solver, given.dt, given.refine, given.noise, given.seed, given.steps, events)
    try_step(truth, fine, solver, "twin.solver", args)
    check_memory(ts.size, fine)
    observe = settings.observe.on(system).with_system(system)
    try_observe(lambda t, y, args: observe(t, twin.averaged(y), args), ts[0], fine, args)
    # node states have no true values in a problem: they belong to windows
    roots = (name.split(".")[0] for name in settings.controls)
    paths = tuple(
        root
        for root in roots
        if root in PARTS and root != "nodes" or hasattr(truth, root) and _alike(system, truth, root)
    )
    start = jax.tree.map(lambda x: jnp.asarray(np.asarray(x)), eqx.filter_jit(twin.averaged)(fine))
    problem = Problem(_with_truth(system, truth, paths, given.refine), start, observe, args=args, events=events)
    problem, still = following(settings, problem)
    method, chosen, step = None, None, given.dt
    if given.steps is not None:
        given.steps.refuse_dt(step)
    elif step is None and settings.dt is not None:
        limit = stability_limit(truth, fine, solver)
        step = settings.dt / 2 if limit is None else min(settings.dt / 2, 0.8 * limit)
    elif step is None and given.variant == "self":
        method, chosen, step = _model_step(settings, problem, ts)
    twin = dataclasses.replace(twin, dt=step)
    states = kept_film(twin, fine, ts, args)
    record = twin.observed(states, ts, problem.instrument, args)
    return Source(
        problem,
        record,
        paths,
        states,
        f"twin ({given.variant})",
        prepared=prepared,
        remarks=(*moved, *still),
        noiseless=given.noise == 0,
        sigma_exact=given.noise > 0,
        same_cells=given.refine == 1,
        method=method,
        dt=chosen,
    )


def _model_step(settings: Settings, problem: Problem, ts: np.ndarray) -> tuple[SolverChoice, float | None, float]:
    """The method that a fit would choose, before there are data to fit.

    Returns the method, its constant step (None for adaptive ones), and the step of the truth. They depend on the
    guesses, which are drawn from the controls and the seed.
    """
    problem = cast(problem, settings.dtype)
    ts = ts[: fitted_frames(settings.times, ts)]
    method = choose_method(settings, problem, float(ts[-1] - ts[0]))
    guess = _at_guess(settings, problem, ts[:1])
    if method.steps is not None:
        # the truth has constant steps: the smallest of the adaptive ones keeps their tolerance everywhere
        layout, starts = Single().layout(ts, np.inf), Single().starts(guess.y0, None)
        plan = frozen_steps(guess, starts, ts, layout, method.solver, method.steps)
        return method, None, plan.smallest
    dt = choose_steps([(guess.system, guess.y0)], None, method.solver, MARGIN, guess.args)[1]
    # the true parameters may need smaller steps than the guess
    dt = min(dt, choose_steps([(problem.system, problem.y0)], None, method.solver, args=problem.args)[1])
    return method, dt, dt


def _at_guess(settings: Settings, problem: Problem, ts: np.ndarray) -> Problem:
    """The problem at the guesses of its controls.

    Guesses from data use the observations of the true initial state.
    """
    # without node states, on which no step depends
    declared = {name: control for name, control in settings.controls.items() if name.split(".")[0] != "nodes"}
    if not declared:
        return problem
    observed = problem.instrument(jnp.asarray(ts[0]), problem.y0, problem.args)
    seen = {name: np.asarray(x)[None] for name, x in observed.items()}
    return bind(
        problem, declared, jax.random.key(settings.seed), problem.observe.located(Observations.build(ts, seen))
    )[1]


def _alike(system: AbstractSystem, truth: AbstractSystem, name: str) -> bool:
    """True if a parameter has the same form in model and truth; terms may have different forms."""
    one, two = (getattr(s, name, None) for s in (system, truth))
    return not isinstance(one, AbstractTerm) or jax.tree.structure(one) == jax.tree.structure(two)


def _with_truth(
    system: AbstractSystem, truth: AbstractSystem, paths: tuple[str, ...], refine: int | float
) -> AbstractSystem:
    """The model system at the true values of its controls; the guesses replace them later."""
    names = {f.name for f in dataclasses.fields(system)}
    true = {p: _averaged(getattr(truth, p), getattr(system, p), refine) for p in paths if p in names}
    return dataclasses.replace(system, **true)


def _averaged(fine: Any, coarse: Any, refine: int | float) -> Any:
    """A parameter field on a finer grid, averaged to its shape in the model; other parameters are unchanged."""
    if not eqx.is_array(fine) or not eqx.is_array(coarse) or fine.shape == coarse.shape or fine.ndim != coarse.ndim:
        return fine
    if any(f % c and f != round(refine * c) for f, c in zip(fine.shape, coarse.shape, strict=True)):
        return fine
    return block_mean(fine, [f / c for f, c in zip(fine.shape, coarse.shape, strict=True)])


def kept_film(twin: Twin, y0: PyTree, ts: np.ndarray, args: PyTree) -> PyTree:
    """True states of a twin at all times, from the cache if they exist there.

    **Arguments:** as in `Twin.film`.
    """
    made_of = origin(f"{twin.steps or twin.dt} {twin.refine}", twin.system, twin.solver, y0, ts, args, twin.events)
    name, tell = type(twin.system).__name__, partial(warn, Console())
    return cached_tree("films", name, made_of, y0, lambda: twin.film(y0, ts, args), tell)[0]
