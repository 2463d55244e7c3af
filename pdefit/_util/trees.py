"""Names, dtypes and casts of the arrays in a pytree, and the check for float64."""

from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import PyTree

from pdefit._util.errors import PdefitError

Tree = TypeVar("Tree", bound=eqx.Module)


def named_fields(tree: PyTree) -> dict[str, PyTree]:
    """Leaves of a state by name.

    Names are attribute names or dictionary keys, joined by dots. A bare array is called `y`. A mapping of names to
    arrays is returned as it is.
    """
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator=".") or "y": leaf for path, leaf in leaves}


def cast(tree: PyTree, dtype: DTypeLike) -> PyTree:
    """The tree with every floating-point JAX array in `dtype`.

    Other leaves, NumPy arrays included, are unchanged: times stay float64 even for a float32 state.
    """
    floating, rest = eqx.partition(tree, lambda x: isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jnp.inexact))
    return eqx.combine(jax.tree.map(lambda x: x.astype(dtype), floating), rest)


def promoted(state: PyTree, beside: PyTree) -> PyTree:
    """The state cast to the widest dtype of its arrays and of the JAX arrays in `beside`, such as parameters."""
    arrays = *jax.tree.leaves(state), *(x for x in jax.tree.leaves(beside) if isinstance(x, jax.Array))
    types = {x.dtype for x in arrays if eqx.is_array_like(x) and jnp.issubdtype(jnp.result_type(x), jnp.floating)}
    return cast(jax.tree.map(jnp.asarray, state), jnp.result_type(*types)) if len(types) > 1 else state


def with_parts(tree: Tree, where: Callable[[Tree], Any], parts: Any) -> Tree:
    """The tree with some parts replaced; old and new parts may be None.

    **Arguments:** as in `equinox.tree_at`.
    """
    return eqx.tree_at(where, tree, parts, is_leaf=lambda x: x is None)


def is_traced(tree: PyTree) -> bool:
    """True if the tree contains an array traced by JAX, which has no values yet."""
    return any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves(tree))  # pyright: ignore[reportAttributeAccessIssue]


def taken(x: Any, index: Any) -> Any:
    """The part of an array at an index. A part of an array of JAX compiles nothing, unless it is traced or spread."""
    if isinstance(x, np.ndarray) or is_traced(x) or not x.is_fully_addressable:
        return x[index]
    # a copy, since device_put may share memory
    return jax.device_put(np.array(np.asarray(x)[index]))


def demand_float64() -> None:
    """Refuse to continue unless JAX allows float64."""
    if not jax.config.read("jax_enable_x64"):
        raise PdefitError(
            'pdefit sums in float64, which JAX has switched off; begin with jax.config.update("jax_enable_x64", True), before '
            "any array is made"
        )
