"""Rows of estimates for tables and summaries."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from pdefit.cli.experiment.experiment import Experiment
from pdefit.cli.runs.discretisation_check import DECIDES
from pdefit.inverse.controls.vector import BoundControl
from pdefit.inverse.fit.fit import Fit
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.uncertainty.intervals import Intervals
from pdefit.output.store.tables import ParameterRow


def true_theta(exp: Experiment, functional: AbstractObjective) -> np.ndarray:
    """theta (p,) at the truth; NaN where it is unknown."""
    parts = []
    for control in functional.controls.items:
        truth = exp.true_value(control)
        known = truth is not None
        parts.append(np.asarray(control.to_theta(jnp.asarray(truth))) if known else np.full(control.size, np.nan))
    return np.concatenate(parts)


def parameter_rows(
    exp: Experiment, found: Fit, intervals: Intervals | None, shift: np.ndarray, trusted: bool
) -> list[ParameterRow]:
    """One row for each element of every control, except fields and node states.

    **Arguments:**

    - `exp`, `found`: the experiment and its fit.
    - `intervals`: None where there are none.
    - `shift` (p,): shift of the estimate by finer steps or cells, in half widths of the intervals.
    - `trusted`: whether intervals are trusted where no shift is too large.
    """
    functional = found.functional
    theta, truth = np.asarray(found.theta), true_theta(exp, functional)
    guess = np.asarray(exp.functional.theta0)[: theta.size]
    lower, upper = functional.controls.box()
    score = intervals.z_score(theta, truth) if intervals else np.full_like(theta, np.nan)
    names, rows, first = functional.controls.names(), [], 0
    for control in functional.controls.items:
        span = slice(first, first + control.size)
        first += control.size
        if control.is_field or control.is_node:
            continue
        physical = [_physical(control, x[span]) for x in (guess, theta, truth)]
        for k, i in enumerate(range(span.start, span.stop)):
            estimate, true = float(physical[1][k]), _known(physical[2][k])
            rows.append(
                ParameterRow(
                    control=names[i],
                    unit=control.unit,
                    scale=type(control.transform).__name__.lower(),
                    guess=float(physical[0][k]),
                    estimate=estimate,
                    truth=true,
                    relative_error=estimate / true - 1 if true else None,
                    ci95_low=_known(intervals.low[i]) if intervals else None,
                    ci95_high=_known(intervals.high[i]) if intervals else None,
                    z_score=_known(score[i]),
                    at_bound=bool(theta[i] <= lower[i] or theta[i] >= upper[i]),
                    discretisation_shift=_known(shift[i]),
                    interval_trusted=None if intervals is None else trusted and not abs(shift[i]) > DECIDES,
                )
            )
    return rows


def field_errors(exp: Experiment, found: Fit) -> dict[str, dict[str, float]]:
    """Relative L2 errors of controls that are fields, and of their guesses, where the truth is known."""
    out: dict[str, dict[str, float]] = {}
    for control in found.functional.controls.items:
        truth = None if not control.is_field or control.is_node else exp.true_value(control)
        if truth is None:
            continue
        out[control.path] = {
            "relative_l2": _relative(np.asarray(control.where(found.problem)), truth),
            "relative_l2_of_guess": _relative(np.asarray(control.where(exp.functional.problem)), truth),
        }
    return out


def _physical(control: BoundControl, theta: np.ndarray) -> np.ndarray:
    return np.ravel(np.asarray(control.to_physical(jnp.asarray(theta))))


def _relative(x: np.ndarray, truth: np.ndarray) -> float:
    return float(np.linalg.norm(x - truth) / max(np.linalg.norm(truth), np.finfo(float).tiny))


def _known(x: Any) -> float | None:
    return float(x) if np.isfinite(x) else None
