"""Random directions in search space."""

import jax
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from pdefit.inverse.controls.theta import Controls

# the smallest part of its own size by which a control is moved beside weaker ones
_MOST_BELOW = 1e-3


def direction(controls: Controls, theta: Float[Array, " p"], key: PRNGKeyArray) -> Float[Array, " p"]:
    """A random direction in search space that changes every control by about its own size, (p,).

    **Arguments:**

    - `controls`: the controls.
    - `theta`: the point, (p,).
    - `key`: the key of the direction.
    """
    random = np.random.default_rng(np.asarray(jax.random.key_data(key)))
    drawn = (random.standard_normal(control.size) for control in controls.items)
    # a single number may be drawn near zero, and would then hardly move
    v = np.concatenate([x / np.sqrt(np.mean(x**2)) for x in drawn])
    return jax.device_put(v * np.asarray(controls.sizes(theta, v)))


def alike(controls: Controls, v: Float[Array, " p"], squares: np.ndarray) -> Float[Array, " p"]:
    """Direction in which the residuals respond to all controls as much as to the weakest, within a factor 1000.

    **Arguments:**

    - `controls`: the controls.
    - `v`: the original direction, (p,); every control keeps at most its component.
    - `squares`: the squares of the residuals' derivatives in every element of theta, (p,).
    """
    masks = [np.asarray(moved) for moved in controls.elements.values()]
    answers = np.sqrt([float(np.sum(np.asarray(v)[m] ** 2 * squares[m])) for m in masks])
    if not np.all(np.isfinite(answers)) or not np.any(answers > 0):
        return v
    weakest = np.min(answers[answers > 0])
    factors = np.clip(weakest / np.where(answers > 0, answers, weakest), _MOST_BELOW, 1.0)
    return jax.device_put(np.asarray(v) * sum(f * m for f, m in zip(factors, masks, strict=True)))
