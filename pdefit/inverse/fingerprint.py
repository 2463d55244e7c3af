"""Fingerprints: which equations, which data, which numerics a number was computed from."""

import hashlib
import importlib.metadata
import os
import re
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from pdefit.inverse.functional import Functional


def fingerprint(functional: Functional) -> dict[str, str]:
    """SHA-256 of the equations (the traced program of J, with every array an input), of all arrays it is given (data,
    weights, known parameters, plan; not what theta replaces), and of the flags that decide round-off."""
    return {"equations": _equations(functional), "data": _data(functional), "flags": _flags(functional)}


def _equations(functional: Functional) -> str:
    arrays, static = eqx.partition(functional, eqx.is_array)

    def value(arrays: Any, theta: Any) -> Any:
        return eqx.combine(arrays, static).value(theta)

    program = str(jax.make_jaxpr(value)(arrays, functional.theta0))
    # functions inside a program print their address
    return _digest(re.sub(r"0x[0-9a-f]+", "", program).encode())


def _data(functional: Functional) -> str:
    items = functional.controls.items
    blank = eqx.tree_at(lambda f: [c.where(f.problem) for c in items], functional, replace_fn=jnp.zeros_like)
    leaves = jax.tree.leaves(eqx.filter(blank, eqx.is_array))
    return _digest(*(part for x in map(np.asarray, leaves) for part in (f"{x.dtype}{x.shape}".encode(), x.tobytes())))


def _flags(functional: Functional) -> str:
    dtype = jax.tree.leaves(functional.problem.y0)[0].dtype
    parts = (
        jax.__version__,
        importlib.metadata.version("jaxlib"),
        os.environ.get("XLA_FLAGS", ""),
        jax.default_backend(),
        str(dtype),
    )
    return _digest("|".join(parts).encode())


def _digest(*parts: bytes) -> str:
    total = hashlib.sha256()
    for part in parts:
        total.update(part)
    return total.hexdigest()
