"""Growth of the adjoint on its way back: a step that is stable forward can explode backward."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

# beyond this growth the gradient is dominated by what was amplified, whatever the cause
EXPLOSIVE = 1e6


@jax.custom_vjp
def with_adjoint_norm(tree: PyTree, probe: Float[Array, ""]) -> PyTree:
    """The tree itself, in a form whose reverse pass reports the norm of the adjoint.

    **Arguments:**

    - `tree`: what the adjoint belongs to.
    - `probe`: a zero. Its derivative is the norm of the cotangent that passes here, which is no derivative at all.
    """
    return tree


def _forward(tree: PyTree, probe: Array) -> tuple[PyTree, None]:
    return tree, None


def _backward(_: None, cotangent: PyTree) -> tuple[PyTree, Array]:
    inexact = [c for c in jax.tree.leaves(cotangent) if jnp.issubdtype(c.dtype, jnp.inexact)]
    squares = [jnp.sum(jnp.square(c), dtype=jnp.float64) for c in inexact]
    return cotangent, jnp.sqrt(sum(squares, start=jnp.zeros((), jnp.float64)))


with_adjoint_norm.defvjp(_forward, _backward)


def growth(norms: Float[Array, "*S E 2"]) -> Float[Array, ""]:
    """The largest growth of the adjoint over a trajectory, or several.

    It is the ratio of the adjoint's norm at an observation to the sum of the norms that entered it before: from later
    observations, and at the end of the trajectory. It is at most one where perturbations decay, and exp(lambda T) where
    they grow. It is infinite where a norm is not finite.

    **Arguments:**

    - `norms`: for each interval, and the end, the norm of the adjoint and of what its observation adds.
    """
    adjoint, added = norms[..., 0], norms[..., 1]
    put_in = jnp.cumsum(added[..., ::-1], axis=-1)[..., ::-1]
    tiny = np.finfo(np.float64).tiny
    ratio = jnp.max(jnp.where(put_in > 0, adjoint / jnp.maximum(put_in, tiny), 0.0), initial=0.0)
    return jnp.where(jnp.all(jnp.isfinite(norms)), ratio, jnp.inf)
