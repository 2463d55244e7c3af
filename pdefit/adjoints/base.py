"""Sensitivity algorithms: the gradient of a whole trajectory, and its cost."""

import abc
from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple, TypeVar

import diffrax
import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, PyTree

from pdefit._util.errors import PdefitError
from pdefit.integrate.loop.checkpoint_levels import CheckpointLevels, nest
from pdefit.integrate.loop.reverse_loop import reverse_loop
from pdefit.integrate.loop.stepper import AbstractStepper
from pdefit.integrate.loop.time_grid import TimeGrid
from pdefit.integrate.loop.time_loop import Emit, Probes, checkpoint, forward, store_all, time_loop
from pdefit.systems.system import AbstractSystem


class Account(NamedTuple):
    """The cost of one gradient along one trajectory.

    **Arguments:**

    - `schedule`: a description of the stored values.
    - `stored`: the number of states held at the peak.
    - `padded`: the number of steps of one pass, steps of zero length included.
    - `forward`: the number of forward passes.
    - `reverse`: the number of reverse passes, each of which is the transpose of every step.
    """

    schedule: str
    stored: int
    padded: int
    forward: float
    reverse: float


# levels of checkpoints unless one is enough, and the bytes of states up to which it is: in buffers that outlive a call,
# and in others, which the allocator returns to the system from there on (the most of glibc)
_LEVELS, MOST_KEPT, RETURNED = 2, 2**30, 2**25
# two derivatives of the same discrete map differ by round-off alone
ROUND_OFF = 1e-8
# J of theta and of probes (see `AbstractAdjoint.run`), or of theta and None
Probed = Callable[[Array, PyTree], Array]
Self = TypeVar("Self", bound="AbstractAdjoint")


class AbstractAdjoint(eqx.Module):
    """A sensitivity algorithm: the way in which the time loop is run and differentiated.

    The objective's value does not depend on it. `accuracy` is the relative error that the gradient may have against the
    derivative of the discrete trajectory. `has_tangents` is whether the loop can be differentiated forward.
    `other_steps` is whether it takes steps of other sizes than the time grid.
    """

    accuracy: eqx.AbstractClassVar[float]
    has_tangents: eqx.AbstractClassVar[bool]
    other_steps: ClassVar[bool] = False

    @abc.abstractmethod
    def run(
        self, stepper: AbstractStepper, y0: PyTree, grid: TimeGrid, emit: Emit, inputs: PyTree, probes: Probes = None
    ) -> tuple[PyTree, PyTree]:
        """The final state, and `emit(y, inputs[i])` at every observation i, stacked.

        **Arguments:**

        - `stepper`: the stepper of the state.
        - `y0`: the state at the start.
        - `grid`: the steps, of I intervals.
        - `emit`: what an observation keeps of a state.
        - `inputs`: the second argument of `emit` at each observation, on a leading axis.
        - `probes`: zeros, (I + 1, 2). Their derivative in row i is the norm of the adjoint at the start of interval i, and
          of what the observation at its end adds to it. In the last row it is the norm of what enters at the end of the
          trajectory (see `pdefit.integrate.loop.time_loop`).
        """

    def for_gradients(self, buffers: PyTree = None) -> "AbstractAdjoint":
        """The algorithm as gradients use it, of which nothing is differentiated forward; by default itself.

        **Arguments:** `buffers`: as of `pdefit.integrate.loop.reverse_loop.reverse_loop`.
        """
        return self

    @abc.abstractmethod
    def gradient(
        self, function: Probed, theta: Float[Array, " p"], probes: PyTree, size: Float[Array, " p"]
    ) -> tuple[Float[Array, ""], Float[Array, " p"], PyTree]:
        """Value, gradient, and the derivative by the probes (0 without an adjoint).

        **Arguments:**

        - `function`: J(theta, probes).
        - `theta`: the unknowns, (p,).
        - `probes`: a tree that contains the probes of `run`.
        - `size`: the sizes of the unknowns, (p,). A change by as much changes a control by as much as it is large.
        """

    def resolve_for(
        self: Self, starts: Sequence[tuple[AbstractSystem, PyTree]], grid: TimeGrid, solver: diffrax.AbstractSolver
    ) -> Self:
        """The adjoint with all problem-dependent choices made; unchanged if there are none.

        **Arguments:**

        - `starts`: systems with a state each.
        - `grid`: the steps of all trajectories, on a leading axis.
        - `solver`: the solver of the trajectories.
        """
        return self

    def stacked(self: Self) -> Self:
        """The adjoint of many objectives in one program, without choices made for one of them."""
        return self

    @abc.abstractmethod
    def account(self, grid: TimeGrid, unknowns: int) -> Account:
        """The cost of a gradient.

        **Arguments:**

        - `grid`: the steps of one trajectory.
        - `unknowns`: the number of unknowns.
        """


def demand_events(adjoint: AbstractAdjoint) -> None:
    """Refuse an adjoint whose own steps would pass over events.

    **Arguments:** `adjoint`: the adjoint of a run with events.
    """
    if adjoint.other_steps:
        raise PdefitError(
            f"{type(adjoint).__name__} solves the adjoint equation without events; use adjoint=checkpointed"
        )


