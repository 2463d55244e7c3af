"""Which residuals are of one kind, so that each kind can be given the same voice."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int


def residual_kinds(functional: Any) -> Int[np.ndarray, " m"]:
    """A number for the kind of every residual of a Functional (which imports this file): an observed variable, the jumps of a
    free field, a regularizer, a prior."""
    observed = [x.size for x in functional.observed.values()]
    jumps = [c.size // c.shape[0] for c in functional.controls.nodes]
    extra = [x.size for x in jax.eval_shape(functional.extra_residuals, functional.theta0)]
    segments, times = functional.layout.index.shape
    sizes = [*observed * times, *jumps]
    kinds = [*range(len(observed))] * times + [len(observed) + k for k in range(len(jumps))]
    inside = np.tile(np.repeat(np.asarray(kinds, int), sizes), segments)
    first = len(observed) + len(jumps)
    return np.concatenate([inside, np.repeat(first + np.arange(len(extra)), extra)]).astype(int)


def typical_size(kinds: Int[np.ndarray, " m"], values: Float[Array, " m"]) -> Float[Array, " m"]:
    """(m,) the root mean square of each residual's kind; 1 for a kind that vanishes."""
    count = int(kinds.max(initial=0)) + 1
    sums = jax.ops.segment_sum(jnp.square(values), kinds, count)
    level = jnp.sqrt(sums / np.maximum(np.bincount(kinds, minlength=count), 1))
    return jnp.where(level > 0, level, 1.0)[kinds]
