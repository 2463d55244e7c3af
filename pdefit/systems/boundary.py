"""Boundary conditions of a cell-centred grid, for both ends of an axis or for each end.

A value is a number, an array along the edge, a function of time such as `TimeSeries`, or the name of an input in
`args`. `CartesianGrid.at` replaces it by its value at one time, which the operators expect.
"""

import abc
import dataclasses
from typing import Any, ClassVar, TypeVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array

from pdefit._util.errors import PdefitError
from pdefit.systems.inputs import is_input

Boundary = TypeVar("Boundary", bound="AbstractBoundary")


def edges(u: Array, axis: int) -> tuple[Array, Array]:
    """The first and the last entry along an axis, each of extent 1."""
    n = u.shape[axis]
    return lax.slice_in_dim(u, 0, 1, axis=axis), lax.slice_in_dim(u, n - 1, n, axis=axis)


def _value(x: Any) -> Any:
    return jnp.asarray(x, float) if isinstance(x, list | tuple | np.ndarray) else x


def _along(value: Any, u: Array, axis: int) -> Array:
    """A value as an array that broadcasts against the cells at an edge of u."""
    if is_input(value):
        raise PdefitError(
            f"The value {value!r} of a boundary is an input; a vector field takes its grid by self.grid.at(t, args)"
        )
    value, edge = jnp.asarray(value, u.dtype), (*u.shape[:axis], *u.shape[axis + 1 :])
    if value.ndim == 0:
        return value
    if value.shape != edge:
        raise PdefitError(f"A value along an edge of {edge} cells has shape {value.shape}; give one for each cell")
    return jnp.expand_dims(value, axis)


class AbstractBoundary(eqx.Module):
    """A boundary condition at both ends of an axis. `wraps` is whether the first and the last cell are neighbours."""

    wraps: eqx.AbstractClassVar[bool]

    @abc.abstractmethod
    def outer_differences(self, u: Array, axis: int, spacing: float) -> tuple[Array, Array] | None:
        """Derivative of a field across the first and the last face of an axis, times the spacing.

        **Arguments:**

        - `u`: the field, of the grid's shape.
        - `axis`: the index of the axis.
        - `spacing`: the size of a cell along the axis, in length units.

        **Returns:** two arrays of extent 1 along the axis; None if both are zero.
        """

    @abc.abstractmethod
    def period(self, u: Array, axis: int) -> Array:
        """One period of the field, extended beyond its ends by the homogeneous boundary condition.

        **Arguments:**

        - `u`: the field, of the grid's shape.
        - `axis`: the index of the axis of extension.
        """

    def homogeneous(self: Boundary) -> Boundary:
        """The homogeneous boundary condition, with the value 0."""
        return dataclasses.replace(self, value=0.0) if hasattr(self, "value") else self


class Periodic(AbstractBoundary):
    """The periodic condition u(0) = u(L)."""

    wraps: ClassVar[bool] = True

    def outer_differences(self, u, axis, spacing):
        first, last = edges(u, axis)
        return first - last, first - last

    def period(self, u, axis):
        return u


class AbstractEnd(AbstractBoundary):
    """A condition that may hold at one end of an axis only. Given for the axis, it holds at both ends.

    `parity` is the extension of a field that satisfies the homogeneous condition: 1 for even, -1 for odd, None for
    neither.
    """

    wraps: ClassVar[bool] = False
    parity: eqx.AbstractClassVar[int | None]

    def period(self, u, axis):
        return _continued(u, axis, self.parity, self.parity)


class NoFlux(AbstractEnd):
    """The condition du/dn = 0 on the outer faces, through which nothing diffuses."""

    parity: ClassVar[int | None] = 1

    def outer_differences(self, u, axis, spacing):
        return None


