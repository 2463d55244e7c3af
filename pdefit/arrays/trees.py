"""Names and dtypes of the arrays in a pytree."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree


def named_fields(tree: PyTree) -> dict[str, Any]:
    """The leaves of a state by name: attribute names or dictionary keys, joined by dots; a bare array is called `y`.

    A mapping of names to arrays is returned as it is.
    """
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator=".") or "y": leaf for path, leaf in leaves}


def cast(tree: PyTree, dtype: Any) -> PyTree:
    """The tree with every floating-point array in `dtype`; integers, booleans and everything else untouched."""
    floating, rest = eqx.partition(tree, eqx.is_inexact_array)
    return eqx.combine(jax.tree.map(lambda x: x.astype(dtype), floating), rest)


def ravel(tree: PyTree) -> Array:
    """All arrays of a tree as one vector, leaf after leaf."""
    leaves = [jnp.ravel(leaf) for leaf in jax.tree.leaves(tree)]
    return jnp.concatenate(leaves) if leaves else jnp.zeros(0)
