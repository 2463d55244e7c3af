"""Sensitivity algorithms: how the gradient of a whole trajectory is computed, and what that costs."""

import abc
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple, TypeVar

import diffrax
import equinox as eqx
import jax
from jaxtyping import Array, Float, PyTree

from pdefit._util.errors import PdefitError
from pdefit.integrate.loop.adjoint_norms import growth
from pdefit.integrate.loop.levels import CheckpointLevels, nest
from pdefit.integrate.loop.stepper import AbstractStepper
from pdefit.integrate.loop.time_grid import TimeGrid
from pdefit.integrate.loop.time_loop import Emit, Probes, checkpoint, store_all, time_loop
from pdefit.systems.system import AbstractSystem


class Account(NamedTuple):
    """One gradient along one trajectory.

    `schedule` in words; `stored` states held at the peak; `padded` steps of one pass, those of zero length included;
    `forward` passes and `reverse` passes: a reverse pass is the transpose of every step, beside the forward passes that it
    needs.
    """

    schedule: str
    stored: int
    padded: int
    forward: float
    reverse: float


# two derivatives of the same discrete map differ by round-off alone
ROUND_OFF = 1e-8
# J of theta and of probes (see `AbstractAdjoint.run`), or of theta and None
Probed = Callable[[Array, Any], Array]
Self = TypeVar("Self", bound="AbstractAdjoint")


class AbstractAdjoint(eqx.Module):
    """A sensitivity algorithm: runs the time loop so that differentiating it costs what the algorithm promises. The value
    never depends on it.

    `accuracy` is the relative error that its gradient may have against the derivative of the discrete trajectory;
    `has_tangents` says whether the loop can be differentiated forward.
    """

    accuracy: eqx.AbstractClassVar[float]
    has_tangents: eqx.AbstractClassVar[bool]

    @abc.abstractmethod
    def run(
        self, stepper: AbstractStepper, y0: PyTree, grid: TimeGrid, emit: Emit, inputs: PyTree, probes: Probes = None
    ) -> tuple[PyTree, PyTree]:
        """The final state, and `emit(y, inputs[i])` at every observation i, stacked.

        The derivative in `probes` (zeros, one row for each interval and one more) is the norm of the adjoint at the
        interval's start and of what the observation at its end adds to it; of the last row, the norm of what comes in at
        the end of the trajectory (see `pdefit.integrate.loop.adjoint_norms`).
        """

    @abc.abstractmethod
    def gradient(
        self, function: Probed, theta: Float[Array, " p"], probes: Any, size: Float[Array, " p"]
    ) -> tuple[Float[Array, ""], Float[Array, " p"], Float[Array, ""]]:
        """Value and gradient of `function(theta, probes)`, and how much the adjoint grew on its way back: 0 where there is
        none. Elements of theta are of this `size`: a change by as much changes a control by as much as it
        is large."""

    @abc.abstractmethod
    def resolve_for(
        self: Self, starts: Sequence[tuple[AbstractSystem, PyTree]], grid: TimeGrid, solver: diffrax.AbstractSolver
    ) -> Self:
        """The adjoint with everything decided that depends on the problem: systems with a state each, a batch of plans, and
        what steps through them."""

    @abc.abstractmethod
    def account(self, grid: TimeGrid, unknowns: int) -> Account:
        """What a gradient in so many unknowns stores and runs."""


def demand_tangents(adjoint: AbstractAdjoint) -> None:
    """Refuse an adjoint that cannot be differentiated forward."""
    if not adjoint.has_tangents:
        raise PdefitError(
            f"{type(adjoint).__name__} is a continuous adjoint and has no tangents, which Jacobians and Gauss-Newton need; "
            f"use stages=lbfgs, or adjoint=checkpointed"
        )


class AbstractReverse(AbstractAdjoint):
    """An algorithm whose time loop is differentiated backward."""

    def gradient(self, function, theta, probes, size):
        value, (gradient, norms) = jax.value_and_grad(function, argnums=(0, 1))(theta, probes)
        return value, gradient, growth(norms)


class StoreAll(AbstractReverse):
    """Keeps every intermediate value of every step: what all others are tested against. For short trajectories only."""

    accuracy: ClassVar[float] = ROUND_OFF
    has_tangents: ClassVar[bool] = True

    def run(self, stepper, y0, grid, emit, inputs, probes=None):
        return store_all(stepper, y0, grid, emit, inputs, probes)

    def resolve_for(self, starts, grid, solver):
        return self

    def account(self, grid, unknowns):
        return _account(_nest(grid, 1))


class Checkpointed(AbstractReverse):
    """Discretise-then-optimise with one to four levels of checkpoints. The gradient is that of the discrete trajectory, to
    round-off, whatever the levels.

    For N steps one level holds N states (and the whole trajectory runs twice), two levels about 2 sqrt(N) (three times),
    three levels 3 N^(1/3) (four times). Blocks of the outer levels span several observation intervals, or a part of one.
    """

    accuracy: ClassVar[float] = ROUND_OFF
    has_tangents: ClassVar[bool] = True

    levels: int = 2

    def run(self, stepper, y0, grid, emit, inputs, probes=None):
        return time_loop(stepper, y0, grid, emit, inputs, probes, _nest(grid, self.levels), checkpoint)

    def resolve_for(self, starts, grid, solver):
        return self

    def account(self, grid, unknowns):
        return _account(_nest(grid, self.levels))


def _nest(grid: TimeGrid, levels: int) -> CheckpointLevels:
    return nest(grid.intervals, grid.length, levels)


def _account(loops: CheckpointLevels) -> Account:
    return Account(str(loops), loops.stored, loops.padded, loops.recompute_factor, 1.0)
