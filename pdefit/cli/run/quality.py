"""Quality of a fit: chi2, whiteness, held-out frames, the verdict, and residuals over time."""

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np
from rich.console import Console

from pdefit.analysis.goodness.holdout import heldout_score
from pdefit.analysis.goodness.quality import judge
from pdefit.analysis.goodness.verdict import FITTED, Evidence, Quality, Verdict, decide, distrust
from pdefit.cli.run.discretisation import Discretisation
from pdefit.cli.run.experiment import Experiment
from pdefit.cli.runtime.terminal import say
from pdefit.inverse.fit.result import Fit
from pdefit.inverse.objective.compiled import VALUE
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.objective.smooth_tangents import inexact_bias
from pdefit.inverse.uncertainty.intervals import Intervals
from pdefit.systems.fields import field_coords

# an estimated sigma with a larger relative standard error is not taken for known
_KNOWN_TO = 0.1


def fit_quality(exp: Experiment, found: Fit, moved: Discretisation) -> tuple[list[dict[str, Any]], Verdict]:
    """The section `fit` of summary.json for each recording, and the verdict on all.

    Priors and regularizers do not count in chi2.

    **Arguments:**

    - `exp`, `found`: the experiment and its fit.
    - `moved`: shifts of the estimate with finer steps and cells.
    """
    judged = {n: _judged(o, f) for (n, o), f in zip(exp.each.items(), found.recordings, strict=True)}
    numbers = any(not (c.is_field or c.is_node) for c in found.functional.controls.items)
    evidence = Evidence(
        {name: quality for name, (_, quality) in judged.items()},
        shift=str(moved) if moved.decides else "",
        doubt=distrust(FITTED, exp.source.noiseless) if numbers else "",
    )
    return [section for section, _ in judged.values()], decide(evidence)


def _judged(exp: Experiment, found: Fit) -> tuple[dict[str, Any], Quality]:
    """The section `fit` of one recording, and its quality."""
    window = exp.source.record.at(slice(0, exp.fitted))
    held = heldout_score(found.functional, found.theta, window, exp.held) if exp.held.size else None
    known = _sigma_known(exp, tuple(found.functional.observed))
    quality = judge(found, sigma_known=known, heldout=held)
    white = quality.whiteness
    section = {
        "chi2": quality.chi2,
        "values": quality.values,
        "chi2_per_value": quality.chi2_per_value,
        "whiteness": None
        if white is None
        else {name: {axis: dataclasses.asdict(c) for axis, c in axes.items()} for name, axes in white.items()},
        "heldout": None if held is None else {"chi2_per_value": held[0], "values": held[1], "frames": exp.held.size},
    }
    return section, quality


def _sigma_known(exp: Experiment, observed: tuple[str, ...]) -> bool:
    """Whether sigma was stated, or well estimated, before the fit.

    A sigma made from residuals makes chi2 about 1, which proves nothing.
    """
    unidentifiable = [name for name, n in exp.source.noise.items() if n.error > _KNOWN_TO]
    return not exp.reweighted and not any(name in (*exp.source.unstated, *unidentifiable) for name in observed)


def residual_series(functional: Functional, residuals: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Root mean square of the weighted residuals at every observation time (T,), for each variable.

    A variable whose first axis has labels (bodies) gives one series for each label. NaN where nothing was fitted.
    """
    layout = functional.layout
    coords = field_coords(functional.problem.system, functional.problem.y0)
    series: dict[str, np.ndarray] = {}
    value: Any
    for name, weighted in residuals.items():
        value = np.full((functional.observations.ts.size, *weighted.shape[2:]), np.nan)
        fitted = np.asarray(functional.fitted(name))[layout.counts]
        value[layout.index[layout.counts]] = np.where(fitted, np.square(weighted)[layout.counts], np.nan)
        axis = coords[name] if name in coords else None
        labels = axis.coords[axis.dims[0]] if axis and axis.dims else np.zeros(0)
        if labels.dtype.kind in "US" and value.ndim > 1 and labels.size == value.shape[1]:
            for k, label in enumerate(labels):
                series[str(label)] = _rms(value[:, k])
        else:
            series[name] = _rms(value)
    return series


def _rms(squares: np.ndarray) -> np.ndarray:
    flat = squares.reshape(squares.shape[0], -1)
    seen = np.isfinite(flat)
    return np.sqrt(np.where(seen, flat, 0).sum(axis=1) / np.where(seen.any(axis=1), seen.sum(axis=1), np.nan))


def switch_bias(found: Fit, known: Intervals | None, console: Console) -> dict[str, Any] | None:
    """Distance of the estimate from the minimum, in search space and in standard errors, for summary.json.

    None where tangents are exact, and where J is too rough for differences to show the distance.

    **Arguments:**

    - `found`: the fit.
    - `known`: its intervals; None without any.
    """
    functional = found.functional
    if not found.recordings[0].functional.smooth_tangents:
        return None
    bias, names = inexact_bias(functional, jnp.asarray(found.theta)), functional.controls.names()
    error = np.full(bias.size, np.nan)
    theta = jnp.asarray(found.theta)
    if not float(VALUE(functional, theta + jnp.asarray(bias))) < found.loss:
        line = (
            "smooth tangents of hard switches: the distance to the minimum is unknown, because J is too rough at that scale "
            "(thresholds are crossed somewhere within a step); set a smaller dt"
        )
        say(console, line)
        return None
    if known is not None:
        bias, error = known.at_points(bias), known.error
    k = int(np.argmax(np.abs(bias)))
    line = (
        f"smooth tangents of hard switches: by differences the minimum lies at most {abs(bias[k]):.1e} away in search space "
        f"({names[k]}), {abs(bias[k]) / error[k]:.2g} standard errors"
    )
    say(console, line)
    return {n: {"bias": float(b), "standard_error": float(e)} for n, b, e in zip(names, bias, error, strict=True)}
