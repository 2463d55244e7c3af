"""The interfaces of objectives J(theta): what optimizers ask, and what certificates, intervals and stages ask beside it."""

import abc
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from pdefit._util.program import SMALL, values_of
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

    In all methods theta and a direction v are vectors in search space, (p,). `controls` is what theta stands for.
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
        """The product J_r^T J_r v, without the Jacobian and without holding residuals."""

    @abc.abstractmethod
    def normal_equations(
        self, theta: Float[Array, " p"]
    ) -> tuple[Float[Array, ""], Float[Array, " p"], Float[Array, "p p"] | ArrowEquations]:
        """J, its gradient J_r^T r and the Gauss-Newton matrix J_r^T J_r, of many recordings as an arrow."""

    @abc.abstractmethod
    def repeat(self, condition: Callable[[Carry], Array], body: Callable[[Carry], Carry], carry: Carry) -> Carry:
        """A loop `carry = body(carry)` while `condition(carry)`, which some optimizers run at a point."""

    def value_and_grad(self, theta: Float[Array, " p"]) -> tuple[Float[Array, ""], Float[Array, " p"]]:
        """J and its gradient by the discrete adjoint."""
        return self.watched_gradient(theta)[:2]


class AbstractObjective(eqx.Module, AbstractEvaluated):
    """An objective J(theta) = 1/2 |r(theta)|^2 of p unknowns and m residuals, padding included.

    If there are many recordings, `problem` and `observations` have a leading axis of them.

    **Arguments:**

    - `problem`, `observations`: what theta does not replace: nominal values, and the record.
    - `controls`: what theta stands for.
    - `formulation`: how the record is cut into trajectories.
    - `runner`: the solver, the adjoint and the batch of trajectories.
    - `steps`: the tolerance of adaptive steps; None for constant ones.
    - `dt`: the largest constant step, or the smallest adaptive one, in the system's time unit.
    - `asked_solver`, `asked_dt`: solver and step as they were given; None for a step that was left open.
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
        """The vector at the guesses."""
        return self.controls.theta(self.problem)

    @abc.abstractmethod
    def at(self, theta: Float[Array, " p"]) -> Problem:
        """The problem that theta stands for."""

    @property
    @abc.abstractmethod
    def time_grid(self) -> TimeGrid:
        """The steps of all trajectories."""

    @abc.abstractmethod
    def with_time_grid(self: Self, grid: TimeGrid) -> Self:
        """The same objective with other steps of the same trajectories."""

    @abc.abstractmethod
    def renewed(self: Self, theta: Float[Array, " p"]) -> Self:
        """The same objective with the steps that an adaptive pass takes at theta; itself if steps are constant."""

    @abc.abstractmethod
    def step_error(self, theta: Float[Array, " p"]) -> Float[Array, ""]:
        """The largest error of adaptive steps at theta, 1 at the tolerance, by one forward run."""

    @abc.abstractmethod
    def guessing(self: Self, theta: Float[Array, " p"]) -> Self:
        """The same objective whose guess is theta."""

    @abc.abstractmethod
    def extra_value(self, theta: Float[Array, " p"]) -> Float[Array, ""]:
        """The part of J(theta) that regularizers and priors make. It needs no trajectory."""

    # --- what certificates and intervals ask, beside what optimizers do -------------------------------------------------

    @abc.abstractmethod
    def residuals(self, theta: Float[Array, " p"]) -> Float[Array, " m"]:
        """The whole vector r(theta), of which the part of the data is prediction minus data over sigma.

        In `Functional` the order is, from what changes slowest:

        1. the windows of the record; without windows there is one;
        2. the observation times of a window, its start included;
        3. the variables, sorted by name;
        4. the values of a variable, in the order of the array: the last index changes fastest.

        The gaps at the end of a window stand behind its observations: a value for each element of a node state, in the
        order of `controls.nodes`, and zeros behind the last window. Regularizers follow behind all windows, in the order
        in which they were given. Priors come last, in the order of `controls`, with smoothness priors at the end.

        A value that is missing or not fitted has a place with a zero. So has what fills a window up to the longest, and
        the start of a window, which is the end of the window before.

        In `Recordings` the vectors of all recordings follow each other, padded to the length of the longest, with
        regularizers and priors of own controls. Regularizers and priors of shared controls follow, and the gauges come
        last.
        """

    @abc.abstractmethod
    def grouped_equations(self, theta: Float[Array, " p"]) -> SegmentNormalEquations | RecordingEquations:
        """The normal equations of every group of residuals, summed while the trajectories run. It is for few controls.

        Neither the Jacobian nor residuals are held.
        """

    @abc.abstractmethod
    def held_equations(self, theta: Float[Array, " p"]) -> SegmentNormalEquations | RecordingEquations:
        """The same normal equations, if the objective is `small`, with their Jacobian."""

    @abc.abstractmethod
    def residual_parts(self, theta: Float[Array, " p"]) -> ResidualParts:
        """The residuals by their kind, of recordings stacked, with those that recordings share last in `extra`."""

    @property
    def state_size(self) -> int:
        """The number of values of the states that a run steps."""
        return values_of(self.problem.y0)

    @property
    def small(self) -> bool:
        """Test for small states, few unknowns and a small Jacobian, which is held and tested by itself."""
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
        """The number of tangents of the Jacobian, each of which is stepped beside a forward run of everything."""

    @property
    @abc.abstractmethod
    def count(self) -> Array | np.ndarray | np.integer:
        """The number of measured values that are fitted, as an array, which can be traced."""

    @property
    def observed_values(self) -> int:
        """The number of measured values that are fitted."""
        return int(self.count)

    @property
    @abc.abstractmethod
    def continuity_values(self) -> int:
        """The number of continuity residuals, gaps of free node states."""

    @property
    @abc.abstractmethod
    def groups(self) -> int:
        """The number of segments: independent groups of the residuals of data and gaps."""

    @property
    def no_equations(self) -> ArrowEquations | None:
        """Normal equations of zero in the form of `normal_equations`; None for a matrix (p, p), the default."""
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
        """The same objective with the `Functional` of every recording changed, and the point that theta is there.

        **Arguments:**

        - `change`: from a functional and its theta to a changed functional and its theta.
        - `theta`: the point, (p,).
        """

    @abc.abstractmethod
    def parts(self, theta: Float[Array, " p"]) -> list[tuple[Any, Array]]:
        """The `Functional` of every recording, and its own theta."""

    @abc.abstractmethod
    def problems_and_steps(self, theta: Float[Array, " p"]) -> list[tuple[Problem, float]]:
        """The problem of every recording, and its largest step."""

    @abc.abstractmethod
    def emptied(self: Self) -> Self:
        """The objective with zeros at all values that theta replaces."""

    def reformulated(self: Self, formulation: AbstractFormulation, theta: Float[Array, " p"]) -> Self:
        """The same objective with the record cut in another way, whose shared controls start from theta.

        Node states are made of the data again and are no controls any more, because they belong to the windows for
        which they were declared.

        **Arguments:**

        - `formulation`: how the record is cut.
        - `theta`: the point, (p,).
        """

        def change(part: Any, own: Array) -> tuple[Any, Array]:
            new = part.cut_anew(formulation, own)
            return new, taken(own, slice(new.controls.size))

        return self.each(change, theta)[0]

    def reweighted(self: Self, sigma: Mapping[str, Any]) -> Self:
        """The same objective with other sigma of some variables, in the shapes that `observations` have."""
        return eqx.tree_at(lambda o: o.observations, self, self.observations.with_sigma(sigma))

    def with_roughness(self: Self, weights: Mapping[str, Array]) -> Self:
        """The same objective with other weights of smoothness priors, by path. Only a single record can have them."""
        items = (c.with_priors(c.prior, weights[c.path]) if c.path in weights else c for c in self.controls.items)
        return eqx.tree_at(lambda o: o.controls, self, Controls(tuple(items)))


# for functions that return the kind of objective that they were given
Objective = TypeVar("Objective", bound=AbstractObjective)
