"""The system under verification, with its example solved in several ways."""

import dataclasses
from collections.abc import Callable
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from pdefit._util.errors import PdefitError
from pdefit.adjoints.base import StoreAll
from pdefit.integrate.loop.stepper import Stepper
from pdefit.integrate.loop.time_grid import TimeGrid, constant_grid
from pdefit.integrate.solvers.etdrk4 import ETDRK4
from pdefit.integrate.solvers.rk4 import RK4
from pdefit.systems.capabilities import AbstractSwitched, AbstractVerifiable, Example
from pdefit.systems.fourier_grid import SpectralSystem

# resolution at which an example is built; orders in space double it twice
RESOLUTION = 16
# number of halvings of the step of an example
HALVINGS = 3
# relative differences below this are round-off
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
    """The example of a system class, with smooth switches if it has switches.

    Each of its trajectories is solved once.
    """

    def __init__(self, system_class: type[AbstractVerifiable]):
        self.system_class = system_class
        self.example = smooth(system_class.example(RESOLUTION))
        # `Example.system` is any system; the optional interfaces are looked for with isinstance
        self.system: Any = self.example.system
        self._films: dict[int, PyTree] = {}

    @property
    def y0(self) -> PyTree:
        return self.example.y0

    @property
    def y1(self) -> PyTree:
        """State at the end of the example, without the symmetries that an initial state may have."""
        return jax.tree.map(lambda x: x[-1], self.film(0))

    @property
    def solver(self) -> diffrax.AbstractSolver:
        """A solver of the order stated by the example."""
        return solver_for(self.example)

    def film(self, halvings: int) -> PyTree:
        """States at the times of the example, with each of its steps halved `halvings` times."""
        if halvings not in self._films:
            self._films[halvings] = trajectory(self.example, halvings)
        return self._films[halvings]


def smooth(example: Example) -> Example:
    """The example with smoothed switches, as a fit would use it.

    Across hard switches neither derivatives nor orders of convergence exist.
    """
    system: Any = example.system
    if not isinstance(system, AbstractSwitched) or system.is_smooth:
        return example
    return dataclasses.replace(example, system=system.smoothed())


def solver_for(example: Example) -> diffrax.AbstractSolver:
    """A solver of the order stated by an example: exponential steps for stiff waves and decay."""
    order = example.time_order
    if isinstance(example.system, SpectralSystem) and order == 4:
        return ETDRK4()
    if order not in _SOLVERS:
        raise PdefitError(f"An example's time_order expects one of {', '.join(map(str, _SOLVERS))}, but got {order}")
    return _SOLVERS[order]()


def trajectory(example: Example, halvings: int = 0) -> PyTree:
    """States at the times of the example, stacked on a leading axis."""
    ts = np.asarray(example.ts, float)
    grid = constant_grid(float(ts[0]), ts, example.dt)
    more = 2**halvings
    # the grid has room for the steps of the finest run, so that all halvings share one compilation
    grid = TimeGrid(
        start=grid.start,
        step=grid.step / more,
        count=grid.count * more,
        length=grid.length * 2**HALVINGS,
        observes_start=grid.observes_start,
    )
    stepper = Stepper(example.system, solver_for(example))
    return _run(stepper, example.y0, jax.tree.map(jnp.asarray, grid))


@eqx.filter_jit
def _run(stepper: Stepper, y0: PyTree, grid: TimeGrid) -> PyTree:
    return StoreAll().run(
        stepper.prepared(grid), y0, grid, lambda y, _: y, jnp.zeros(grid.count.size + grid.observes_start)
    )[1]


@eqx.filter_jit
def rates(system: Any, t: Any, y: PyTree) -> PyTree:
    """Rates by the vector field, compiled, without exogenous inputs."""
    return system.vector_field(t, y, None)


def size(tree: PyTree) -> float:
    """The largest absolute value of a tree; NaN if it contains a NaN."""
    return float(np.max([np.max(np.abs(x), initial=0.0) for x in map(np.asarray, jax.tree.leaves(tree))], initial=0.0))


def gap(a: PyTree, b: PyTree) -> float:
    """The largest difference between two trees."""
    return size(jax.tree.map(lambda x, y: np.asarray(x) - np.asarray(y), a, b))


def relative(a: PyTree, b: PyTree) -> float:
    """The largest difference between two trees over the largest value of the second; 0 if both vanish."""
    difference, scale = gap(a, b), size(b)
    return difference / scale if scale > 0 else (0.0 if difference == 0 else float("inf"))


def finite(tree: PyTree) -> bool:
    return all(bool(jnp.all(jnp.isfinite(x))) for x in jax.tree.leaves(tree))
