"""The interface of the residual map r(theta) of one record, for sums along its trajectories and their tangents."""

import abc

import equinox as eqx
from jaxtyping import Array, Float, PyTree

from pdefit.inverse.controls.vector import Controls
from pdefit.inverse.objective.residuals import ObservationSchedule, TrajectoryRunner
from pdefit.inverse.problem.problem import Problem
from pdefit.inverse.shooting.formulation import Layout


class AbstractResidualMap(eqx.Module):
    """The residual map r(theta) of one record, without derivatives.

        r = (W (H(t_i, y(t_i), args) - d_i), gaps between segments, regularizers, priors)

    W divides by sigma, H is the observation operator, and d_i are the data at time t_i. Derivatives are functions of
    this map, and the functional that offers them is one. So they know the map, and not the functional.

    **Arguments:**

    - `problem`, `controls`: the nominal values, and what theta stands for.
    - `layout`: the record cut into S segments of I observations each.
    - `runner`: the solver, the adjoint and the batch of trajectories.
    - `smooth_tangents`: whether derivatives follow the smooth twin of hard switches.
    """

    problem: eqx.AbstractVar[Problem]
    controls: eqx.AbstractVar[Controls]
    layout: eqx.AbstractVar[Layout]
    runner: eqx.AbstractVar[TrajectoryRunner]
    smooth_tangents: eqx.AbstractVar[bool]

    @abc.abstractmethod
    def at(self, theta: Float[Array, " p"]) -> Problem:
        """The problem that theta stands for."""

    @abc.abstractmethod
    def starts(self, problem: Problem) -> PyTree:
        """The states from which the trajectories of all segments start, with a leading axis."""

    @property
    @abc.abstractmethod
    def schedule(self) -> ObservationSchedule:
        """The whole record, as the formulation cuts it."""

    @abc.abstractmethod
    def ends_and_starts(self, theta: Float[Array, " p"], ends: PyTree) -> list[Float[Array, "S n"]]:
        """The free fields at the ends and at the starts of all segments, divided by the standard deviation of a gap.

        **Arguments:**

        - `theta`: the unknowns, (p,).
        - `ends`: the states at the ends of the segments, (S, ...).
        """

    @abc.abstractmethod
    def remaining_residuals(self, theta: Float[Array, " p"], ends: PyTree) -> list[Array]:
        """Residuals of gaps, of regularizers and of priors, for given states at the ends of the segments."""

    @abc.abstractmethod
    def extra_residuals(self, theta: Float[Array, " p"]) -> list[Array]:
        """Residuals of regularizers and priors."""

    @property
    @abc.abstractmethod
    def observed_values(self) -> int:
        """The number of measured values that are fitted."""
