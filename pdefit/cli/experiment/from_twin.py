"""Observations of a twin, made by a truth of their own."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from pdefit._util.block_mean import block_mean
from pdefit._util.trees import cast
from pdefit.cli.config.settings import Settings, TwinSettings
from pdefit.cli.experiment.choices import choose_numerics, suitable_solver
from pdefit.cli.experiment.frame_times import fitted_frames, frame_times
from pdefit.cli.experiment.initial_state import initial_state
from pdefit.cli.experiment.made import Made, Numerics
from pdefit.cli.experiment.trial import check_memory, try_observe, try_step
from pdefit.data.observations import Observations
from pdefit.integrate.loop.stable_step import MARGIN, choose_steps, stability_limit
from pdefit.inverse.controls.bind import bind
from pdefit.inverse.problem.problem import Problem
from pdefit.inverse.problem.twin import Twin
from pdefit.inverse.shooting.formulation import Single
from pdefit.inverse.shooting.frozen_steps import frozen_steps
from pdefit.systems.system import AbstractSystem


def from_twin(settings: Settings, given: TwinSettings) -> Made:
    """Observations that a truth makes. A twin of the model itself (`self`) takes the model's step, whoever chooses it."""
    system = settings.system.build()
    truth = settings.system.changed(given.system).refined(given.refine).build()
    args, ts = settings.args, frame_times(settings.times)
    fine, prepared = initial_state(settings.initial, settings.seed, truth, None)
    span = float(ts[-1] - ts[0])
    # a truth runs with constant steps
    solver = given.solver or suitable_solver(truth, fine, span, args)
    twin = Twin(truth, solver, given.dt, given.refine, given.noise, given.seed)
    try_step(truth, fine, solver, "twin.solver", args)
    check_memory(ts.size, fine)
    try_observe(lambda y: settings.observe(twin.averaged(y)), fine)
    # node states have no true values in a problem: they belong to windows
    paths = tuple(root for root in (name.split(".")[0] for name in settings.controls) if root != "nodes")
    start = jax.tree.map(lambda x: jnp.asarray(np.asarray(x)), eqx.filter_jit(twin.averaged)(fine))
    problem = Problem(_with_truth(system, truth, paths), start, settings.observe, args=args)
    numerics, chosen, step = None, None, given.dt
    if step is None and settings.dt is not None:
        limit = stability_limit(truth, fine, solver)
        step = settings.dt / 2 if limit is None else min(settings.dt / 2, 0.8 * limit)
    elif step is None and given.variant == "self":
        numerics, chosen, step = _model_step(settings, problem, ts)
    twin = dataclasses.replace(twin, dt=step)
    record, states = twin.record(fine, ts, settings.observe, args)
    return Made(
        problem,
        record,
        paths,
        states,
        f"twin ({given.variant})",
        prepared=prepared,
        noiseless=given.noise == 0,
        numerics=numerics,
        dt=chosen,
    )


def _model_step(settings: Settings, problem: Problem, ts: np.ndarray) -> tuple[Numerics, float | None, float]:
    """The step that a fit would choose, before there are any data: its numerics; its constant step, if it has one; and the
    truth's. It depends on the guesses, which are drawn from the controls and the seed."""
    problem = cast(problem, settings.dtype)
    ts = ts[: fitted_frames(settings.times, ts)]
    numerics = choose_numerics(settings, problem, float(ts[-1] - ts[0]))
    guess = _at_guess(settings, problem, ts[:1])
    if numerics.steps is not None:
        # of adaptive steps, which keep their tolerance, a twin takes the smallest
        layout, starts = Single().layout(ts, np.inf), Single().starts(guess.y0, None)
        plan = frozen_steps(guess.system, starts, ts, layout, numerics.solver, numerics.steps, guess.args)
        return numerics, None, plan.smallest
    dt = choose_steps([(guess.system, guess.y0)], None, numerics.solver, MARGIN)[1]
    # the truth may ask for smaller steps than the guess
    dt = min(dt, choose_steps([(problem.system, problem.y0)], None, numerics.solver)[1])
    return numerics, dt, dt


def _at_guess(settings: Settings, problem: Problem, ts: np.ndarray) -> Problem:
    """The problem at the guesses of its controls; those from data are what is seen of the true initial state."""
    # no step depends on node states
    declared = {name: control for name, control in settings.controls.items() if name.split(".")[0] != "nodes"}
    if not declared:
        return problem
    seen = {name: np.asarray(x)[None] for name, x in problem.observe(problem.y0).items()}
    return bind(problem, declared, jax.random.key(settings.seed), Observations.build(ts, seen))[1]


def _with_truth(system: AbstractSystem, truth: AbstractSystem, paths: tuple[str, ...]) -> AbstractSystem:
    """The model's system at the true values of its controls (the guesses replace them later)."""
    names = {f.name for f in dataclasses.fields(system)}
    true = {p: _averaged(getattr(truth, p), getattr(system, p)) for p in paths if p in names}
    return dataclasses.replace(system, **true)


def _averaged(fine: Any, coarse: Any) -> Any:
    """A parameter that is a field on a refined grid, averaged to the shape it has on the model's; others as they are."""
    if not eqx.is_array(fine) or not eqx.is_array(coarse) or fine.shape == coarse.shape or fine.ndim != coarse.ndim:
        return fine
    if any(f % c for f, c in zip(fine.shape, coarse.shape, strict=True)):
        return fine
    return block_mean(fine, [f // c for f, c in zip(fine.shape, coarse.shape, strict=True)])
