"""Boundary conditions of a cell-centred grid, one object for each end-to-end axis."""

import abc
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array


def _edge(u: Array, axis: int, last: bool) -> Array:
    n = u.shape[axis]
    return lax.slice_in_dim(u, n - 1, n, axis=axis) if last else lax.slice_in_dim(u, 0, 1, axis=axis)


class AbstractBoundary(eqx.Module):
    """What a field does at the two ends of an axis; `wraps` says that the ends are neighbours."""

    wraps: eqx.AbstractClassVar[bool]

    @abc.abstractmethod
    def ghosts(self, u: Array, axis: int) -> tuple[Array, Array]:
        """The values in the cell before the first and after the last, each of extent 1 along `axis`."""


class Periodic(AbstractBoundary):
    """u(0) = u(L)."""

    wraps: ClassVar[bool] = True

    def ghosts(self, u, axis):
        return _edge(u, axis, last=True), _edge(u, axis, last=False)


class NoFlux(AbstractBoundary):
    """du/dn = 0 on the outer faces."""

    wraps: ClassVar[bool] = False

    def ghosts(self, u, axis):
        return _edge(u, axis, last=False), _edge(u, axis, last=True)


class Dirichlet(AbstractBoundary):
    """u = value on the outer faces; the ghost value 2 value - u puts the mean of ghost and cell on the face."""

    wraps: ClassVar[bool] = False
    value: float = 0.0

    def ghosts(self, u, axis):
        two = jnp.asarray(2 * self.value, u.dtype)
        return two - _edge(u, axis, last=False), two - _edge(u, axis, last=True)
