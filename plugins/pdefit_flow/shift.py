"""Shifts along a periodic axis whose transposes are shifts."""

from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array

# JAX transposes a roll into sums of padded pieces. XLA:CPU computes these again in every loop that reads them: the transposed
# right-hand side of a periodic flow then takes three times as long. Between walls this form gains nothing.
_SHIFT = Primitive("shift")


def shift(u: Array, by: int, axis: int) -> Array:
    """The values of a periodic field, shifted by some cells along an axis.

    It equals `jnp.roll`, but its gradient is faster.

    **Arguments:**

    - `u`: the field.
    - `by`: the number of cells, positive towards larger coordinates.
    - `axis`: the number of the axis.
    """
    return _SHIFT.bind(u, by=by, axis=axis)


def _batched(args: Any, dims: Any, *, by: int, axis: int) -> tuple[Array, int]:
    (u,), (batch,) = args, dims
    return shift(u, by, axis + (batch <= axis)), batch


_SHIFT.def_impl(jax.jit(lambda u, *, by, axis: jnp.roll(u, by, axis), static_argnames=("by", "axis")))
_SHIFT.def_abstract_eval(lambda u, **_: u)
mlir.register_lowering(_SHIFT, mlir.lower_fun(lambda u, *, by, axis: jnp.roll(u, by, axis), multiple_results=False))
ad.deflinear2(_SHIFT, lambda ct, u, *, by, axis: [shift(ct, -by, axis)])
batching.primitive_batchers[_SHIFT] = _batched
