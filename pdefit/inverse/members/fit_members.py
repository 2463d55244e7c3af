"""Fits of many members in one program."""

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from pdefit._util.errors import PdefitError
from pdefit._util.run_state import RunState
from pdefit.inverse.controls.bound_control import FEW
from pdefit.inverse.fit.choose_stages import choose_stages
from pdefit.inverse.fit.refused_combinations import Choices, refuse
from pdefit.inverse.fit.stages import Stage
from pdefit.inverse.members import _batch
from pdefit.inverse.members._member_run import MemberRun
from pdefit.inverse.members.draw_starts import Starts
from pdefit.inverse.members.member_state import MemberProgress
from pdefit.inverse.members.members import Members
from pdefit.inverse.members.result import MemberFits
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.objective.recordings import Recordings
from pdefit.inverse.optimizers.base import AbstractOptimizer

# members that run together by default: more hardly run faster
AT_ONCE = 128


def fit_members(
    members: Members,
    stages: Sequence[Stage | AbstractOptimizer] | None = None,
    *,
    at_once: int = AT_ONCE,
    devices: Sequence[Any] = (),
    callback: Callable[[MemberProgress], None] | None = None,
    resume: RunState | None = None,
) -> MemberFits:
    """Fits of many members, stage by stage, with many members in one program.

    Each member has its own damping, acceptance and convergence. A finished member is replaced by the next, so that slow
    ones do not delay all. A member whose model blows up at its start is left out.

    Each member has its own steps, renewed as in a single fit: adaptive steps, and constant steps that were left open.
    All are padded to the member with the most steps. The number of stages for a given step is fixed.

    **Arguments:**

    - `members`: the objectives and their starts.
    - `stages`: optimizers or stages as in `pdefit.fit`, without stopping rules and without reweighting; by default the
      stages that `choose_stages` chooses for the first member.
    - `at_once`: the largest number of members that run together; default 128. Fewer need less memory.
    - `devices`: devices that share the members; by default one. After `jax.distributed.initialize()` they may belong to
      several processes: each process makes the same call and gets all results.
    - `callback`: a function called after every few evaluations.
    - `resume`: a state that a callback saved in an earlier call with the same arguments. The fits continue from it, bit
      for bit.

    **Errors:** PdefitError if a stage is not supported for members.
    """
    run = MemberRun(members, plan_of(members, stages), max(1, at_once), tuple(devices), callback)
    if resume is not None:
        run.restore(resume)
    run.minimise()
    return outcome(run)


def fit_members_again(
    members: Members,
    found: MemberFits,
    which: Sequence[int] | Int[np.ndarray, " k"],
    starts: Starts | None = None,
    stages: Sequence[Stage | AbstractOptimizer] | None = None,
    *,
    seed: int = 0,
    at_once: int = AT_ONCE,
    devices: Sequence[Any] = (),
    callback: Callable[[MemberProgress], None] | None = None,
    resume: RunState | None = None,
) -> MemberFits:
    """Fits of many members with further starts for some; each keeps its best result.

    For a few of many fits that ended in no minimum, or in a wrong one. If all did, use better stages instead.

    **Arguments:**

    - `members`, `found`: the members and their fits so far.
    - `which`: the indices of the members to fit again.
    - `starts`: the starts; default `Starts()`. All are fitted to the end. The first start, which is the guess, is left
      out.
    - `seed`: the seed of the starts.
    - `stages`, `at_once`, `devices`, `callback`, `resume`: as in `fit_members`.
    """
    starts, which = starts or Starts(), np.asarray(which, int)
    each = starts.count - 1
    if not which.size or not each:
        return found
    points = [starts.points(members.member(int(e)), seed)[1:] for e in which]
    many = members.take(np.repeat(which, each)).starting_at(jnp.concatenate(points))
    again = fit_members(many, stages, at_once=at_once, devices=devices, callback=callback, resume=resume)
    return found.improved(which, again)


def plan_of(members: Members, stages: Sequence[Stage | AbstractOptimizer] | None) -> list[Stage]:
    """The stages of many fits; unsupported stages are refused.

    **Arguments:** as in `fit_members`.
    """
    plan = stages_of(members.member(0), stages)
    refuse(Choices.of(members.member(0), plan, "members"))
    if members.controls.roughness:
        raise PdefitError(
            "Many fits in one program expect fields without modes and with stated amplitudes; remove modes and give "
            "smoothing a number for its amplitude auto, or fit one by one"
        )
    return plan


def stages_of(functional: AbstractObjective, stages: Sequence[Stage | AbstractOptimizer] | None) -> list[Stage]:
    """The given stages of a fit, or stages chosen for a functional. Only a single fit may have some kinds of stages."""
    chosen = choose_stages(functional.parts(functional.theta0)[0][0]).stages if stages is None else stages
    if not chosen:
        raise PdefitError("A fit expects at least one stage, e.g. stages=levenberg_marquardt")
    plan = [s if isinstance(s, Stage) else Stage(s) for s in chosen]
    refuse(Choices.of(functional, plan, "starts"))
    return plan


def outcome(run: MemberRun) -> MemberFits:
    """The fits at the end of a run, with their normal equations if the unknowns are few."""
    # of many recordings the matrix of all unknowns, not only of those that they share
    controls = run.members.controls
    unknowns = controls if isinstance(run.members.first, Recordings) else controls.shared
    few = unknowns.size <= FEW and run.members.first.runner.adjoint.has_tangents
    values, gradient, matrix = run.evaluated(_batch.equations if few else _batch.gradients)
    return MemberFits(
        members=run.members,
        theta=run.now.theta,
        loss=np.where(np.isfinite(values), values, np.inf),
        converged=run.now.converged,
        evaluations=run.now.evaluations,
        gradient=gradient,
        matrix=matrix if few else None,
        start=np.zeros(values.size, int),
    )
