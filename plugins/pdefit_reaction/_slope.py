"""Slopes of terms, which decide how long a stable step is."""

import jax
import jax.numpy as jnp
from jaxtyping import Array

from pdefit.terms import AbstractTerm


def largest_slope(term: AbstractTerm, values: Array) -> float:
    """The largest derivative in size of a term of one input.

    **Arguments:** `term`, `values`: the term, and where it is looked at.
    """
    return float(jnp.max(jnp.abs(jax.jvp(term, (values,), (jnp.ones_like(values),))[1])))
