"""Interfaces of objectives J(theta): for optimizers, and for certificates, intervals and stages."""

import abc
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from pdefit._util.program import SMALL, Program, values_of
from pdefit._util.trees import taken
from pdefit.adjoints.base import demand_tangents
from pdefit.adjoints.tangent.tangents_together import jvp_many
from pdefit.data.observations import Observations
from pdefit.integrate.adaptive.tolerance import Adaptive
from pdefit.integrate.loop.time_grid import TimeGrid
from pdefit.inverse.controls.theta import Controls
from pdefit.inverse.objective.recording_equations import ArrowEquations, RecordingEquations
from pdefit.inverse.objective.segment_jacobian import ResidualParts, SegmentNormalEquations, refuse_dense
from pdefit.inverse.objective.trajectory_runner import TrajectoryRunner
from pdefit.inverse.problem.problem import Problem
from pdefit.inverse.shooting.formulation import AbstractFormulation

# unknowns of which each is a tangent, and values of a Jacobian that is held (80 MB in float64)
_FEW, _HELD = 100, 10_000_000
# the state that a loop hands from turn to turn
Carry = TypeVar("Carry")
Self = TypeVar("Self", bound="AbstractObjective")


class AbstractEvaluated(abc.ABC):
    """The part of an objective J(theta) that optimizers use. It may run in one program, or in pieces.

    In all methods theta and a direction v are vectors in search space, (p,). `controls` define the meaning of theta.
    """

    controls: Controls

    @abc.abstractmethod
    def value(self, theta: Float[Array, " p"]) -> Float[Array, ""]:
        """J(theta)."""

    @abc.abstractmethod
    def watched_gradient(
        self, theta: Float[Array, " p"]
    ) -> tuple[Float[Array, ""], Float[Array, " p"], Float[Array, ""]]:
        """J, its gradient, and the growth of the adjoint (see `pdefit.integrate.loop.time_loop`)."""

    @abc.abstractmethod
    def gauss_newton_product(self, theta: Float[Array, " p"], v: Float[Array, " p"]) -> Float[Array, " p"]:
        """The product J_r^T J_r v, without storing the Jacobian or residuals."""

    @abc.abstractmethod
    def normal_equations(
        self, theta: Float[Array, " p"]
    ) -> tuple[Float[Array, ""], Float[Array, " p"], Float[Array, "p p"] | ArrowEquations]:
        """J, its gradient J_r^T r and the Gauss-Newton matrix J_r^T J_r; for many recordings in block-arrow form."""

    @abc.abstractmethod
    def repeat(self, condition: Callable[[Carry], Array], body: Callable[[Carry], Carry], carry: Carry) -> Carry:
        """A loop `carry = body(carry)` while `condition(carry)`, which some optimizers run at a point."""

    def value_and_grad(self, theta: Float[Array, " p"]) -> tuple[Float[Array, ""], Float[Array, " p"]]:
        """J and its gradient by the discrete adjoint."""
        return self.watched_gradient(theta)[:2]


