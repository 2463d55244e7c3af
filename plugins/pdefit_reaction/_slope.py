"""Slopes of terms, which limit the stable step size."""

import jax
import jax.numpy as jnp
from jaxtyping import Array

from pdefit.terms import AbstractTerm


def largest_slope(term: AbstractTerm, values: Array) -> float:
    """Largest absolute derivative of a term of one input.

    **Arguments:** `term`, `values`: the term, and the values of its input.
    """
    return float(jnp.max(jnp.abs(jax.jvp(term, (values,), (jnp.ones_like(values),))[1])))
