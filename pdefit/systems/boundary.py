"""Boundary conditions of a cell-centred grid, one object for each end-to-end axis."""

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
    """What a field does at the two ends of an axis; `wraps` says that the ends are neighbours."""

    wraps: eqx.AbstractClassVar[bool]

    @abc.abstractmethod
    def outer_differences(self, u: Array, axis: int) -> tuple[Array, Array] | None:
        """What u gains across the first and the last face, over one spacing: each of extent 1 along `axis`; None for 0."""

    @abc.abstractmethod
    def period(self, u: Array, axis: int) -> Array:
        """u followed by its mirror images, up to where it repeats itself: what obeys the (homogeneous) condition if
        periodic."""


class Periodic(AbstractBoundary):
    """u(0) = u(L)."""

    wraps: ClassVar[bool] = True

    def outer_differences(self, u, axis):
        first, last = _edges(u, axis)
        return first - last, first - last

    def period(self, u, axis):
        return u


class NoFlux(AbstractBoundary):
    """du/dn = 0 on the outer faces."""

    wraps: ClassVar[bool] = False

    def outer_differences(self, u, axis):
        return None

    def period(self, u, axis):
        return jnp.concatenate([u, jnp.flip(u, axis)], axis)


class Dirichlet(AbstractBoundary):
    """u = value on the outer faces, half a spacing from the nearest centre."""

    wraps: ClassVar[bool] = False
    value: float = 0.0

    def outer_differences(self, u, axis):
        first, last = _edges(u, axis)
        value = jnp.asarray(self.value, u.dtype)
        return 2 * (first - value), 2 * (value - last)

    def period(self, u, axis):
        return jnp.concatenate([u, -jnp.flip(u, axis)], axis)
