"""Which parameters matter: how far the film moves when one of them is multiplied or divided."""

import dataclasses
from collections.abc import Callable

import diffrax
import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree
from numpy.typing import ArrayLike

from pdefit._util.errors import PdefitError
from pdefit.adjoints.base import StoreAll
from pdefit.integrate.adaptive.tolerance import Adaptive
from pdefit.integrate.loop.stable_step import settle, stability_limit
from pdefit.integrate.loop.stepper import Stepper
from pdefit.integrate.loop.time_grid import TimeGrid
from pdefit.integrate.numerics import Numerics, choose_numerics
from pdefit.integrate.solvers.rk4 import RK4
from pdefit.inverse.problem.instrument import AbstractObservationOperator
from pdefit.inverse.problem.problem import Problem
from pdefit.systems.system import AbstractSystem, parameters

# of the stability limit, which a perturbed parameter may lower
_SAFETY = 0.95


@dataclasses.dataclass(frozen=True)
class Effect:
    """What one parameter does to the film.

    `larger` the distance of the film with the parameter multiplied by the factor, `smaller` with it divided; in units of
    the range of each observed field. Infinite where the run blows up. `left_out` says why neither was computed.
    """

    parameter: str
    unit: str
    value: float | None
    larger: float | None
    smaller: float | None
    left_out: str = ""

    @property
    def size(self) -> float:
        """The larger of the two; -1 where it was left out."""
        return -1.0 if self.larger is None or self.smaller is None else max(self.larger, self.smaller)


def sensitivity(
    problem: Problem,
    ts: ArrayLike,
    *,
    factor: float = 1.5,
    solver: diffrax.AbstractSolver | None = None,
    dt: float | None = None,
    steps: Adaptive | None = None,
    said: Callable[[int, int, str], None] = lambda done, of, what: None,
) -> list[Effect]:
    """The effect of every scalar parameter of the system, the strongest first, what was left out last.

        effect = sqrt(mean over fields of mean over times and points of ((u' - u) / (max u - min u))^2)

    u is what the problem observes from y0 at ts[0], u' the same with one parameter times or over `factor`; y0 stays. Fields
    that do not change are divided by their largest value, by 1 where that is zero. All runs take the same steps: of at most
    `dt` (default: 0.8 of what is stable for all of them), and less where a perturbed system needs it; adaptive `steps` are
    chosen anew for each. No film but the first is held. Left out are parameters that are zero, which a factor does not
    move, arrays and modules. `said` hears how many runs are done, of how many, and the next.
    """
    if not (np.isfinite(factor) and factor > 1):
        raise PdefitError(f"sensitivity expects a factor above 1, but got {factor:g}")
    ts = np.asarray(ts, np.float64)
    solver = RK4() if solver is None else solver
    system, left_out = problem.system, []
    perturbed: dict[str, tuple[AbstractSystem, AbstractSystem]] = {}
    for name in parameters(system):
        try:
            pair = (_scaled(system, name, factor), _scaled(system, name, 1 / factor))
            # a system that has no stable step there cannot be run there
            [stability_limit(s, problem.y0, settle([], None, solver)) for s in pair]
            perturbed[name] = pair
        except PdefitError as error:
            left_out.append(_effect(system, name, None, None, str(error)))
    everything = [(s, problem.y0) for pair in [(system,), *perturbed.values()] for s in pair]
    runs = _Runs(problem, ts, _stable_for_all(everything, choose_numerics(everything, solver, dt, steps, problem.args)))
    found = []
    for k, (name, pair) in enumerate(perturbed.items()):
        said(k, len(perturbed), name)
        larger, smaller = map(runs.distance, pair)
        found.append(_effect(system, name, larger, smaller))
    said(len(perturbed), len(perturbed), "")
    return sorted(found, key=lambda e: -e.size) + left_out


