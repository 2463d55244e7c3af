"""Boundary conditions of a cell-centred grid: one object holds for both ends of an axis."""

import abc
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array


def _edges(u: Array, axis: int) -> tuple[Array, Array]:
    n = u.shape[axis]
    return lax.slice_in_dim(u, 0, 1, axis=axis), lax.slice_in_dim(u, n - 1, n, axis=axis)


class AbstractBoundary(eqx.Module):
    """A boundary condition at both ends of an axis. `wraps` is whether the first and the last cell are neighbours."""

    wraps: eqx.AbstractClassVar[bool]

    @abc.abstractmethod
    def outer_differences(self, u: Array, axis: int) -> tuple[Array, Array] | None:
        """The derivative of a field across the first and the last face of an axis, times the spacing.

        **Arguments:**

        - `u`: the field, of the grid's shape.
        - `axis`: the number of the axis.

        **Returns:** two arrays of extent 1 along the axis; None where both are zero.
        """

    @abc.abstractmethod
    def period(self, u: Array, axis: int) -> Array:
        """One period of the field when it is continued beyond its ends as the homogeneous condition demands.

        **Arguments:**

        - `u`: the field, of the grid's shape.
        - `axis`: the number of the axis along which it is continued.
        """


class Periodic(AbstractBoundary):
    """The periodic condition u(0) = u(L)."""

    wraps: ClassVar[bool] = True

    def outer_differences(self, u, axis):
        first, last = _edges(u, axis)
        return first - last, first - last

    def period(self, u, axis):
        return u


class NoFlux(AbstractBoundary):
    """The condition du/dn = 0 on the outer faces, through which nothing diffuses."""

    wraps: ClassVar[bool] = False

    def outer_differences(self, u, axis):
        return None

    def period(self, u, axis):
        return jnp.concatenate([u, jnp.flip(u, axis)], axis)


class Dirichlet(AbstractBoundary):
    """The condition u = value on the outer faces, half a spacing from the nearest cell centre.

    **Arguments:**

    - `value`: u on both faces of the axis, in its unit; default 0.
    """

    wraps: ClassVar[bool] = False
    value: float = 0.0

    def outer_differences(self, u, axis):
        first, last = _edges(u, axis)
        value = jnp.asarray(self.value, u.dtype)
        return 2 * (first - value), 2 * (value - last)

    def period(self, u, axis):
        return jnp.concatenate([u, -jnp.flip(u, axis)], axis)
