"""True values that a configuration states, for tables and z-scores; a fit does not use them."""

from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from pdefit._util.errors import PdefitError, unknown
from pdefit.inverse.controls.paths import leaf
from pdefit.inverse.controls.vector import BoundControl
from pdefit.inverse.problem.problem import Problem


def problem_at(problem: Problem, stated: Mapping[str, Any]) -> Problem:
    """The problem at true values of its controls.

    **Arguments:**

    - `stated`: for each control one number, or as many as it has, in the system's units.
    """
    for path, value in stated.items():
        where = leaf(problem, path)
        shape = where(problem).shape
        try:
            true = np.broadcast_to(np.asarray(value, float), shape)
        except (TypeError, ValueError):
            true = np.asarray(np.nan)
        if isinstance(value, bool) or not np.all(np.isfinite(true)):
            raise PdefitError(f"data.truth.{path} expects a number, or numbers of shape {shape}, but got {value!r}")
        problem = eqx.tree_at(where, problem, jnp.asarray(true, where(problem).dtype))
    return problem


def check_stated(stated: Sequence[str], controls: Sequence[BoundControl], truth: Problem) -> None:
    """Refuse a true value of an array that is not fitted, or one outside the range of its transform.

    **Arguments:**

    - `stated`: paths of the true values.
    - `controls`: of the fit.
    - `truth`: the problem at the true values.
    """
    for path in stated:
        told = [c for c in controls if c.path == path]
        if not told:
            raise unknown("control (data.truth)", path, [c.path for c in controls])
        if not np.all(np.isfinite(np.asarray(told[0].to_theta(told[0].where(truth))))):
            kind = type(told[0].transform).__name__.lower()
            raise PdefitError(
                f"data.truth.{path} lies outside what its transform ({kind}) can reach; correct one of them"
            )


def is_known(path: str, true_paths: Sequence[str]) -> bool:
    """Whether the true value of a control is known: its own, or that of the parameter that it belongs to."""
    return any(path == known or path.startswith(f"{known}.") for known in true_paths)
