"""Random directions in search space."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from pdefit.inverse.controls.bound_control import BoundControl
from pdefit.inverse.controls.theta import Controls
from pdefit.inverse.controls.transforms import Identity, Scale

# the smallest part of its own size by which a control is moved beside weaker ones
_MOST_BELOW = 1e-3


def direction(controls: Controls, theta: Float[Array, " p"], key: PRNGKeyArray) -> Float[Array, " p"]:
    """A random direction in search space that changes every control by about its own size, (p,).

    **Arguments:**

    - `controls`: the controls.
    - `theta`: the point, (p,).
    - `key`: the key of the direction.
    """
    parts = []
    for i, (control, part) in enumerate(zip(controls.items, controls.split(theta), strict=True)):
        v = np.asarray(jax.random.normal(jax.random.fold_in(key, i), part.shape))
        # a single number may be drawn near zero, and would then hardly move
        v = v / np.sqrt(np.mean(v**2))
        parts.append(v * _size(control, part, jnp.asarray(v)))
    # numpy, because each operation of JAX on an own shape would be a program
    return jnp.asarray(np.concatenate(parts))


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
    return jnp.asarray(np.asarray(v) * sum(f * m for f, m in zip(factors, masks, strict=True)))


def _size(control: BoundControl, part: Array, v: Array) -> float:
    """Factor that makes v change the physical value by the value's own magnitude."""
    value, change = jax.jvp(control.to_physical, (part,), (v,))
    large, small = (float(np.sqrt(np.mean(np.square(x)))) for x in (value, change))
    factor = large / small if large > 0 and small > 0 else 1.0
    # a saturated transform would ask for huge steps
    return factor if isinstance(control.transform, Identity | Scale) else min(factor, 1.0)