def _stable_for_all(problems: list[tuple[AbstractSystem, PyTree]], numerics: Numerics) -> Numerics:
    """Constant steps below the stability limit of every system, with a margin."""
    if numerics.steps is not None:
        return numerics
    limits = [stability_limit(system, y, numerics.solver) for system, y in problems]
    stable = min((_SAFETY * limit for limit in limits if limit is not None), default=np.inf)
    return numerics._replace(dt=min(numerics.dt, stable))


class _Runs:
    """The film of a problem, and how far others are from it."""

    def __init__(self, problem: Problem, ts: np.ndarray, numerics: Numerics):
        self._problem, self._ts, self._numerics = problem, ts, numerics
        self._film = _film(numerics.stepper(problem.system), problem.y0, problem.observe, self._grid(problem.system))
        wrong = [name for name, film in self._film.items() if not bool(jnp.all(jnp.isfinite(film)))]
        if wrong:
            raise PdefitError(f"The unperturbed run is not finite in {wrong[0]}; set dt smaller, or see pdefit doctor")
        self._range = {name: _range(film) for name, film in self._film.items()}

    def distance(self, system: AbstractSystem) -> float:
        """The rms difference from the film in units of ranges; infinite where the system blows up."""
        try:
            grid = self._grid(system)
        # adaptive steps that collapse
        except PdefitError:
            return np.inf
        observe, film = self._problem.observe, self._film
        squares = _squares(self._numerics.stepper(system), self._problem.y0, observe, grid, film, self._range)
        found = float(np.sqrt(squares))
        return found if np.isfinite(found) else np.inf

    def _grid(self, system: AbstractSystem) -> TimeGrid:
        return self._numerics.grid(system, self._problem.y0, self._ts, float(self._ts[0]))


# the system is an argument: one program for all of its parameters
@eqx.filter_jit
def _film(stepper: Stepper, y0: PyTree, observe: AbstractObservationOperator, grid: TimeGrid) -> dict[str, Array]:
    times = np.zeros(grid.count.size + grid.observes_start)
    return StoreAll().run(stepper, y0, grid, lambda y, _: observe(y), times)[1]


@eqx.filter_jit
def _squares(
    stepper: Stepper,
    y0: PyTree,
    observe: AbstractObservationOperator,
    grid: TimeGrid,
    film: dict[str, Array],
    ranges: dict[str, Array],
) -> Float[Array, ""]:
    """The mean squared difference from a film, in units of ranges."""

    def emit(y: PyTree, seen: dict[str, Array]) -> Array:
        off = [(x.astype(jnp.float64) - seen[name]) / ranges[name] for name, x in observe(y).items()]
        return jnp.mean(jnp.stack([jnp.mean(jnp.square(x)) for x in off]))

    return jnp.mean(StoreAll().run(stepper, y0, grid, emit, film)[1])


def _range(film: Array) -> Float[Array, ""]:
    span, size = (x.astype(jnp.float64) for x in (jnp.max(film) - jnp.min(film), jnp.max(jnp.abs(film))))
    return jnp.where(span > 0, span, jnp.where(size > 0, size, 1.0))


def _scaled(system: AbstractSystem, name: str, factor: float) -> AbstractSystem:
    """The system with one of its parameters times a factor."""
    value = getattr(system, name)
    if not eqx.is_array(value):
        raise PdefitError(f"a module, {type(value).__name__}")
    if value.ndim:
        raise PdefitError(f"an array of {value.size} values")
    if not bool(value != 0):
        raise PdefitError("zero, which a factor does not move")
    # times a Python number: the type stays
    return eqx.tree_at(lambda s: getattr(s, name), system, value * factor)


def _effect(
    system: AbstractSystem, name: str, larger: float | None, smaller: float | None, left_out: str = ""
) -> Effect:
    value = getattr(system, name)
    number = float(value) if eqx.is_array(value) and value.ndim == 0 else None
    return Effect(name, parameters(system)[name].unit, number, larger, smaller, left_out)
