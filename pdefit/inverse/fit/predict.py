"""Predictions of a fitted model in the units of the data: at the times of a record, between them and beyond."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from pdefit._util.errors import PdefitError, with_space
from pdefit._util.trees import taken
from pdefit.data.observations import Observations
from pdefit.integrate.forward_runs import frames
from pdefit.integrate.loop.time_loop import precision
from pdefit.inverse.fit.result import Fit
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.problem.at_points import At
from pdefit.inverse.problem.axes import observed_axes
from pdefit.inverse.problem.instrument import AbstractObservationOperator, Compose
from pdefit.inverse.problem.problem import Problem
from pdefit.systems.coordinates import FieldCoords

Times = Observations | np.ndarray | Sequence[float]


@dataclasses.dataclass(frozen=True)
class Prediction:
    """Predicted observations over time.

    **Arguments:**

    - `ts`: the times, (T,), in the system's time unit.
    - `values`: the prediction of each observed variable through the instrument, (T, ...), in the unit of the data; NaN
      at points that were not measured.
    - `coords`: for each variable its axes and its unit.
    - `states`: the states of the model, with time as leading axis (T, ...); None by default.
    """

    ts: np.ndarray
    values: dict[str, np.ndarray]
    coords: dict[str, FieldCoords]
    states: PyTree | None = None


def predict(
    fit: Fit[Any], times: Times | None = None, places: Mapping[str, Any] | None = None, states: bool = False
) -> Prediction | list[Prediction]:
    """Predicted observations of a fitted model, through the instrument and in the units of the data.

        found = pdefit.fit(functional)
        there = pdefit.predict(found)                              # at the times of the record
        later = pdefit.predict(found, times=[10.0, 11.0, 12.0])    # between its frames, or beyond it: a forecast
        error = there.values["u"] - functional.observations.values["u"]

    `error` divided by sigma is the residual of the fit. Times held out of the fit are predicted too.

    **Arguments:**

    - `fit`: the result of `pdefit.fit`. For many recordings a list of predictions is returned, one for each.
    - `times`: increasing times (T,), in the system's time unit, not before the start of the trajectory. A record of
      observations gives its times and measured points. Default: the times and points of the fitted record.
    - `places`: new points for variables observed by `At`, (n, d), in the grid's unit of length.
    - `states`: whether states are returned, too; default False. A film of fields may be much larger than its data.
    """
    made = [_prediction(part.functional, part.problem, times, places, states) for part in fit.recordings]
    return made[0] if len(made) == 1 else made


def _prediction(
    functional: Functional, problem: Problem, times: Times | None, places: Mapping[str, Any] | None, states: bool
) -> Prediction:
    record, coords = functional.observations, observed_axes(functional.problem, functional.observations)
    if places is not None:
        points = {name: jnp.asarray(np.asarray(x, float)) for name, x in places.items()}
        problem = eqx.tree_at(lambda p: p.observe, problem, _moved(problem.observe, points))
        record = dataclasses.replace(record, positions=record.positions | {n: x[None] for n, x in points.items()})
        numbers = {n: {f"{n}_point": np.arange(len(x))} for n, x in points.items()}
        coords |= {
            n: dataclasses.replace(coords[n], dims=(*at,), coords=at) for n, at in numbers.items() if n in coords
        }
    if isinstance(times, Observations):
        record = times
    elif times is not None:
        ts = np.atleast_1d(np.asarray(times, float))
        if ts.ndim != 1 or not np.all(np.isfinite(ts)) or np.any(np.diff(ts) <= 0):
            raise PdefitError(f"predict expects increasing finite times, (T,), but got {times!r}")
        moving = [n for n, x in record.positions.items() if x.shape[0] > 1]
        if moving:
            raise PdefitError(f"The points of {', '.join(moving)} differ from time to time; give places with times")
        record = Observations(ts, {}, {}, {}, record.positions)
    kept, seen = list[PyTree](), {name: list[np.ndarray]() for name in coords}
    for state, frame in predictions(functional, problem, record):
        kept += [jax.tree.map(np.asarray, state)] if states else []
        for name, values in frame.items():
            seen[name].append(values)
    together = jax.tree.map(lambda *x: np.stack(x), *kept) if states else None
    return Prediction(record.ts, {name: np.stack(x) for name, x in seen.items() if x}, coords, together)


def _moved(observe: AbstractObservationOperator, points: Mapping[str, Array]) -> AbstractObservationOperator:
    """The instrument without its fixed points, so that new points can be used."""
    parts = observe.operators if isinstance(observe, Compose) else (observe,)
    if not any(isinstance(part, At) for part in parts):
        raise PdefitError(f"places expects an instrument at points (At), but the fit has {type(observe).__name__}")
    free = tuple(dataclasses.replace(part, points=None) if isinstance(part, At) else part for part in parts)
    return Compose(free) if isinstance(observe, Compose) else free[0]


def predictions(
    functional: Functional, problem: Problem, record: Observations
) -> Iterator[tuple[PyTree, dict[str, np.ndarray]]]:
    """The state at each time of a record, and its observation by the instrument.

    **Arguments:** `functional`, `problem`: as in `states_at`; `record`: the record with its times and points.
    """
    for i, state in enumerate(states_at(functional, problem, record.ts)):
        yield state, observe(problem, record, i, state)


def states_at(functional: Functional, problem: Problem, ts: np.ndarray) -> Iterator[PyTree]:
    """States of a fitted model at given times, one after the other. Few are held in memory.

    Every trajectory of the fit runs to the start of the next one, and the last one beyond the record.

    **Arguments:**

    - `functional`: the functional of the fit.
    - `problem`: the fitted model, such as `functional.at(theta)`.
    - `ts`: the times, increasing, (T,), in the system's time unit.
    """
    numerics, begin = functional.numerics(problem), functional.observations.ts[functional.layout.nodes]
    if ts[0] < begin[0]:
        first, asked = (f"{t:g}{with_space(problem.system.time_unit)}" for t in (begin[0], ts[0]))
        raise PdefitError(
            f"The trajectory of the fit begins at t = {first}, but a prediction is asked for {asked}; ask for later times, or "
            f"let the trajectory begin earlier (Observations.with_nothing_at, times.start)"
        )
    # what was seen at a node belongs to the end of the trajectory before
    belongs = np.maximum(np.searchsorted(begin, ts) - 1, 0)
    for s in range(begin.size):
        start = problem.y0 if problem.nodes is None else jax.tree.map(lambda x, s=s: taken(x, s), problem.nodes)
        yield from frames(problem.system, start, ts[belongs == s], numerics, t0=float(begin[s]))


@eqx.filter_jit
def _observation(problem: Problem, t: Array, y: PyTree, positions: dict[str, Array]) -> dict[str, Array]:
    return problem.instrument.placed(positions)(t.astype(precision(y)), y, problem.args)


def observe(problem: Problem, record: Observations, i: int, y: PyTree) -> dict[str, np.ndarray]:
    """Observation of a state by the instrument of a problem; NaN at unmeasured points whose positions change in time.

    **Arguments:**

    - `problem`: the model with its instrument, fitted or true.
    - `record`, `i`: the record, and the index of the time.
    - `y`: the state.
    """
    seen = _observation(problem, jax.device_put(record.ts[i]), y, record.positions_at(i))
    lost = {n: ~np.asarray(record.mask[n][i]) for n, x in record.positions.items() if n in record.mask and len(x) > 1}
    return {n: np.where(lost[n], np.nan, x) if n in lost else np.asarray(x) for n, x in seen.items()}
