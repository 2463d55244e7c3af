"""Optional interfaces of a system. Each is small; core and tests look for them with `isinstance`."""

import abc
import dataclasses
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, PyTree

from pdefit.data.observations import Observations
from pdefit.systems.system import AbstractSystem


@dataclasses.dataclass(frozen=True)
class FieldCoords:
    """Where a field of the state lives: for each axis a dimension name and its coordinate values (numbers or labels)."""

    dims: tuple[str, ...]
    coords: dict[str, np.ndarray]
    unit: str = "1"
    long_name: str = ""
    coord_units: dict[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Example:
    """A small run of a system with its stated orders, under a second at the smallest resolution; used to verify it."""

    system: AbstractSystem
    y0: PyTree
    ts: np.ndarray
    dt: float
    space_order: int | None
    time_order: int


class AbstractVerifiable(eqx.Module):
    """A system that brings its own example; without one it is listed as unverified."""

    @classmethod
    @abc.abstractmethod
    def example(cls, resolution: int) -> Example:
        """A run at `resolution` (cells along an axis, bodies, ...), with moving fronts where the system has fronts."""


class AbstractGridded(eqx.Module):
    """A system that names the axes of its fields: a grid, or a list of bodies."""

    @abc.abstractmethod
    def coords(self) -> dict[str, FieldCoords]:
        """For every field of the state, its dimensions, coordinates, unit and long name."""


class AbstractRefinable(eqx.Module):
    """A system whose fields on a finer grid can be averaged to a coarser one (an instrument's cells)."""

    @abc.abstractmethod
    def coarsen(self, y: PyTree, factor: int) -> PyTree:
        """A state of this (fine) system averaged over blocks of `factor` cells along every axis."""


class AbstractConstrained(eqx.Module):
    """A system whose states obey a linear constraint."""

    @abc.abstractmethod
    def project(self, y: PyTree) -> PyTree:
        """The nearest state that obeys the constraint (for initial states, data and drift)."""


class AbstractConservative(eqx.Module):
    """A system with conserved quantities."""

    @abc.abstractmethod
    def invariants(self, y: PyTree) -> dict[str, Array]:
        """Quantities that the exact flow keeps constant, by name."""


class AbstractExact(eqx.Module):
    """A system with a known exact solution."""

    @abc.abstractmethod
    def exact(self, t: Float[Array, ""]) -> PyTree:
        """The exact state at time t."""


class AbstractMechanical(eqx.Module):
    """Second-order equations x'' = a(t, x), for symplectic solvers."""

    @abc.abstractmethod
    def positions(self, y: PyTree) -> PyTree:
        """x, in length units."""

    @abc.abstractmethod
    def velocities(self, y: PyTree) -> PyTree:
        """v = x', the tree and shapes of x."""

    @abc.abstractmethod
    def acceleration(self, t: Array, x: PyTree, args: PyTree) -> PyTree:
        """a(t, x), the tree and shapes of x; it must not depend on v."""

    @abc.abstractmethod
    def assemble(self, x: PyTree, v: PyTree) -> PyTree:
        """The state with positions x and velocities v."""


class AbstractSplit(eqx.Module):
    """Equations y' = N(t, y) + L y with a stiff linear part L that a transform diagonalises, for IMEX solvers: `vector_field`
    is the sum of `explicit` and `linear`. L does not depend on time; what a boundary adds belongs to N.

    A system whose L diffuses on a grid takes `pdefit.diffusion_solve`.
    """

    @abc.abstractmethod
    def explicit(self, t: Array, y: PyTree, args: PyTree) -> PyTree:
        """N(t, y), the tree and shapes of y."""

    @abc.abstractmethod
    def linear(self, y: PyTree) -> PyTree:
        """L y."""

    @abc.abstractmethod
    def linear_solve(self, y: PyTree, h: Array) -> PyTree:
        """(1 - h L)^-1 y, exactly."""


class AbstractSwitched(eqx.Module):
    """Equations with switches (thresholds), which no automatic differentiation sees when they are hard."""

    is_smooth: eqx.AbstractVar[bool]

    @abc.abstractmethod
    def smoothed(self) -> AbstractSystem:
        """The same system with smooth switches."""


class AbstractStable(eqx.Module):
    """A system that knows the largest step of an explicit solver."""

    @abc.abstractmethod
    def stable_step(self, y: PyTree) -> float:
        """The largest stable step of the explicit Euler method at y, in time units."""


class AbstractDataState(eqx.Module):
    """A system that can start from data, where the data start or later."""

    @abc.abstractmethod
    def init_from_data(self, observations: Observations, index: int = 0) -> PyTree:
        """The state at `observations.ts[index]` from what was observed there and around it."""


class AbstractDataGuess(eqx.Module):
    """A system that can guess parameters from data."""

    @abc.abstractmethod
    def guess_from_data(self, parameter: str, observations: Observations) -> np.ndarray | None:
        """A value of the parameter's shape; None where the data do not show it."""


class AbstractDiagnosed(eqx.Module):
    """A system with scalars worth recording over time."""

    @abc.abstractmethod
    def diagnostics(self, y: PyTree) -> dict[str, Array]:
        """Scalars by name."""


class AbstractBaseline(eqx.Module):
    """A system with a forecast that any expert would try first (the core's own is persistence)."""

    baseline_name: eqx.AbstractClassVar[str]

    @abc.abstractmethod
    def baseline(self, t0: float, y0: PyTree, ts: np.ndarray) -> dict[str, Any]:
        """Fields by name at the times ts (leading axis), forecast from state y0 at t0 without solving the system."""
