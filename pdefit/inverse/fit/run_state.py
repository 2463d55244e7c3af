"""The state of a fit between two chunks of evaluations, as plain arrays and numbers that a file can hold."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from pdefit._util.errors import PdefitError


@dataclasses.dataclass(frozen=True)
class RunState:
    """All that a fit needs to go on as if nothing had happened: continuing from it gives the same bits.

    `numbers` says where the fit is (stage, round of reweighting, evaluations, events, ...) and survives JSON; `arrays` by
    name hold theta, the optimizer's state, the best point and the standard deviations in force.
    """

    numbers: dict[str, Any]
    arrays: dict[str, np.ndarray]

    @property
    def iterations(self) -> int:
        """Evaluations so far: as many rows of the history belong to this state."""
        return int(self.numbers["iterations"])


def pack(name: str, tree: PyTree) -> dict[str, np.ndarray]:
    """The arrays of a tree under names that begin with `name`."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(eqx.filter(tree, eqx.is_array))
    return {f"{name}{jax.tree_util.keystr(path)}": np.asarray(leaf) for path, leaf in leaves}


def unpack(name: str, like: PyTree, arrays: dict[str, np.ndarray]) -> PyTree:
    """The tree `like` with the arrays that `pack` made of such a tree."""
    dynamic, static = eqx.partition(like, eqx.is_array)

    def restored(path: Any, leaf: Any) -> Any:
        key = f"{name}{jax.tree_util.keystr(path)}"
        value = arrays.get(key)
        if value is None or value.shape != leaf.shape or value.dtype != leaf.dtype:
            raise PdefitError(f"The saved state does not fit this experiment ({key}); start a new run")
        return value if isinstance(leaf, np.ndarray) else jnp.asarray(value)

    return eqx.combine(jax.tree_util.tree_map_with_path(restored, dynamic), static)
