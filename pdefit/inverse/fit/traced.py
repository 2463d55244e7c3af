"""Drivers, which evaluate functionals for a fit, and the driver with everything on the device."""

import abc
import functools
from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pdefit._util.errors import PdefitError
from pdefit._util.memory import in_words, size_in_bytes
from pdefit.adjoints.base import Checkpointed
from pdefit.integrate.loop.batch import on_one_device
from pdefit.integrate.loop.checkpoint_levels import MOST_LEVELS, cheapest, nest
from pdefit.inverse.fit import compiled_loop as chunk
from pdefit.inverse.fit.compiled_loop import Carry, EvaluationLog
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.objective.compiled import GRADIENT, PRODUCT, VALUE, Equations, LowestEquations
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.objective.recording_equations import ArrowEquations
from pdefit.inverse.offload.cost import Cost, analysed, gradient_cost, tangent_cost, trial
from pdefit.inverse.optimizers.base import AbstractOptimizer

Size = str | float | int


class AbstractDriver(abc.ABC):
    """Evaluation of functionals for optimizers.

    Drivers give the same values and derivatives to round-off. They differ in memory and time. In all methods theta and v
    are vectors in search space, (p,).
    """

    @abc.abstractmethod
    def resolve_for(self, functional: Functional) -> Functional:
        """The functional with an adjoint within the driver's memory budget."""

    @abc.abstractmethod
    def cost(self, functional: Functional, tangents: bool, rate: float | None = None) -> Cost:
        """Cost of an evaluation, estimated before it runs.

        **Arguments:**

        - `functional`: the functional.
        - `tangents`: whether normal equations are evaluated by tangents, rather than a gradient.
        - `rate`: the seconds per unit of `cost.work`; by default a run measures it.
        """

    @abc.abstractmethod
    def advance(
        self, functional: AbstractObjective, optimizer: AbstractOptimizer, carry: Carry, limit: int
    ) -> tuple[int, Carry, EvaluationLog]:
        """Run up to `limit` evaluations of an optimizer, with the log of each.

        **Arguments:**

        - `functional`: the objective.
        - `optimizer`: the method.
        - `carry`: its state, and the best point so far.
        - `limit`: the largest number of evaluations. 0 only compiles, if compilation can be separated.
        """

    @abc.abstractmethod
    def value(self, functional: AbstractObjective, theta: Float[Array, " p"]) -> Float[Array, ""]:
        """J(theta) as computed by the driver."""

    @abc.abstractmethod
    def watched_gradient(
        self, functional: AbstractObjective, theta: Float[Array, " p"]
    ) -> tuple[Float[Array, ""], Float[Array, " p"], Float[Array, ""]]:
        """J, its gradient, and the growth of the adjoint in the reverse pass, in the form used by optimizers."""

    @abc.abstractmethod
    def product(
        self, functional: AbstractObjective, theta: Float[Array, " p"], v: Float[Array, " p"]
    ) -> Float[Array, " p"]:
        """The product J_r^T J_r v, in the form used by optimizers."""

    @abc.abstractmethod
    def normal_equations(
        self, functional: AbstractObjective, theta: Float[Array, " p"]
    ) -> tuple[Float[Array, ""], Float[Array, " p"], Float[Array, "p p"] | ArrowEquations]:
        """J, J_r^T r and J_r^T J_r, in the form used by optimizers."""

    def value_for(
        self, optimizer: AbstractOptimizer, functional: AbstractObjective, theta: Float[np.ndarray | Array, " p"]
    ) -> float:
        """J by the optimizer's own program if the objective is small, otherwise by a program of J alone."""
        if functional.small and optimizer.tangents:
            return float(self.normal_equations(functional, jnp.asarray(theta))[0])
        return float(self.value(functional, jnp.asarray(theta)))

    def equations_at(self, functional: AbstractObjective, theta: Float[Array, " p"]) -> Equations | None:
        """Normal equations at a point, if they are known because J there was the lowest so far; None otherwise."""
        return None

    @abc.abstractmethod
    def close(self) -> None:
        """Drop all checkpoints, and remove their files."""


class Traced(AbstractDriver):
    """The driver with everything on the device, and many evaluations in one compiled loop.

    For everything that fits into the device: it is the fastest. Not for records whose checkpoints do not fit, even with
    more levels of checkpoints (`Hosted`).

    **Arguments:**

    - `memory`: a budget for gradients, such as "500 MB", or in bytes. They use the fewest levels of checkpoints within
      it. By default the functional's own adjoint decides.
    """

    def __init__(self, memory: Size | None = None):
        self.memory = None if memory is None else size_in_bytes(memory, "driver.memory")
        self._lowest = LowestEquations()

    def resolve_for(self, functional):
        if self.memory is None:
            return functional
        tried, layout = trial(functional), functional.layout
        one = tried.state_bytes * functional.runner.batch.at_once(layout.segments) / layout.segments
        loops = cheapest(layout.time_grid.intervals, layout.time_grid.length, (self.memory - tried.working) / one)
        if loops is None:
            least = nest(layout.time_grid.intervals, layout.time_grid.length, MOST_LEVELS).stored * one + tried.working
            raise PdefitError(
                f"A gradient takes at least {in_words(least)} on the device, more than driver.memory = "
                f"{in_words(self.memory)}; set it higher, or use driver=hosted"
            )
        return eqx.tree_at(lambda f: f.runner.adjoint, functional, Checkpointed(loops.levels))

    def cost(self, functional, tangents, rate=None):
        if tangents:
            return tangent_cost(functional, rate)
        return gradient_cost(functional, analysed(functional, rate) if self.memory is None else trial(functional))

    def advance(self, functional, optimizer, carry, limit):
        if optimizer.tangents:
            # one program for fits, certificates and intervals
            compiled = SimpleNamespace(normal_equations=functools.partial(self.normal_equations, functional))
            return chunk.one_by_one(compiled, functional, optimizer, carry, limit)
        taken, carry, log = jax.block_until_ready(chunk.advance(functional, optimizer, carry, jnp.asarray(limit)))
        return int(taken), on_one_device(carry), jax.device_get(log)

    def value(self, functional, theta):
        return VALUE(functional, theta)

    def watched_gradient(self, functional, theta):
        return GRADIENT(functional, theta)

    def product(self, functional, theta, v):
        return PRODUCT(functional, theta, v)

    def normal_equations(self, functional, theta):
        return self._lowest(functional, theta)[1]

    def equations_at(self, functional, theta):
        return self._lowest.at(functional, theta)

    def close(self):
        """No effect, since nothing is stored."""
