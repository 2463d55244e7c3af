"""A fit that continues from the best of many starts, always or only if the fit from the guess ended badly."""

import dataclasses
from collections.abc import Callable, Sequence

from pdefit._util.errors import PdefitError
from pdefit.inverse.fit.result import Fit
from pdefit.inverse.fit.stages import Stage
from pdefit.inverse.members.drop_weak_starts import Exploration
from pdefit.inverse.objective.abstract import AbstractObjective

Fitting = Callable[[AbstractObjective, Sequence[Stage]], Fit]


def from_starts(
    objective: AbstractObjective,
    stages: Sequence[Stage],
    explored: Callable[[], Exploration],
    fitted: Fitting,
    needed: Callable[[Fit], bool] | None = None,
    again: Fitting | None = None,
) -> tuple[Fit, Exploration | None]:
    """The fit from the best of many starts, and their exploration (None if it was not needed).

    **Arguments:**

    - `objective`, `stages`: as in `pdefit.fit`.
    - `explored`: explores the starts, as in `explore`.
    - `fitted`: fits an objective by stages.
    - `needed`: decides whether other starts may improve a fit from the guess; by default starts come first.
    - `again`: fits after such a decision; default `fitted`.

    **Errors:** PdefitError if the model blows up from all starts and there is no fit from the guess.
    """
    if needed is None:
        ends = explored()
        found = fitted(objective.guessing(ends.point), stages)
        return dataclasses.replace(found, explored=str(ends)), ends
    first = fitted(objective, stages)
    if not needed(first):
        return first, None
    try:
        ends = explored()
    # the fit from the guess stays
    except PdefitError as error:
        return dataclasses.replace(first, events=[*first.events, f"no other starts: {error}"]), None
    first = dataclasses.replace(first, explored=str(ends))
    if not ends.loss[ends.best] < first.loss:
        return first, ends
    last = dataclasses.replace(stages[-1], formulation=objective.formulation)
    better = (again or fitted)(objective.guessing(ends.point), [last])
    if not better.loss < first.loss:
        return first, ends
    found = dataclasses.replace(
        better,
        iterations=first.iterations + int(ends.evaluations.sum()) + better.iterations,
        loss_initial=first.loss_initial,
        events=[*first.events, f"starts: {ends}", *better.events],
        explored=str(ends),
    )
    return found, ends
