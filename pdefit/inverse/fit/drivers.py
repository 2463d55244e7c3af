"""The driver that evaluates a functional piece by piece along the record."""

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
from jaxtyping import Array, PyTree

from pdefit._util.errors import PdefitError
from pdefit._util.memory import in_words, size_in_bytes
from pdefit.adjoints.base import Checkpointed
from pdefit.integrate.loop.checkpoint_levels import MOST_LEVELS, cheapest
from pdefit.inverse.fit import compiled_loop as chunk
from pdefit.inverse.fit.traced import AbstractDriver as AbstractDriver
from pdefit.inverse.fit.traced import Size
from pdefit.inverse.fit.traced import Traced as Traced
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.objective.accumulate import Misfit
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.offload.cost import Cost, Trial, state_bytes, tangent_cost, trial
from pdefit.inverse.offload.hosted import HostedFunctional, OffloadedRun
from pdefit.inverse.offload.planner import OffloadPlan, plan_offload
from pdefit.inverse.offload.schedule import StorageTier
from pdefit.inverse.offload.stores import IN_FLIGHT, CheckpointStore, HostStore, InMemory, TargetSource
from pdefit.inverse.offload.time_chunks import TimeChunks
from pdefit.inverse.optimizers.base import AbstractOptimizer

# opens a file that keeps so many states with these leaves
OpenFile = Callable[[Sequence[jax.ShapeDtypeStruct], int], CheckpointStore]


class Hosted(AbstractDriver):
    """The driver that runs piece by piece, with checkpoints outside the device.

    For records whose checkpoints do not fit into the device. Not for many recordings at once, or for problems that
    `Traced` can hold, because it is slower.

    **Arguments:**

    - `device`: the memory limit on the device, such as "64 MB", or in bytes; default "1 GB".
    - `host`: the memory for checkpoints in the host; default "4 GB".
    - `file`: the space for checkpoints in a file; default 0.
    - `open_file`: opens the file. It is called with the leaves of a state and the number of states, and returns a
      store.
    - `targets`: the source of the observations, if they are not in memory.
    """

    def __init__(
        self,
        device: Size = "1 GB",
        host: Size = "4 GB",
        file: Size = 0,
        *,
        open_file: OpenFile | None = None,
        targets: TargetSource | None = None,
    ):
        self.device = size_in_bytes(device, "driver.device")
        self.tiers = {
            StorageTier.HOST: size_in_bytes(host, "driver.host"),
            StorageTier.FILE: size_in_bytes(file, "driver.file"),
        }
        self.open_file, self.targets = open_file, targets
        self._tried: Trial | None = None
        self._last: tuple[Functional, HostedFunctional] | None = None

    def resolve_for(self, functional):
        # for what is differentiated on the whole record at once, a certificate above all
        grid, room = functional.layout.time_grid, self._room(functional, _state(functional))
        loops = cheapest(grid.intervals, grid.length, room)
        levels = MOST_LEVELS if loops is None else loops.levels
        return eqx.tree_at(lambda f: f.runner.adjoint, functional, Checkpointed(levels))

    def cost(self, functional, tangents, rate=None):
        if tangents:
            return tangent_cost(functional, rate)
        tried, course = self._trial(functional), self.course(functional, _state(functional))
        used, size = course.schedule.peak, tried.state_bytes
        forward, back = self.functional(functional).warm_up(functional.theta0)
        return Cost(
            driver="hosted",
            schedule=str(course),
            steps=functional.layout.time_grid.longest,
            state_bytes=size,
            stored_states=course.nest.stored,
            working_bytes=tried.working,
            # states on their way to the file and back are in host memory, too
            host_bytes=(used.get(StorageTier.HOST, 0) + IN_FLIGHT * (used.get(StorageTier.FILE, 0) > 0)) * size,
            file_bytes=used.get(StorageTier.FILE, 0) * size,
            recompute_factor=course.recompute_factor,
            seconds=course.schedule.advanced * forward + course.schedule.blocks * back,
            seconds_forward=course.schedule.blocks * forward,
        )

    def advance(self, functional, optimizer, carry, limit):
        hosted = self.functional(functional)
        if limit == 0 and not optimizer.tangents:
            hosted.warm_up(_ask(optimizer, carry.state))
        return chunk.one_by_one(hosted, functional, optimizer, carry, limit)

    def value(self, functional, theta):
        return self.functional(functional).value(theta)

    def watched_gradient(self, functional, theta):
        return self.functional(functional).watched_gradient(theta)

    def product(self, functional, theta, v):
        return self.functional(functional).gauss_newton_product(theta, v)

    def normal_equations(self, functional, theta):
        return self.functional(functional).normal_equations(theta)

    def functional(self, functional: AbstractObjective) -> HostedFunctional:
        """The functional in the form that is evaluated piece by piece."""
        assert isinstance(functional, Functional)
        if self._last is None or self._last[0] is not functional:
            self.close()
            self._last = functional, HostedFunctional(functional, lambda like: self._route(functional, like))
        return self._last[1]

    def close(self):
        if self._last is not None:
            self._last[1].close()
            self._last = None

    def course(self, functional: Functional, like: PyTree) -> OffloadPlan:
        """The plan for trajectories of a functional within the memory budgets.

        **Arguments:**

        - `functional`: the functional.
        - `like`: arrays with the shapes and types of a state.
        """
        grid, one = functional.layout.time_grid, state_bytes(like)
        slots = {tier: int(size // one) for tier, size in self.tiers.items()}
        return plan_offload(grid.intervals, grid.length, self._room(functional, like), slots)

    def _room(self, functional: Functional, like: PyTree) -> int:
        """Number of states that fit on the device in addition to the memory for differentiation."""
        work, one = self._trial(functional).working, state_bytes(like)
        room = int((self.device - work) // one)
        if room < 2:
            raise PdefitError(
                f"Differentiating one step takes {in_words(work + 2 * one)}, more than driver.device = "
                f"{in_words(self.device)}; set it higher, or use a smaller grid"
            )
        return room

    def _trial(self, functional: Functional) -> Trial:
        """Cost of a step, measured once, since it does not depend on the record."""
        if self._tried is None:
            self._tried = trial(functional)
        return self._tried

    def _route(self, functional: Functional, like: PyTree) -> OffloadedRun:
        course = self.course(functional, like)
        targets = InMemory(functional.observations) if self.targets is None else self.targets
        used = course.schedule.peak.get(StorageTier.FILE, 0)
        stores: dict[StorageTier, CheckpointStore] = {StorageTier.HOST: HostStore()}
        if used:
            if self.open_file is None:
                raise PdefitError("Checkpoints in a file expect open_file, which makes it; or set file=0")
            stores[StorageTier.FILE] = self.open_file(jax.tree.leaves(like), used)
        pieces = TimeChunks(functional.schedule, course.cut, targets)
        return OffloadedRun(pieces, Checkpointed(course.nest.levels), course.schedule, stores)


def _state(functional: Functional) -> PyTree:
    return jax.eval_shape(lambda x: Misfit(functional).start(x), functional.theta0)


@eqx.filter_jit
def _ask(optimizer: AbstractOptimizer, state: PyTree) -> Array:
    return optimizer.ask(state)
