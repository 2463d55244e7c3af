"""Sensitivity of the observations to each parameter, by runs with the parameter multiplied and divided by a factor."""

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from typing import Any

import diffrax
import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree
from numpy.typing import ArrayLike

from pdefit._util.errors import PdefitError
from pdefit.adjoints.base import StoreAll
from pdefit.integrate.adaptive.tolerance import Adaptive
from pdefit.integrate.forward_runs import Numerics, choose_numerics
from pdefit.integrate.loop.stable_step import settle, stability_limit
from pdefit.integrate.loop.stepper import Stepper
from pdefit.integrate.loop.time_grid import TimeGrid
from pdefit.integrate.loop.time_loop import precision
from pdefit.integrate.solvers.rk4 import RK4
from pdefit.inverse.controls.paths import declaration
from pdefit.inverse.problem.problem import Problem
from pdefit.systems.system import AbstractSystem, parameters

# fraction of the stability limit that is used, because a perturbed parameter may lower it
_SAFETY = 0.95


@dataclasses.dataclass(frozen=True)
class Effect:
    """Effect of one parameter on the observations.

    **Arguments:**

    - `parameter`, `unit`, `value`: its name, unit and value; the value is None unless it is one number.
    - `larger`, `smaller`: rms change of the observations when the parameter is multiplied, and when it is divided, in
      units of the range of each observed field. Infinite if the run blows up.
    - `left_out`: the reason why neither effect was computed; empty if both were.
    """

    parameter: str
    unit: str
    value: float | None
    larger: float | None
    smaller: float | None
    left_out: str = ""

    @property
    def size(self) -> float:
        """The larger of the two effects, by which parameters are ranked; -1 if neither was computed."""
        return -1.0 if self.larger is None or self.smaller is None else max(self.larger, self.smaller)


@dataclasses.dataclass(frozen=True)
class Sensitivity:
    """Effects of all parameters on the observations.

    **Arguments:**

    - `effects`: the strongest first; parameters without effects come last.
    - `factor`: the change of a parameter.
    - `frames`: the number of times at which runs were compared.
    - `controls`: parameters that a fit estimates; default none.
    """

    effects: tuple[Effect, ...]
    factor: float
    frames: int
    controls: tuple[str, ...] = ()

    def rows(self) -> list[dict[str, Any]]:
        """Table rows, one for each parameter. The effect of a run that blew up is infinite."""
        return [
            {
                "rank": None if e.left_out else k + 1,
                "parameter": e.parameter,
                "unit": e.unit,
                "value": e.value,
                "effect_larger": e.larger,
                "effect_smaller": e.smaller,
                "blows_up": not e.left_out and not np.isfinite(e.size),
                "control": e.parameter in self.controls,
                "left_out": e.left_out,
            }
            for k, e in enumerate(self.effects)
        ]

    def record(self) -> dict[str, Any]:
        """The content of sensitivity.json."""
        return {"factor": self.factor, "frames": self.frames, "parameters": self.rows()}


def sensitivity(
    problem: Problem,
    ts: ArrayLike,
    *,
    factor: float = 1.5,
    solver: diffrax.AbstractSolver | None = None,
    dt: float | None = None,
    steps: Adaptive | None = None,
    said: Callable[[int, int, str], None] = lambda done, of, what: None,
) -> Sensitivity:
    """Effects of all scalar parameters of a problem.

        effect = sqrt(mean over fields of mean over times and points of ((u' - u) / (max u - min u))^2)

    u is what the problem observes, and u' the same with one parameter multiplied or divided by `factor`. The initial
    state does not change. A constant field is divided by its largest value instead of its range, or by 1 if it is zero.
    Parameters that are zero, arrays and modules are left out, because one factor does not describe a change of them.

    All runs take the same steps, which are stable for each of them, so that effects exclude time step errors.
    Adaptive steps are chosen anew for each run. Only the unperturbed run is kept in memory.

    **Arguments:**

    - `problem`: the system, its initial state at ts[0], and its instrument.
    - `ts` (T,): times at which runs are compared, in the system's time unit.
    - `factor`: the change of a parameter; above 1.
    - `solver`: default RK4.
    - `dt`: the largest time step, in the system's time unit (default: 0.8 of the step that is stable for all runs). Steps
      are smaller if a perturbed system needs it.
    - `steps`: adaptive steps, in place of `dt`.
    - `said`: called with the number of finished parameters, the number of all, and the name of the next.

    Raises `PdefitError` if the unperturbed run is not finite.
    """
    if not (np.isfinite(factor) and factor > 1):
        raise PdefitError(f"sensitivity expects a factor above 1, but got {factor:g}")
    problem, ts = problem.started(), np.asarray(ts, np.float64)
    solver = RK4() if solver is None else solver
    left_out = list[Effect]()
    perturbed: dict[str, tuple[Problem, Problem]] = {}
    of_instrument = [f"observe.{n}" for n in parameters(problem.observe) if getattr(problem.observe, n) is not None]
    for name in [*parameters(problem.system), *of_instrument]:
        try:
            pair = (_scaled(problem, name, factor), _scaled(problem, name, 1 / factor))
            # raises where the perturbed system has no stable step, which leaves the parameter out
            [stability_limit(p.system, p.y0, settle([], None, solver)) for p in pair]
            perturbed[name] = pair
        except PdefitError as error:
            left_out.append(_effect(problem, name, None, None, str(error)))
    everything = [(p.system, p.y0) for pair in [(problem,), *perturbed.values()] for p in pair]
    numerics = choose_numerics(everything, solver, dt, steps, problem.args, problem.events)
    runs = _Runs(problem, ts, _stable_for_all(everything, numerics))
    effects = []
    for k, (name, pair) in enumerate(perturbed.items()):
        said(k, len(perturbed), name)
        larger, smaller = map(runs.distance, pair)
        effects.append(_effect(problem, name, larger, smaller))
    said(len(perturbed), len(perturbed), "")
    return Sensitivity((*sorted(effects, key=lambda e: -e.size), *left_out), factor, ts.size)