class AbstractObjective(eqx.Module, AbstractEvaluated):
    """An objective J(theta) = 1/2 |r(theta)|^2 of p unknowns and m residuals, padding included.

    For many recordings, `problem` and `observations` have a leading axis.

    **Arguments:**

    - `problem`, `observations`: the values that theta does not replace: nominal values, and the record.
    - `controls`: the meaning of theta.
    - `formulation`: the cut of the record into trajectories.
    - `runner`: the solver, the adjoint and the batch of trajectories.
    - `steps`: the tolerance of adaptive steps; None for constant ones.
    - `dt`: the largest constant step, or the smallest adaptive one, in the system's time unit.
    - `asked_solver`, `asked_dt`: the given solver and step; None for a step that was left open.
    """

    problem: eqx.AbstractVar[Problem]
    observations: eqx.AbstractVar[Observations]
    controls: eqx.AbstractVar[Controls]
    formulation: eqx.AbstractVar[AbstractFormulation]
    runner: eqx.AbstractVar[TrajectoryRunner]
    steps: eqx.AbstractVar[Adaptive | None]
    dt: eqx.AbstractVar[float]
    asked_solver: eqx.AbstractVar[diffrax.AbstractSolver]
    asked_dt: eqx.AbstractVar[float | None]
    smooth_tangents: eqx.AbstractVar[bool]

    # by identity, since arrays have no hash: jax.jit takes the methods
    __hash__ = object.__hash__

    @property
    def theta0(self) -> Float[Array, " p"]:
        """theta at the guesses."""
        return self.controls.theta(self.problem)

    @abc.abstractmethod
    def at(self, theta: Float[Array, " p"]) -> Problem:
        """The problem with the values of theta."""

    @property
    @abc.abstractmethod
    def time_grid(self) -> TimeGrid:
        """Time grid of all trajectories."""

    @abc.abstractmethod
    def with_time_grid(self: Self, grid: TimeGrid) -> Self:
        """The objective with other steps for the same trajectories."""

    def halved(self: Self) -> Self:
        """The objective with every step halved."""
        return self.with_time_grid(self.time_grid.halved())

    @abc.abstractmethod
    def by_count(self: Self) -> Self:
        """The objective for programs that run forward only: one program for any step, number of steps and adjoint."""

    @abc.abstractmethod
    def renewed(self: Self, theta: Float[Array, " p"]) -> Self:
        """The objective with the steps of an adaptive pass at theta; unchanged if steps are constant."""

    @abc.abstractmethod
    def step_error(self, theta: Float[Array, " p"]) -> Float[Array, ""]:
        """Largest error of adaptive steps at theta, relative to the tolerance, by one forward run."""

    @abc.abstractmethod
    def guessing(self: Self, theta: Float[Array, " p"]) -> Self:
        """The objective with theta as its guess."""

    @abc.abstractmethod
    def extra_value(self, theta: Float[Array, " p"]) -> Float[Array, ""]:
        """The part of J(theta) from regularizers and priors. It needs no trajectory."""

    # --- what certificates and intervals ask, beside what optimizers do -------------------------------------------------

    @abc.abstractmethod
    def residuals(self, theta: Float[Array, " p"]) -> Float[Array, " m"]:
        """The whole vector r(theta); for the data it is (prediction - data) / sigma.

        In `Functional` the order is as follows, the slowest index first:

        1. the windows of the record; without windows there is one;
        2. the observation times of a window, its start included;
        3. the variables, sorted by name;
        4. the values of a variable, in the order of the array: the last index changes fastest.

        The gaps at the end of a window follow its observations: one value for each element of a node state, in the
        order of `controls.nodes`, and zeros after the last window. Regularizers follow after all windows, in the given
        order. Priors come last, in the order of `controls`, with smoothness priors at the end.

        A missing or unfitted value has an entry of zero. So has the padding of a window up to the longest one, and the
        start of a window, which is the end of the previous one.

        In `Recordings` the vectors of all recordings follow each other, padded to the longest, with regularizers and
        priors of own controls. Regularizers and priors of shared controls follow, and the gauges come last.
        """

    @abc.abstractmethod
    def grouped_equations(self, theta: Float[Array, " p"]) -> SegmentNormalEquations | RecordingEquations:
        """Normal equations of every group of residuals, summed along the trajectories. It is for few controls.

        Neither the Jacobian nor residuals are stored.
        """

    @abc.abstractmethod
    def held_equations(self, theta: Float[Array, " p"]) -> SegmentNormalEquations | RecordingEquations:
        """The same normal equations with their Jacobian, if the objective is `small`."""

    @abc.abstractmethod
    def residual_parts(self, theta: Float[Array, " p"]) -> ResidualParts:
        """Residuals by kind, stacked over recordings, with residuals shared by recordings last in `extra`."""

    @property
    def state_size(self) -> int:
        """Number of values of the stepped states."""
        return values_of(self.problem.y0)

    @property
    def small(self) -> bool:
        """True if states, unknowns and the Jacobian are small; the Jacobian is then stored, and used by tests."""
        values = values_of(self.observations.values)
        return (
            self.state_size < SMALL
            and self.tangents <= _FEW
            and values * self.tangents <= _HELD
            and self.runner.adjoint.has_tangents
            and not self.runner.batch.shares
            and not self.smooth_tangents
            and all(x.dtype == jnp.float64 for x in self.observations.values.values())
        )

    # --- what its residuals are ------------------------------------------------------------------------------------------

    @property
    @abc.abstractmethod
    def tangents(self) -> int:
        """Number of tangents for the Jacobian, each stepped together with the forward run."""

    @property
    @abc.abstractmethod
    def count(self) -> Array | np.ndarray | np.integer:
        """Number of fitted values, as an array, which can be traced."""

    @property
    def observed_values(self) -> int:
        """Number of fitted values."""
        return int(self.count)

    @property
    @abc.abstractmethod
    def continuity_values(self) -> int:
        """Number of continuity residuals (gaps of free node states)."""

    @property
    @abc.abstractmethod
    def groups(self) -> int:
        """Number of segments: independent groups of the residuals of data and gaps."""

    @property
    def no_equations(self) -> ArrowEquations | None:
        """Zero normal equations in the form of `normal_equations`; None for a matrix (p, p), the default."""
        return None

    # --- what follows from these -------------------------------------------------------------------------------------

    def jvp(self, theta: Float[Array, " p"], v: Float[Array, " p"]) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """J and its derivative along a direction v, by the tangent-linear model."""
        demand_tangents(self.runner.adjoint)
        return jax.jvp(self.value, (theta,), (v,))

    def residuals_and_jacobian(self, theta: Float[Array, " p"]) -> tuple[Float[Array, " m"], Float[Array, "m p"]]:
        """r and dr/dtheta by forward mode, all directions at once. It is for few controls."""
        # not the method itself: within a trace JAX would compare the arrays of its object
        refuse_dense(jax.eval_shape(lambda x: self.residuals(x), theta).shape[0], theta.size)
        demand_tangents(self.runner.adjoint)
        r, moved = jvp_many(self.residuals, (theta,), (jnp.eye(theta.size),))
        return r, moved.T

    def jacobian(self, theta: Float[Array, " p"]) -> Float[Array, "m p"]:
        """The Jacobian dr/dtheta."""
        return self.residuals_and_jacobian(theta)[1]

    def normal_equations(self, theta):
        return self.grouped_equations(theta).total()

    def repeat(self, condition, body, carry):
        return lax.while_loop(condition, body, carry)

    # --- variants --------------------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def each(
        self, change: Callable[[Any, Array], tuple[Any, Array]], theta: Float[Array, " p"]
    ) -> tuple[Any, Float[Array, " q"]]:
        """The objective with the `Functional` of every recording changed, and theta converted to it.

        **Arguments:**

        - `change`: maps a functional and its theta to a changed functional and its theta.
        - `theta`: the point, (p,).
        """

    @abc.abstractmethod
    def parts(self, theta: Float[Array, " p"]) -> list[tuple[Any, Array]]:
        """The `Functional` of every recording, with its own theta."""

    @abc.abstractmethod
    def problems_and_steps(self, theta: Float[Array, " p"]) -> list[tuple[Problem, float]]:
        """The problem of every recording, with its largest step."""

    @abc.abstractmethod
    def emptied(self: Self) -> Self:
        """The objective with zeros at all values that theta replaces."""

    def reformulated(self: Self, formulation: AbstractFormulation, theta: Float[Array, " p"]) -> Self:
        """The objective with the record cut in another way, whose shared controls start from theta.

        Node states are made from the data again and are no longer controls, because they belong to the windows for
        which they were declared.

        **Arguments:**

        - `formulation`: the cut of the record.
        - `theta`: the point, (p,).
        """

        def change(part: Any, own: Array) -> tuple[Any, Array]:
            new = part.cut_anew(formulation, own)
            return new, taken(own, slice(new.controls.size))

        return self.each(change, theta)[0]

    def reweighted(self: Self, sigma: Mapping[str, Any]) -> Self:
        """The objective with other sigma of some variables, in the shapes of `observations`."""
        return eqx.tree_at(lambda o: o.observations, self, self.observations.with_sigma(sigma))

    def with_roughness(self: Self, weights: Mapping[str, Array]) -> Self:
        """The objective with other weights of smoothness priors, by path. Only a single record can have them."""
        items = (c.with_priors(c.prior, weights[c.path]) if c.path in weights else c for c in self.controls.items)
        return eqx.tree_at(lambda o: o.controls, self, Controls(tuple(items)))


# for functions that return the kind of objective that they were given
Objective = TypeVar("Objective", bound=AbstractObjective)
# a program of an objective and further arguments
objective_program = partial(Program, size=lambda objective, *_: objective.state_size)
