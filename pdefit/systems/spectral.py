"""Periodic equations whose stiff linear part is diagonal in Fourier space."""

import abc
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from pdefit.systems.fields import AbstractFieldSystem
from pdefit.systems.fourier_grid import FourierGrid
from pdefit.systems.linear_part import AbstractDiagonal


class SpectralSystem(AbstractFieldSystem, AbstractDiagonal):
    """Periodic fields with a linear part of constant coefficients: y' = N(t, y) + L y.

    A subclass declares its state, its parameters, `init`, `eigenvalues` (of L, from `grid.symbol`) and `nonlinear` (the
    modes of N). The vector field, the IMEX split and the exponentials of `ETDRK4` follow.

    `time_unit` is "1" (dimensionless) unless the subclass states another.

    **Arguments:**

    - `grid`: the points and the periods.
    """

    time_unit: ClassVar[str] = "1"
    grid: FourierGrid

    @abc.abstractmethod
    def nonlinear(self, t: Array, y: PyTree, args: PyTree) -> PyTree:
        """The Fourier modes of N(t, y).

        For example `State(self.grid.symbol(1) * self.grid.to_modes(-(y.u**2) / 2))` for -u u_x.

        **Arguments:** as of `AbstractSystem.vector_field`.
        """

    def vector_field(self, t, y, args):
        return jax.tree.map(jnp.add, self.linear(y), self.explicit(t, y, args))

    def explicit(self, t, y, args):
        return self.from_modes(self.explicit_modes(t, y, args))

    def explicit_modes(self, t, y, args):
        # symbols are double precision, and a state may be single
        return jax.tree.map(lambda m, u: m.astype(jnp.result_type(u, jnp.complex64)), self.nonlinear(t, y, args), y)

    def to_modes(self, y):
        return jax.tree.map(self.grid.to_modes, y)

    def from_modes(self, modes):
        return jax.tree.map(self.grid.from_modes, modes)
