"""Scalar parameters as rows of a field, so that gradients with respect to them are cheap.

The gradient of a sum over a field with respect to a number is one sum over the whole field. With many numbers these
sums run one after the other. As a row along the last axis the number collects its sums over the other axes in a vector,
which is summed once. With ten parameters the gradient of a large two-dimensional problem takes two thirds of the time.

`diffuse` and `ReactionDiffusion` do this by themselves. It is not applied to every system: a vector field may use a
number where a row of the grid's last axis does not fit, such as beside a Fourier transform or a sum.
"""

from typing import TypeVar

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

from pdefit.systems.system import AbstractSystem, parameters

System = TypeVar("System", bound=AbstractSystem)


def broadcast_scalar(x: Array, u: Array) -> Array:
    """A scalar as an array that broadcasts against a field: of its extent along the last axis, and 1 along the others.

    Along a single axis there is nothing to gain, and the scalar stays one.

    **Arguments:**

    - `x`: the scalar.
    - `u`: the field.
    """
    if u.ndim < 2:
        return x
    row = jnp.broadcast_to(x, (*(1,) * (u.ndim - 1), *u.shape[-1:]))
    # without a barrier the compiler merges the two sums of the gradient into one again
    return lax.optimization_barrier(row)


def broadcast_scalars(system: System, u: Array) -> System:
    """A system with every scalar parameter as a row that broadcasts against a field.

    For use inside a vector field that combines its parameters with fields point by point.

    **Arguments:**

    - `system`: the equations with their parameters.
    - `u`: a field with which the parameters are combined; its shape is that of the grid.
    """
    names = [n for n in parameters(system) if eqx.is_inexact_array(x := getattr(system, n)) and x.ndim == 0]
    rows = [broadcast_scalar(getattr(system, n), u) for n in names]
    return eqx.tree_at(lambda s: [getattr(s, n) for n in names], system, rows)
