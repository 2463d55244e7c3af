"""Simulated records and twin experiments: data from a model with known parameters."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray, PyTree
from numpy.typing import ArrayLike

from pdefit._util.errors import PdefitError
from pdefit._util.trees import demand_float64, promoted
from pdefit.data.observations import Observations
from pdefit.integrate.adaptive.tolerance import Adaptive
from pdefit.integrate.forward_runs import choose_numerics, frames, states
from pdefit.integrate.loop.time_loop import precision
from pdefit.inverse.problem.instrument import AbstractObservationOperator, ObserveAll
from pdefit.systems.capabilities import AbstractRefinable
from pdefit.systems.events import Event, Events
from pdefit.systems.system import AbstractSystem


def simulate(
    system: AbstractSystem,
    y0: PyTree,
    ts: ArrayLike,
    *,
    solver: diffrax.AbstractSolver | None = None,
    dt: float | None = None,
    steps: Adaptive | None = None,
    observe: AbstractObservationOperator | None = None,
    positions: Mapping[str, ArrayLike] | None = None,
    args: PyTree = None,
    events: Sequence[Event] | Events | None = None,
) -> Observations:
    """Noise-free observations of the solution that starts from y0 at ts[0].

    Their sigma is 1. A non-finite value counts as missing. Steps end at knots at which a `TimeSeries` or an
    `Interpolant` bends by more than they can resolve, so that no pulse is missed. Jumps of other functions of time are
    not detected. Noise of a dense series is ignored up to a tenth of its mean size, if resolving it would more than
    double the steps.

    **Arguments:**

    - `system`: the equations with their parameters.
    - `y0`: the state at ts[0]. Its numbers become float64 if a parameter is float64.
    - `ts`: the times, increasing, (n,), in the system's time unit.
    - `solver`: the time stepping method; default `RK4()`.
    - `dt`: the largest step, in the system's time unit; by default 0.8 of the stable one.
    - `steps`: adaptive steps in place of `dt`.
    - `observe`: the instrument; by default it observes the whole state.
    - `positions`: the coordinates, (n, d) or (T, n, d), of variables observed at points (`At`).
    - `args`: exogenous inputs of the system and of the instrument.
    - `events`: doses, infusions and resets.
    """
    demand_float64()
    y0, ts = promoted(y0, system), np.asarray(ts, np.float64)
    numerics = choose_numerics([(system, y0)], solver, dt, steps, args, Events.along(events, ts))
    film = states(system, y0, ts, numerics, t0=float(ts[0]))
    instrument = (observe or ObserveAll()).on(system).with_system(system)
    where = {name: np.broadcast_to(x, (ts.size, *np.shape(x)[-2:])) for name, x in (positions or {}).items()}
    look = jax.vmap(lambda t, y, x: instrument.placed(x)(t, y, args))
    # what observes the whole state takes no program
    values = (jax.jit(look) if observe else look)(ts.astype(precision(film)), film, where)
    return instrument.located(Observations.build(ts, values, positions=positions))


@dataclasses.dataclass(frozen=True)
class Twin:
    """Description of a twin experiment: the simulation of its data, apart from the model that is fitted.

    **Arguments:**

    - `system`: the true system, on a grid `refine` times finer than the instrument's.
    - `solver`: the time stepping method of the truth.
    - `dt`: its largest step, in the system's time unit; None for the stable one.
    - `refine`: the number of true cells for one of the instrument's along every axis, over which states are averaged;
      default 1. It may be fractional, such as 1.5, for cells that overlap.
    - `noise`: the standard deviation of the noise, as a fraction of each variable's range over the record; default 0.
    - `seed`: the seed of the noise; default 0.
    - `steps`: adaptive steps of the truth in place of `dt`.
    - `events`: doses, infusions and resets.
    """

    system: AbstractSystem
    solver: diffrax.AbstractSolver
    dt: float | None
    refine: int | float = 1
    noise: float = 0.0
    seed: int = 0
    steps: Adaptive | None = None
    events: Events | None = None

    def record(
        self, y0: PyTree, ts: np.ndarray, observe: AbstractObservationOperator, args: PyTree = None
    ) -> tuple[Observations, PyTree]:
        """Noisy record of this truth, and the true states on the instrument's grid with time as leading axis.

        **Arguments:**

        - `y0`: the initial state on the truth's own fine grid.
        - `ts`: the times, increasing, (n,), in the system's time unit.
        - `observe`: the instrument, which is applied to averaged states.
        - `args`: exogenous inputs of the system and of the instrument.
        """
        states = self.film(y0, ts, args)
        return self.observed(states, ts, observe, args), states

    def film(self, y0: PyTree, ts: np.ndarray, args: PyTree = None) -> PyTree:
        """True states on the instrument's grid with time as leading axis, in host memory.

        **Arguments:** as in `record`.
        """
        numerics = choose_numerics(
            [(self.system, y0)], self.solver, self.dt, self.steps, args, Events.along(self.events, ts)
        )
        averaged = eqx.filter_jit(self.averaged)
        # the film may be longer than what is fitted, which is all that a device must hold
        film = [jax.tree.map(np.asarray, averaged(y)) for y in frames(self.system, y0, ts, numerics, t0=float(ts[0]))]
        return jax.tree.map(lambda *x: np.stack(x), *film)

    def observed(
        self, states: PyTree, ts: np.ndarray, observe: AbstractObservationOperator, args: PyTree = None
    ) -> Observations:
        """Noisy record of true states.

        **Arguments:** `states`: the result of `film`; the others as in `record`.
        """
        times = jnp.asarray(ts, precision(states))
        clean = Observations.build(ts, jax.vmap(lambda t, y: observe(t, y, args))(times, states))
        if not all(bool(np.all(np.asarray(m))) for m in clean.mask.values()):
            raise PdefitError("The twin's truth is not finite: its step is too large; set twin.dt smaller")
        # what saturates is the noisy value
        return observe.located(add_noise(clean, self.noise, jax.random.key(self.seed)))

    @property
    def averaged(self) -> Callable[[PyTree], PyTree]:
        """Map from a state on the truth's grid to the instrument's grid."""
        if self.refine == 1:
            return lambda y: y
        if not isinstance(self.system, AbstractRefinable):
            raise PdefitError(f"{type(self.system).__name__} cannot average a finer grid; set twin.refine=1")
        return lambda y: self.system.coarsen(y, self.refine)  # pyright: ignore[reportAttributeAccessIssue]


def add_noise(clean: Observations, fraction: float, key: PRNGKeyArray) -> Observations:
    """Observations with Gaussian noise of sigma = fraction * (max - min) of each variable over the record.

    Missing values stay missing, and are excluded from the range. With fraction 0 no noise is added, and sigma is the
    range itself, so that all variables have equal weight.

    **Arguments:**

    - `clean`: observations without noise; some may be missing.
    - `fraction`: the standard deviation of the noise in units of each variable's range, 0 or more.
    - `key`: the random key of the noise.
    """
    if fraction < 0:
        raise PdefitError(f"noise is a fraction of each variable's range and cannot be {fraction}")
    values: dict[str, Any] = {}
    sigma: dict[str, Any] = {}
    for i, (name, value) in enumerate(clean.values.items()):
        mask = np.asarray(clean.mask[name])
        span = float(np.ptp(np.asarray(value)[mask])) if mask.any() else 0.0
        span = span or 1.0
        sigma[name] = fraction * span if fraction else span
        draw = jax.random.normal(jax.random.fold_in(key, i), value.shape, value.dtype)
        values[name] = np.where(mask, np.asarray(value) + fraction * span * np.asarray(draw), np.nan)
    return Observations.build(clean.ts, values, sigma, clean.positions)
