"""Nudging of a problem towards its record."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from pdefit._util.errors import PdefitError
from pdefit._util.trees import named_fields
from pdefit.data.observations import Observations
from pdefit.integrate.loop.nudge import Nudge
from pdefit.integrate.loop.time_loop import precision
from pdefit.inverse.problem.observed_fields import observed_fields
from pdefit.inverse.problem.problem import Problem


def shown_fields(problem: Problem, observations: Observations) -> list[str]:
    """Fields of the state that a record shows on their own grid.

    **Arguments:**

    - `problem`: the problem, with its instrument.
    - `observations`: the record.
    """
    if problem.observe.relocates:
        return []
    values, positions = observations.values, observations.positions
    same = {n for n, x in named_fields(problem.y0).items() if n in values and values[n].shape[1:] == np.shape(x)}
    return [n for n in named_fields(problem.y0) if n in same and n not in positions]


def nudge_of(problem: Problem, observations: Observations, strength: float) -> Nudge:
    """The nudge towards observed fields on their own grid, through the inverse of the operator if it exists.

    **Arguments:**

    - `problem`: the problem, with its instrument at its guess.
    - `observations`: the record.
    - `strength`: the fraction of the difference that is corrected, up to 1.
    """
    fields, shown = named_fields(problem.y0), shown_fields(problem, observations)
    if not shown:
        raise PdefitError(
            f"A nudge expects a field that is observed on its own grid, but none of {', '.join(fields)} is; remove nudge"
        )
    measured = observed_fields(problem, observations)
    values = [jnp.asarray(measured.values[n], x.dtype) if n in shown else None for n, x in fields.items()]
    mask = [jnp.asarray(measured.mask[n]) if n in shown else None for n in fields]
    sigma = [_of_field(problem, n, observations).astype(x.dtype) if n in shown else None for n, x in fields.items()]
    return Nudge(observations.ts, tuple(values), tuple(mask), tuple(sigma), jnp.asarray(strength))


def _of_field(problem: Problem, name: str, observations: Observations) -> Array:
    """Standard deviation of an observed field in its own unit: sigma of the data over the slope of the instrument."""
    t, data = jnp.asarray(observations.ts[0], precision(problem.y0)), observations
    change = named_fields(problem.y0)
    change = jax.tree.unflatten(
        jax.tree.structure(problem.y0), [jnp.full_like(x, n == name) for n, x in change.items()]
    )
    slope = jax.jvp(lambda y: problem.instrument(t, y, problem.args)[name], (problem.y0,), (change,))[1]
    return jnp.broadcast_to(data.sigma[name], (data.sigma[name].shape[0], *slope.shape)) / jnp.abs(slope)[None]
