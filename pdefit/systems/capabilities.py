"""Optional interfaces of a system, each a base class with one or two methods.

A system derives from those that it supports. The core and the tests detect them with `isinstance`.
"""

import abc
import dataclasses
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, PyTree

from pdefit.data.observations import Observations
from pdefit.systems.coordinates import FieldCoords
from pdefit.systems.system import AbstractSystem


@dataclasses.dataclass(frozen=True)
class Example:
    """A small run of a system with the expected orders of convergence, for the system's verification.

    At the smallest resolution it should take less than a second.

    **Arguments:**

    - `system`: the equations with working parameters.
    - `y0`: the state at `ts[0]`.
    - `ts`: the times, increasing, (n,), in the system's time unit.
    - `dt`: the step, in the same unit.
    - `space_order`: the order in the cell size; None if there is no grid.
    - `time_order`: the order in the step.
    """

    system: AbstractSystem
    y0: PyTree
    ts: np.ndarray
    dt: float
    space_order: int | None
    time_order: int


class AbstractVerifiable(eqx.Module):
    """A system with its own example for `verify`. Without one it is listed as unverified."""

    @classmethod
    @abc.abstractmethod
    def example(cls, resolution: int) -> Example:
        """An example run, with moving fronts if the system has fronts.

        **Arguments:**

        - `resolution`: the number of cells along an axis, or of bodies.
        """


class AbstractRefinable(eqx.Module):
    """A system whose fields on a finer grid can be averaged to a coarser one, such as an instrument's cells."""

    @abc.abstractmethod
    def coarsen(self, y: PyTree, factor: int | float) -> PyTree:
        """A state of this (fine) system averaged over blocks of cells.

        **Arguments:**

        - `y`: the state.
        - `factor`: the number of cells of a block along every axis; it divides the shape. A fraction such as 1.5 makes
          blocks that share cells.
        """


class AbstractConstrained(eqx.Module):
    """A system whose states obey a linear or affine constraint, such as zero divergence."""

    @abc.abstractmethod
    def project(self, y: PyTree) -> PyTree:
        """The nearest state that satisfies the constraint. It is applied to initial states."""


class AbstractConservative(eqx.Module):
    """A system with conserved quantities, which its verification checks along a run."""

    @abc.abstractmethod
    def invariants(self, y: PyTree) -> dict[str, Array]:
        """Scalars of a state that the exact flow keeps constant, by name."""


class AbstractExact(eqx.Module):
    """A system with a known exact solution, for its verification."""

    @abc.abstractmethod
    def exact(self, t: Float[Array, ""]) -> PyTree:
        """The exact state at time t, in the system's time unit."""


class AbstractMechanical(eqx.Module):
    """Second-order equations x'' = a(t, x), which symplectic solvers need."""

    @abc.abstractmethod
    def positions(self, y: PyTree) -> PyTree:
        """The positions x of a state, in length units."""

    @abc.abstractmethod
    def velocities(self, y: PyTree) -> PyTree:
        """The velocities v = x' of a state, with the tree and shapes of x."""

    @abc.abstractmethod
    def acceleration(self, t: Array, x: PyTree, args: PyTree) -> PyTree:
        """The acceleration a(t, x), with the tree and shapes of x. It must not depend on v.

        **Arguments:**

        - `t`: the time, in the system's time unit.
        - `x`: the positions.
        - `args`: exogenous inputs, or None.
        """

    @abc.abstractmethod
    def assemble(self, x: PyTree, v: PyTree) -> PyTree:
        """The state with positions x and velocities v."""


class AbstractSwitched(eqx.Module):
    """Equations with switches (thresholds), which automatic differentiation does not see if they are hard.

    `is_smooth` is whether the switches of this system are already smooth.
    """

    is_smooth: eqx.AbstractVar[bool]

    @abc.abstractmethod
    def smoothed(self) -> AbstractSystem:
        """The same system with smooth switches."""


class AbstractStable(eqx.Module):
    """A system that states the largest stable step of an explicit solver."""

    @abc.abstractmethod
    def stable_step(self, y: PyTree) -> float:
        """Largest stable step of the explicit Euler method at the state y, in the system's time unit."""


class AbstractReduced(eqx.Module):
    """A system with a part that depends on parameters alone, such as the rotation of a force."""

    @abc.abstractmethod
    def reduced(self) -> AbstractSystem:
        """An equivalent system with its parameter-dependent part precomputed, used for the steps of every run."""


class AbstractDataState(eqx.Module):
    """A system that constructs whole states from partial observations."""

    @abc.abstractmethod
    def init_from_data(self, observations: Observations, index: int = 0) -> PyTree:
        """A state from observations at one time and around it.

        **Arguments:**

        - `observations`: the record.
        - `index`: the index in `observations.ts` of the required state; by default the start of the record.
        """


class AbstractDriven(eqx.Module):
    """A system that takes some of its inputs from the record, such as the velocity on the rim of a window."""

    @abc.abstractmethod
    def driven_by(
        self, observations: Observations, frames: np.ndarray
    ) -> tuple[AbstractSystem, Observations, tuple[str, ...]]:
        """The system with its inputs, the record without the values used for them, and remarks for the user.

        **Arguments:**

        - `observations`: the record.
        - `frames`: the increasing indices of times that may be read. The other times are held out to judge the fit.
        """


class AbstractDataGuess(eqx.Module):
    """A system that guesses parameters from data."""

    @abc.abstractmethod
    def guess_from_data(self, parameter: str, observations: Observations) -> np.ndarray | None:
        """A guess of a parameter, with its shape and unit; None if the data do not determine it.

        **Arguments:**

        - `parameter`: the name of the parameter.
        - `observations`: the record.
        """


class AbstractDiagnosed(eqx.Module):
    """A system with diagnostic scalars that are recorded over time."""

    @abc.abstractmethod
    def diagnostics(self, t: Array, y: PyTree) -> dict[str, Array]:
        """Scalars of a state, by name.

        Names such as `nusselt_bottom` and `nusselt_top` begin with the quantity, and share its panel.

        **Arguments:**

        - `t`: the time, in the system's time unit.
        - `y`: the state.
        """


class AbstractDerived(eqx.Module):
    """A system with derived fields, such as the pressure of a flow. Films of runs include them."""

    @abc.abstractmethod
    def derived(self, t: Array, y: PyTree) -> dict[str, Array]:
        """Derived fields by name; empty if there are none.

        **Arguments:**

        - `t`: the time, in the system's time unit.
        - `y`: the state.
        """

    @abc.abstractmethod
    def derived_coords(self) -> dict[str, FieldCoords]:
        """Dimensions, coordinates, unit and long name of every derived field, by the field's name."""


class AbstractBaseline(eqx.Module):
    """A system with its own baseline forecast, such as an expert's first attempt.

    Forecasts are compared with it first, then with the last measured frame.

    `baseline_name` is the name of the baseline in tables.
    """

    baseline_name: eqx.AbstractClassVar[str]

    @abc.abstractmethod
    def baseline(self, t0: float, y0: PyTree, ts: np.ndarray) -> dict[str, Any]:
        """A forecast made without solving the system: fields by name, with time as their leading axis.

        **Arguments:**

        - `t0`: the time from which to forecast, in the system's time unit.
        - `y0`: the state at t0.
        - `ts`: the times of the forecast, (n,).
        """
