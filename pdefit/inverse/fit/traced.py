"""Drivers, which evaluate functionals for a fit, and the driver with everything on the device."""

import abc

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
from pdefit.inverse.linear.conjugate_gradients import in_turn
from pdefit.inverse.objective.abstract import AbstractEvaluated, AbstractObjective
from pdefit.inverse.objective.compiled import GRADIENT, PRODUCT, VALUE, Equations, LowestEquations
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.objective.kept_gradient import keeps
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
        if optimizer.tangents or (keeps(functional) and not optimizer.most_products):
            # one program for fits, certificates and intervals
            return chunk.one_by_one(_ByPrograms(self, functional), functional, optimizer, carry, limit)
        taken, carry, log = jax.block_until_ready(chunk.advance(functional, optimizer, carry, jnp.asarray(limit)))
        return int(taken), on_one_device(carry), jax.device_get(log)

    def value(self, functional, theta):
        return VALUE(functional, theta)

    def watched_gradient(self, functional, theta):
        return GRADIENT(functional, theta)

    def product(self, functional, theta, v):
        self.close()
        return PRODUCT(functional, theta, v)

    def normal_equations(self, functional, theta):
        self.close()
        return self._lowest(functional, theta)[1]

    def equations_at(self, functional, theta):
        return self._lowest.at(functional, theta)

    def close(self):
        """Free the checkpoints that outlive a gradient; other derivatives need the memory for their own."""
        GRADIENT.held.clear()


class _ByPrograms(AbstractEvaluated):
    """An objective evaluated by the programs of a driver, one evaluation at a time."""

    def __init__(self, driver: AbstractDriver, functional: AbstractObjective):
        self.controls, self._driver, self._functional = functional.controls, driver, functional

    def value(self, theta):
        return self._driver.value(self._functional, theta)

    def watched_gradient(self, theta):
        return self._driver.watched_gradient(self._functional, theta)

    def gauss_newton_product(self, theta, v):
        return self._driver.product(self._functional, theta, v)

    def normal_equations(self, theta):
        return self._driver.normal_equations(self._functional, theta)

    def repeat(self, condition, body, carry):
        return in_turn(condition, body, carry)
