"""The variance that the prior of an unknown field has at every point, in closed form."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pdefit.inverse.controls.vector import BoundControl


def prior_variance(
    control: BoundControl, part: Float[Array, " size"], weights: Float[np.ndarray, " size"]
) -> Float[np.ndarray, "..."]:
    """The pointwise variance of a control's Gaussian prior, linearised at a point, in the square of its unit.

    Elements without a prior, such as the mean of a field of modes, do not count.

    **Arguments:**

    - `control`: the control.
    - `part`: its part of theta.
    - `weights`: one over the standard deviation of every element of theta; 0 for those without a prior.
    """
    variances = np.where(weights > 0, (control.scale / np.where(weights > 0, weights, 1.0)) ** 2, 0.0)
    if control.modes is not None:
        spread = control.modes.field(jnp.asarray(variances), power=2)
    else:
        # all elements of a Sobolev variable have the same weight
        spread = np.mean(variances) * (1.0 if control.smoothing is None else control.smoothing.variance)
    search = control.transform.to_search(control.to_physical(part))
    slope = jax.jvp(control.transform.to_physical, (search,), (jnp.ones_like(search),))[1]
    return np.asarray(slope**2 * spread)