def demand_tangents(adjoint: AbstractAdjoint) -> None:
    """Refuse an adjoint that cannot be differentiated forward."""
    if not adjoint.has_tangents:
        raise PdefitError(
            f"{type(adjoint).__name__} is a continuous adjoint and has no tangents, which Jacobians and Gauss-Newton need; "
            f"use stages=lbfgs, or adjoint=checkpointed"
        )


class AbstractReverse(AbstractAdjoint):
    """A sensitivity algorithm whose time loop is differentiated backward."""

    def gradient(self, function, theta, probes, size):
        value, (gradient, by_probes) = jax.value_and_grad(function, argnums=(0, 1))(theta, probes)
        return value, gradient, by_probes


class AbstractForward(AbstractAdjoint):
    """A sensitivity algorithm that finds the gradient by forward runs alone."""

    def run(self, stepper, y0, grid, emit, inputs, probes=None):
        # checkpointed, because a certificate takes products with the transposed Jacobian as well
        return Checkpointed().run(stepper, y0, grid, emit, inputs, probes)


class NoReverse(AbstractForward):
    """The time loop of residuals and their tangents, which has no reverse pass and stores nothing.

    For programs of small objectives that run forward only: each interval takes its own number of steps. Not for fits,
    which ask for gradients.
    """

    accuracy: ClassVar[float] = ROUND_OFF
    has_tangents: ClassVar[bool] = True

    def run(self, stepper, y0, grid, emit, inputs, probes=None):
        end, _, outputs = forward(stepper, y0, grid, lambda _, y, i: (None, emit(y, i)), inputs)
        return end, outputs

    def gradient(self, function, theta, probes, size):
        raise NotImplementedError

    def account(self, grid, unknowns):
        raise NotImplementedError


class StoreAll(AbstractReverse):
    """The discrete adjoint method without checkpoints: every intermediate value of every step is stored.

    For short trajectories, and as a reference. Not for long records, because memory grows with every step
    (`Checkpointed`).

    All other adjoints are tested against it.
    """

    accuracy: ClassVar[float] = ROUND_OFF
    has_tangents: ClassVar[bool] = True

    def run(self, stepper, y0, grid, emit, inputs, probes=None):
        return store_all(stepper, y0, grid, emit, inputs, probes)

    def account(self, grid, unknowns):
        return _account(_nest(grid, 1))


class Checkpointed(AbstractReverse):
    """The discrete adjoint method with checkpoints.

    For almost every fit: its gradient is the derivative of the discrete trajectory, to round-off. Not for a few unknowns
    (`Tangent` stores nothing), or for a trajectory that fits into memory (`StoreAll` runs once).

    For N steps, one level stores N states and runs the trajectory twice. Two levels store about 2 sqrt(N) states and run
    it three times. Three levels store 3 N^(1/3) states and run it four times. A block of an outer level spans several
    observation intervals, or a part of one. The gradient does not depend on the levels, to the bit.

    **Arguments:**

    - `levels`: the number of levels of checkpoints, 1 to 4. By default it is one level if all states take at most 1 GB;
      for longer records, and for several trajectories whose states exceed 32 MB, it is two.
    """

    accuracy: ClassVar[float] = ROUND_OFF
    has_tangents: ClassVar[bool] = True

    levels: int | None = None

    def run(self, stepper, y0, grid, emit, inputs, probes=None):
        # not one level: a loop that is differentiated in another way has no buffers that outlive a call
        nested = _nest(grid, self.levels or _LEVELS)
        return time_loop(stepper, y0, grid, emit, inputs, probes, nested, checkpoint)

    def for_gradients(self, buffers=None):
        return _InPlace(self.depth, buffers=buffers)

    def resolve_for(self, starts, grid, solver):
        one = max(sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(y0)) for _, y0 in starts)
        trajectories = int(np.prod(grid.count.shape[:-1]))
        stored = one * trajectories * _nest(grid, 1).stored
        few = stored <= (MOST_KEPT if trajectories == 1 else RETURNED)
        return _OneLevel() if few and self.levels is None else self.stacked()

    def stacked(self):
        return Checkpointed(self.levels)

    @property
    def depth(self) -> int:
        """Number of levels of checkpoints of a gradient."""
        return self.levels or _LEVELS

    def account(self, grid, unknowns):
        return _account(_nest(grid, self.depth))


class _OneLevel(Checkpointed):
    """Checkpoints whose number of levels is open, for gradients that take one level."""

    @property
    def depth(self):
        return 1


class _InPlace(Checkpointed):
    """The same checkpoints in buffers written in place, without forward-mode derivatives."""

    buffers: PyTree = None

    def run(self, stepper, y0, grid, emit, inputs, probes=None):
        return reverse_loop(stepper, y0, grid, emit, inputs, probes, _nest(grid, self.depth), self.buffers)


def _nest(grid: TimeGrid, levels: int) -> CheckpointLevels:
    return nest(grid.intervals, grid.length, levels)


def _account(loops: CheckpointLevels) -> Account:
    return Account(str(loops), loops.stored, loops.padded, loops.recompute_factor, 1.0)
