"""Distance between estimate and minimum, if Gauss-Newton uses smooth tangents of hard switches."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from rich.console import Console

from pdefit.cli.runtime.terminal import say
from pdefit.inverse.fit.result import Fit
from pdefit.inverse.objective.compiled import value_of
from pdefit.inverse.objective.smooth_tangents import inexact_bias
from pdefit.inverse.uncertainty.intervals import Intervals


def switch_bias(found: Fit, known: Intervals | None, console: Console) -> dict[str, Any] | None:
    """Distance between estimate and minimum, in search space and in standard errors, for summary.json.

    None if tangents are exact, or if J is too rough to measure the distance by differences.

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
    if not float(value_of(functional, theta + jnp.asarray(bias))) < found.loss:
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