class Neumann(AbstractEnd):
    """The condition du/dn = value on the outer faces, with the outward normal n. The inflow is D value.

    **Arguments:**

    - `value`: the slope, in the unit of u over length: a number, an array along the edge, a function of time, or the
      name of an input in `args`.
    """

    parity: ClassVar[int | None] = 1
    value: Any = eqx.field(converter=_value)

    def outer_differences(self, u, axis, spacing):
        first, last = edges(u, axis)
        slope = spacing * _along(self.value, u, axis)
        return jnp.broadcast_to(-slope, first.shape), jnp.broadcast_to(slope, last.shape)


class Dirichlet(AbstractEnd):
    """The condition u = value on the outer faces, half a spacing from the nearest cell centre.

    **Arguments:**

    - `value`: u on the face, in its unit: a number, an array along the edge, a function of time, or the name of an input
      in `args`; default 0.
    """

    parity: ClassVar[int | None] = -1
    value: Any = eqx.field(default=0.0, converter=_value)

    def outer_differences(self, u, axis, spacing):
        first, last = edges(u, axis)
        value = _along(self.value, u, axis)
        return 2 * (first - value), 2 * (value - last)


class Robin(AbstractEnd):
    """The condition a u + b du/dn = value on the outer faces, with the outward normal n.

    **Arguments:**

    - `a`: the factor of u.
    - `b`: the factor of the slope, in length units if a has none. It has the sign of a if u relaxes to value / a.
    - `value`: the right-hand side, in the unit of a u; default 0.

    Each is a number, an array along the edge, a function of time, or the name of an input in `args`.
    """

    parity: ClassVar[int | None] = None
    a: Any = eqx.field(converter=_value)
    b: Any = eqx.field(converter=_value)
    value: Any = eqx.field(default=0.0, converter=_value)

    def outer_differences(self, u, axis, spacing):
        first, last = edges(u, axis)
        a, b, value = (_along(x, u, axis) for x in (self.a, self.b, self.value))
        # u on the face is half a spacing times its slope away from the nearest cell
        factor = 1 / (b / spacing + a / 2)
        return factor * (a * first - value), factor * (value - a * last)

    def homogeneous(self):
        raise _neither()


class Ends(AbstractBoundary):
    """One condition at the lower end of an axis, and another at the upper end.

    **Arguments:**

    - `lower`, `upper`: `Dirichlet`, `Neumann`, `Robin` or `NoFlux`.
    """

    wraps: ClassVar[bool] = False
    lower: AbstractEnd
    upper: AbstractEnd

    def outer_differences(self, u, axis, spacing):
        lower, upper = (end.outer_differences(u, axis, spacing) for end in (self.lower, self.upper))
        if lower is None and upper is None:
            return None
        first, last = edges(u, axis)
        return jnp.zeros_like(first) if lower is None else lower[0], jnp.zeros_like(last) if upper is None else upper[1]

    def period(self, u, axis):
        return _continued(u, axis, self.lower.parity, self.upper.parity)

    def homogeneous(self):
        return Ends(self.lower.homogeneous(), self.upper.homogeneous())


def closed_ends(boundary: AbstractBoundary) -> tuple[bool, bool]:
    """For the first and the last face of an axis, whether it is closed to fluxes."""
    first, last = (boundary.lower, boundary.upper) if isinstance(boundary, Ends) else (boundary, boundary)
    return isinstance(first, NoFlux), isinstance(last, NoFlux)


def _continued(u: Array, axis: int, lower: int | None, upper: int | None) -> Array:
    """One period of a field with these parities at its ends; of 4 n cells if they differ."""
    if lower is None or upper is None:
        raise _neither()
    mirrored = jnp.flip(u, axis) if upper > 0 else -jnp.flip(u, axis)
    whole = jnp.concatenate([u, mirrored], axis)
    return whole if lower == upper else jnp.concatenate([whole, -whole], axis)


def _neither() -> PdefitError:
    return PdefitError("The linear part of diffusion is not solved with Robin ends; use solver=rkc")
