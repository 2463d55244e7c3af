"""Initial states of collocation, at and between observation times."""

from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pdefit._util.trees import named_fields
from pdefit.inverse.problem.observed_fields import observed_fields

if TYPE_CHECKING:
    from pdefit.inverse.objective.functional import Functional


def mesh(ts: np.ndarray, pieces: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Times with each interval cut into equal pieces, the last observation at each, and whether it is at this time."""
    inside = np.arange(pieces) / pieces
    times = np.append((ts[:-1, None] + np.diff(ts)[:, None] * inside).ravel(), ts[-1])
    numbers = np.arange(times.size)
    return times, numbers // pieces, numbers % pieces == 0


def first_states(functional: "Functional", times: np.ndarray) -> Float[Array, "M n"]:
    """Data interpolated linearly between observations; unobserved elements have the problem's initial state.

    The data are not smoothed, because the rounds of collocation do that by the model: smoothing splines changed
    nothing. Unobserved elements are not integrated with a model driven by the data either: with rates ten times too
    large it diverges.

    **Arguments:**

    - `functional`: the objective of one trajectory.
    - `times`: the times of the states, (M,).
    """
    record = functional.observations.at(np.asarray(functional.layout.index)[0])
    measured, columns = observed_fields(functional.problem, record), []
    for name, like in named_fields(functional.problem.y0).items():
        start, values = np.ravel(np.asarray(like, float)), measured.values.get(name)
        if values is None or values.shape[1:] != np.shape(like) or name in measured.positions:
            columns += [np.full(times.size, value) for value in start]
            continue
        y, mask = (np.asarray(x).reshape(record.ts.size, -1).T for x in (values, measured.mask[name]))
        for series, seen, value in zip(y, mask, start, strict=True):
            known = np.interp(times, record.ts[seen], series[seen]) if seen.any() else np.full(times.size, value)
            columns.append(known)
    return jnp.asarray(np.stack(columns, axis=1))
