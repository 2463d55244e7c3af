"""How strongly the adjoint grows on its way back: a step that is stable forward can explode backward."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

# beyond this the gradient is dominated by what was amplified, whatever the cause
EXPLOSIVE = 1e6


@jax.custom_vjp
def watch(tree: PyTree, probe: Float[Array, ""]) -> PyTree:
    """The tree itself. The derivative in `probe` is the norm of the cotangent that passes here: no derivative at all, but a
    way for the reverse pass to report."""
    return tree


def _forward(tree: PyTree, probe: Array) -> tuple[PyTree, None]:
    return tree, None


def _backward(_: None, cotangent: PyTree) -> tuple[PyTree, Array]:
    inexact = [c for c in jax.tree.leaves(cotangent) if jnp.issubdtype(c.dtype, jnp.inexact)]
    squares = [jnp.sum(jnp.square(c), dtype=jnp.float64) for c in inexact]
    return cotangent, jnp.sqrt(sum(squares, start=jnp.zeros((), jnp.float64)))


watch.defvjp(_forward, _backward)


def growth(norms: Float[Array, "*S E 2"]) -> Float[Array, ""]:
    """The largest ratio of the adjoint's norm at an observation to the norms of all that later observations, and what comes
    in at the end, have put into it: at most one where perturbations decay, exp(lambda T) where they grow. Infinite where
    it is not finite."""
    adjoint, added = norms[..., 0], norms[..., 1]
    put_in = jnp.cumsum(added[..., ::-1], axis=-1)[..., ::-1]
    tiny = np.finfo(np.float64).tiny
    ratio = jnp.max(jnp.where(put_in > 0, adjoint / jnp.maximum(put_in, tiny), 0.0), initial=0.0)
    return jnp.where(jnp.all(jnp.isfinite(norms)), ratio, jnp.inf)