def _stable_for_all(problems: list[tuple[AbstractSystem, PyTree]], numerics: Numerics) -> Numerics:
    """Constant steps below the stability limits of all systems, with a margin."""
    if numerics.steps is not None:
        return numerics
    limits = [stability_limit(system, y, numerics.solver) for system, y in problems]
    stable = min((_SAFETY * limit for limit in limits if limit is not None), default=np.inf)
    return numerics._replace(dt=min(numerics.dt, stable))


class _Runs:
    """The unperturbed run, and the distance of perturbed runs from it."""

    def __init__(self, problem: Problem, ts: np.ndarray, numerics: Numerics):
        self._problem, self._ts, self._numerics = problem, ts, numerics
        self._film = _film(numerics.stepper(problem.system), problem, ts, self._grid(problem.system))
        wrong = [name for name, film in self._film.items() if not bool(jnp.all(jnp.isfinite(film)))]
        if wrong:
            raise PdefitError(f"The unperturbed run is not finite in {wrong[0]}; set dt smaller, or see pdefit doctor")
        self._range = {name: _range(film) for name, film in self._film.items()}

    def distance(self, problem: Problem) -> float:
        """The rms difference from the unperturbed run in units of ranges; infinite if a run blows up."""
        try:
            grid = self._grid(problem.system)
        # adaptive steps that become too small: the system blows up
        except PdefitError:
            return np.inf
        stepper = self._numerics.stepper(problem.system)
        squares = _squares(stepper, problem, self._ts, grid, self._film, self._range)
        rms = float(np.sqrt(squares))
        return rms if np.isfinite(rms) else np.inf

    def _grid(self, system: AbstractSystem) -> TimeGrid:
        return self._numerics.grid(system, self._problem.y0, self._ts, float(self._ts[0]))


# the system is an argument and no constant, so that one compiled program serves all parameters
@eqx.filter_jit
def _film(stepper: Stepper, problem: Problem, ts: Array | np.ndarray, grid: TimeGrid) -> dict[str, Array]:
    def emit(y: PyTree, t: Array) -> dict[str, Array]:
        return problem.instrument(t.astype(precision(y)), y, problem.args)

    return StoreAll().run(stepper.prepared(grid), problem.y0, grid, emit, ts)[1]


@eqx.filter_jit
def _squares(
    stepper: Stepper,
    problem: Problem,
    ts: Array | np.ndarray,
    grid: TimeGrid,
    film: dict[str, Array],
    ranges: dict[str, Array],
) -> Float[Array, ""]:
    """The mean squared difference from the unperturbed run, in units of ranges."""

    def emit(y: PyTree, before: tuple[Array, dict[str, Array]]) -> Array:
        t, unperturbed = before
        now = problem.instrument(t.astype(precision(y)), y, problem.args)
        off = [(x.astype(jnp.float64) - unperturbed[name]) / ranges[name] for name, x in now.items()]
        return jnp.mean(jnp.stack([jnp.mean(jnp.square(x)) for x in off]))

    return jnp.mean(StoreAll().run(stepper.prepared(grid), problem.y0, grid, emit, (ts, film))[1])


def _range(film: Array) -> Float[Array, ""]:
    span, size = (x.astype(jnp.float64) for x in (jnp.max(film) - jnp.min(film), jnp.max(jnp.abs(film))))
    return jnp.where(span > 0, span, jnp.where(size > 0, size, 1.0))


def _scaled(problem: Problem, name: str, factor: float) -> Problem:
    """The problem with one parameter multiplied by a factor."""
    value = (where := _where(name))(problem)
    if not eqx.is_array(value):
        raise PdefitError(f"a module, {type(value).__name__}")
    if value.ndim:
        raise PdefitError(f"an array of {value.size} values")
    if not bool(value != 0):
        raise PdefitError("zero, which a factor does not move")
    # a Python number does not change the dtype of the array
    return eqx.tree_at(where, problem, value * factor).started()


def _where(name: str) -> Callable[[Problem], Array]:
    """The function from a problem to a parameter of its system, or of its observation operator (`observe.gain`)."""
    return attrgetter(name if name.startswith("observe.") else f"system.{name}")


def _effect(problem: Problem, name: str, larger: float | None, smaller: float | None, left_out: str = "") -> Effect:
    value, info = _where(name)(problem), declaration(problem, name)
    number = float(value) if eqx.is_array(value) and value.ndim == 0 else None
    return Effect(name, "1" if info is None else info.unit, number, larger, smaller, left_out)
