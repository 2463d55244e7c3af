"""Packing of trees into named arrays, as in files."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree


def pack(**trees: PyTree) -> dict[str, np.ndarray]:
    """Arrays of several trees by name; each name begins with the name of its tree."""
    found = dict[str, np.ndarray]()
    for name, tree in trees.items():
        leaves, _ = jax.tree_util.tree_flatten_with_path(eqx.filter(tree, eqx.is_array))
        # arrays of NumPy may change after this
        found |= {f"{name}{jax.tree_util.keystr(path)}": _own(leaf) for path, leaf in leaves}
    return found


def unpack(name: str, like: PyTree, arrays: dict[str, np.ndarray]) -> PyTree:
    """A tree restored from the arrays that `pack` named.

    **Arguments:**

    - `name`: the name of the tree.
    - `like`: a tree of the same structure, shapes and types.
    - `arrays`: the arrays by name; extra ones are ignored.
    """
    dynamic, static = eqx.partition(like, eqx.is_array)

    def restored(path: Any, leaf: Any) -> Any:
        key = f"{name}{jax.tree_util.keystr(path)}"
        value = arrays.get(key)
        if value is None or value.shape != leaf.shape or value.dtype != leaf.dtype:
            raise ValueError(key)
        return _own(value) if isinstance(leaf, np.ndarray) else jnp.asarray(value)

    return eqx.combine(jax.tree_util.tree_map_with_path(restored, dynamic), static)


def _own(x: Any) -> np.ndarray:
    return x.copy() if isinstance(x, np.ndarray) else np.asarray(x)
