"""Scores of a fit's forecast, through its instrument."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from pdefit._util.trees import named_fields
from pdefit.analysis.forecast.baselines import baselines
from pdefit.analysis.forecast.skill import Skill, skill
from pdefit.data.observations import Observations
from pdefit.inverse.fit.predict import observe
from pdefit.inverse.fit.result import Fit
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.problem.axes import observed_axes
from pdefit.inverse.problem.problem import Problem
from pdefit.systems.capabilities import AbstractBaseline
from pdefit.systems.coordinates import FieldCoords


def score(
    fit: Fit[Functional],
    record: Observations,
    fitted: int,
    ahead: Sequence[dict[str, np.ndarray]],
    last: PyTree,
    truth: tuple[Problem, PyTree] | None = None,
) -> Skill:
    """Scores of a forecast against data or the truth of a twin, and against baselines.

    **Arguments:**

    - `fit`: the fit of one recording.
    - `record`: the whole record, of which `fitted` times are fitted.
    - `ahead`: the predictions at the later times.
    - `last`: the state at the last fitted time.
    - `truth`: the true problem and its states at all times of the record, (T, ...); by default the data are the truth.
    """
    problem, later = fit.problem, range(fitted, record.ts.size)
    coords, t0 = observed_axes(fit.functional.problem, fit.functional.observations), float(record.ts[fitted - 1])

    def seen(by: Problem, states: Sequence[PyTree]) -> dict[str, np.ndarray]:
        frames = [observe(by, record, i, y) for i, y in zip(later, states, strict=True)]
        return {name: np.stack([frame[name] for frame in frames]) for name in coords}

    known = baselines(record, fitted, seen(problem, [last] * len(later)))
    if isinstance(problem.system, AbstractBaseline):
        whole = problem.system.baseline(t0, last, record.ts[fitted:])
        tree, fields = jax.tree.structure(last), [whole[n] for n in named_fields(last)]
        states = [jax.tree.unflatten(tree, [jnp.asarray(x[k]) for x in fields]) for k in range(len(later))]
        known = {problem.system.baseline_name: seen(problem, states)} | known
    if truth is not None:
        true = seen(truth[0], [jax.tree.map(lambda x, i=i: jnp.asarray(x[i]), truth[1]) for i in later])
        sigma = None
    else:
        true = {n: np.where(record.mask[n][fitted:], record.values[n][fitted:], np.nan) for n in coords}
        sigma = {n: np.broadcast_to(record.sigma[n], record.values[n].shape)[fitted:] for n in coords}
    labels = next(iter(coords.values())).labels
    spread = next((n for n, where in coords.items() if is_spread(where)), None)
    forecast = {n: np.stack([frame[n] for frame in ahead]) for n in coords}
    return skill(record.ts[fitted:], t0, forecast, known, true, sigma=sigma, labels=labels, spread=spread)


def is_spread(where: FieldCoords) -> bool:
    """True if a variable lies on a grid: along an axis with positions, not labels or indices."""
    return any(np.asarray(values).dtype.kind == "f" for values in where.coords.values())
