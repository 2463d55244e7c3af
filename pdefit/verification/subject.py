"""The system under verification, with its example solved in several ways."""

import functools
from collections.abc import Callable
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from pdefit.errors import PdefitError
from pdefit.integrate.runge_kutta4 import RK4
from pdefit.integrate.trajectory import solve
from pdefit.systems.interfaces import AbstractVerifiable, Example

# the smallest resolution of an example
RESOLUTION = 16
# a relative difference below this is round-off
ROUND_OFF = 1e-11

_SOLVERS: dict[int, Callable[[], diffrax.AbstractSolver]] = {
    1: diffrax.Euler,
    2: diffrax.Heun,
    3: diffrax.Bosh3,
    4: RK4,
    5: diffrax.Tsit5,
    8: diffrax.Dopri8,
}


class Subject:
    """The example of a system class, and its trajectories, each solved once."""

    def __init__(self, system_class: type[AbstractVerifiable]):
        self.system_class = system_class
        self.example = system_class.example(RESOLUTION)
        # `Example.system` is any system; the optional interfaces are looked for with isinstance
        self.system: Any = self.example.system

    @property
    def y0(self) -> PyTree:
        return self.example.y0

    @property
    def y1(self) -> PyTree:
        """The state at the end of the example, away from anything special about the first."""
        return jax.tree.map(lambda x: x[-1], self.film(0))

    @property
    def solver(self) -> diffrax.AbstractSolver:
        """A solver of the order that the example states."""
        return solver_of_order(self.example.time_order)

    @functools.cached_property
    def _films(self) -> dict[int, PyTree]:
        return {}

    def film(self, halvings: int) -> PyTree:
        """The states at the example's times, solved with its step halved so many times."""
        if halvings not in self._films:
            self._films[halvings] = trajectory(self.example, self.example.dt / 2**halvings)
        return self._films[halvings]


def solver_of_order(order: int) -> diffrax.AbstractSolver:
    if order not in _SOLVERS:
        raise PdefitError(f"An example's time_order expects one of {', '.join(map(str, _SOLVERS))}, but got {order}")
    return _SOLVERS[order]()


def trajectory(example: Example, dt: float) -> PyTree:
    """The states at the example's times, stacked on a leading axis."""
    return solve(
        example.system,
        example.y0,
        np.asarray(example.ts, float),
        solver=solver_of_order(example.time_order),
        dt=dt,
        t0=float(example.ts[0]),
    )


@eqx.filter_jit
def rates(system: Any, t: Any, y: PyTree) -> PyTree:
    """The vector field without exogenous inputs, compiled."""
    return system.vector_field(t, y, None)


def size(tree: PyTree) -> float:
    """The largest absolute value; NaN if there is one."""
    return float(np.max([np.max(np.abs(x), initial=0.0) for x in map(np.asarray, jax.tree.leaves(tree))], initial=0.0))


def gap(a: PyTree, b: PyTree) -> float:
    """The largest difference of two trees."""
    return size(jax.tree.map(lambda x, y: np.asarray(x) - np.asarray(y), a, b))


def relative(a: PyTree, b: PyTree) -> float:
    """The largest difference of two trees over the largest value of the second; 0 where both vanish."""
    difference, scale = gap(a, b), size(b)
    return difference / scale if scale > 0 else (0.0 if difference == 0 else float("inf"))


def finite(tree: PyTree) -> bool:
    return all(bool(jnp.all(jnp.isfinite(x))) for x in jax.tree.leaves(tree))
