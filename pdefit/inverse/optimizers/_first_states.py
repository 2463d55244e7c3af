"""First states of collocation: smoothed data, and a model driven by them where nothing is observed."""

from typing import TYPE_CHECKING

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from pdefit._util.trees import named_fields
from pdefit.inverse.optimizers._hermite_simpson import CollocationResiduals
from pdefit.inverse.problem.observed_fields import observed_fields

if TYPE_CHECKING:
    from pdefit.inverse.objective.functional import Functional

# an element of a state counts as observed where it has so many values
_VALUES = 4
# steps of the driven model between two times, at most
_SUBSTEPS = 64


def mesh(ts: np.ndarray, pieces: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Times with each interval cut into equal pieces, the last observation at each, and whether it was made then."""
    inside = np.arange(pieces) / pieces
    times = np.append((ts[:-1, None] + np.diff(ts)[:, None] * inside).ravel(), ts[-1])
    return times, np.arange(times.size) // pieces, np.arange(times.size) % pieces == 0


def smoothed_data(functional: "Functional", times: np.ndarray) -> np.ndarray:
    """The observed elements of the state at some times, smoothed; NaN for others, (M, n)."""
    record = functional.observations.at(np.asarray(functional.layout.index)[0])
    ts, columns, measured = record.ts, [], observed_fields(functional.problem, record)
    for name, like in named_fields(functional.problem.y0).items():
        shape, values = np.shape(like), measured.values.get(name)
        if values is None or values.shape[1:] != shape or name in measured.positions:
            columns.append(np.full((times.size, int(np.prod(shape))), np.nan))
            continue
        y, mask = (np.asarray(v, float).reshape(ts.size, -1) for v in (values, measured.mask[name]))
        columns.append(_smoothed(ts, y, mask > 0, times))
    return np.concatenate(columns, axis=1)


def _smoothed(ts: np.ndarray, y: np.ndarray, mask: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Series side by side, their gaps filled, smoothed by second differences and taken at other times.

    The weight of the differences is that of the smallest generalised cross-validation, for each series by itself.
    """
    seen = mask.sum(axis=0) >= _VALUES
    filled = np.stack([np.interp(ts, ts[m], v[m]) if s else np.zeros(ts.size) for v, m, s in zip(y.T, mask.T, seen, strict=True)], axis=1)
    slopes = np.diff(np.eye(ts.size), axis=0) / np.diff(ts)[:, None] * np.mean(np.diff(ts))
    eigenvalues, modes = np.linalg.eigh(np.diff(slopes, axis=0).T @ np.diff(slopes, axis=0))
    gains = 1 / (1 + np.logspace(-6, 4, 41)[:, None] * np.maximum(eigenvalues, 0.0))
    parts = modes.T @ filled
    scores = np.square(1 - gains) @ np.square(parts) / np.square(1 - gains.mean(axis=1))[:, None]
    smooth = modes @ (gains[np.argmin(scores, axis=0)].T * parts)
    return np.stack([np.interp(times, ts, v) if s else np.full(times.size, np.nan) for v, s in zip(smooth.T, seen, strict=True)], axis=1)


@eqx.filter_jit
def driven(
    residuals: CollocationResiduals, theta: Float[Array, " k"], known: Float[Array, "M n"], steps: int
) -> Float[Array, "M n"]:
    """States of which the unknown elements, NaN in `known`, follow the equations that the known ones drive.

    They stay at their guess where the model blows up.

    **Arguments:**

    - `residuals`, `theta`: the equations and the start.
    - `known`: the known elements at the times of `residuals`.
    - `steps`: the number of Runge-Kutta steps between two times.
    """
    seen, start, times = jnp.isfinite(known[0]), residuals.start(theta), jnp.asarray(residuals.times)

    def between(y: Array, ends: tuple[Array, Array, Array, Array]) -> tuple[Array, Array]:
        t, width, first, last = ends

        def rate(part: Array, y: Array) -> Array:
            driven_state = jnp.where(seen, first + part * (last - first), y)
            return width * residuals.rate(theta, driven_state, t + part * width)

        def step(i: Array, y: Array) -> Array:
            h, part = 1 / steps, i / steps
            k1 = rate(part, y)
            k2 = rate(part + h / 2, y + h / 2 * k1)
            k3 = rate(part + h / 2, y + h / 2 * k2)
            return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + rate(part + h, y + h * k3))

        y = jnp.where(seen, last, lax.fori_loop(0, steps, step, y))
        return y, y

    first = jnp.where(seen, known[0], start)
    _, states = lax.scan(between, first, (times[:-1], jnp.diff(times), known[:-1], known[1:]))
    states = jnp.concatenate([first[None], states])
    return jnp.where(jnp.all(jnp.isfinite(states), axis=0), states, start)


def substeps(longest: float, dt: float) -> int:
    """The number of steps of the driven model in the longest interval, about as long as those of a fit."""
    return int(np.clip(np.ceil(longest / dt), 1, _SUBSTEPS))
