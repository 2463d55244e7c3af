"""Systems with constant rates added to their fields, for the steps of an infusion."""

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from pdefit.systems.linear_operators import AbstractDiagonal, AbstractSplit
from pdefit.systems.system import AbstractSystem


def infused(system: AbstractSystem, rates: PyTree) -> AbstractSystem:
    """A system with constant rates added, split as the system is.

    **Arguments:**

    - `system`: the equations, not of second order.
    - `rates`: the rates of all fields, as a state.
    """
    if isinstance(system, AbstractDiagonal):
        return _InfusedDiagonal(system, rates)
    return _InfusedSplit(system, rates) if isinstance(system, AbstractSplit) else _Infused(system, rates)


class _AbstractInfused(AbstractSystem):
    time_unit = "1"
    system: AbstractSystem
    rates: PyTree

    def vector_field(self, t, y, args):
        return _sum(self.system.vector_field(t, y, args), self.rates)

    def init(self, key):
        return self.system.init(key)


class _Infused(_AbstractInfused):
    pass


class _AbstractInfusedSplit(_AbstractInfused, AbstractSplit):
    system: AbstractSplit

    def explicit(self, t, y, args):
        return _sum(self.system.explicit(t, y, args), self.rates)

    def linear(self, y):
        return self.system.linear(y)

    def linear_solve(self, y, h):
        return self.system.linear_solve(y, h)


class _InfusedSplit(_AbstractInfusedSplit):
    pass


class _InfusedDiagonal(_AbstractInfusedSplit, AbstractDiagonal):
    system: AbstractDiagonal

    def to_modes(self, y):
        return self.system.to_modes(y)

    def from_modes(self, modes):
        return self.system.from_modes(modes)

    def eigenvalues(self):
        return self.system.eigenvalues()

    def explicit_modes(self, t, y, args):
        return _sum(self.system.explicit_modes(t, y, args), self.system.to_modes(self.rates))


def _sum(a: PyTree, b: PyTree) -> PyTree:
    return jax.tree.map(jnp.add, a, b)
