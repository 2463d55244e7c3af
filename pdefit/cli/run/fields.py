"""Fields that a run leaves in fields.h5 (observed, predicted, true), and scores of the forecast."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from pdefit._util.trees import named_fields
from pdefit.analysis.forecast.skill import Skill, skill
from pdefit.cli.config.settings import Store
from pdefit.cli.run.experiment import Experiment
from pdefit.cli.run.positions import measured_coords
from pdefit.data.observations import Observations
from pdefit.data.readers.fields import Film, open_film
from pdefit.integrate.loop.time_loop import precision
from pdefit.integrate.solve import frames
from pdefit.inverse.fit.fit import Fit
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.problem.problem import Problem
from pdefit.output.store.fields import FieldsFile
from pdefit.output.store.tables import write_rows
from pdefit.systems.capabilities import AbstractBaseline, AbstractDerived, AbstractDiagnosed, FieldCoords
from pdefit.systems.fields import derived_coords, field_coords
from pdefit.systems.filmed import AbstractFilmed
from pdefit.systems.system import AbstractSystem

# the kinds of fields from which a system reads maps and points
_KINDS = ("true", "observed", "predicted")


def predicted(exp: Experiment, functional: Functional, problem: Problem) -> Iterator[PyTree]:
    """States of a model at every time of the record.

    They come segment by segment over the fit, and then go on from its end.

    **Arguments:**

    - `exp`: the experiment.
    - `functional`: of the fit.
    - `problem`: the model, such as `functional.at(theta)`.
    """
    numerics = functional.numerics(problem)
    layout, ts = functional.layout, exp.source.record.ts
    starts = functional.formulation.starts(problem.y0, problem.nodes)
    state = jax.tree.map(lambda x: x[0], starts)
    if not layout.time_grid.observes_start:
        yield state
    for s in range(layout.segments):
        state = jax.tree.map(lambda x, s=s: x[s], starts)
        when = ts[layout.index[s][layout.counts[s]]]
        for frame in frames(problem.system, state, when, numerics, t0=float(ts[layout.nodes[s]])):
            state = frame
            yield frame
    yield from frames(problem.system, state, ts[exp.fitted :], numerics, t0=float(ts[exp.fitted - 1]))


@eqx.filter_jit
def diagnosed(system: AbstractSystem, t: Array, y: PyTree) -> dict[str, Array]:
    """Diagnostics of a state by name; none of a system that has none."""
    return system.diagnostics(t, y) if isinstance(system, AbstractDiagnosed) else {}


@eqx.filter_jit
def derived(system: AbstractSystem, t: Array, y: PyTree) -> dict[str, Array]:
    """Derived fields of a state by name; none of a system that has none."""
    return system.derived(t, y) if isinstance(system, AbstractDerived) else {}


def diagnostic_coords(system: AbstractSystem, y: PyTree) -> dict[str, FieldCoords]:
    """Scalars without axes, one for each of a system's diagnostics and in their order."""
    names: list[str] = []
    if isinstance(system, AbstractDiagnosed):
        # not what this returns: jit returns mappings in alphabetical order
        jax.eval_shape(lambda t, y: names.extend(system.diagnostics(t, y)), jnp.zeros(()), y)
    return {name: FieldCoords((), {}, long_name=name.replace("_", " ")) for name in names}


def whole_frame(system: AbstractSystem, t: float, y: PyTree) -> dict[str, Array]:
    """All that a film has of a state: its fields, those that are derived, and diagnostics.

    **Arguments:** `system`, `t`, `y`: the equations, the time and the state.
    """
    when = jnp.asarray(t)
    return named_fields(y) | derived(system, when, y) | diagnosed(system, when, y)


def write_film(exp: Experiment, found: Fit, store: Store, path: Any, title: str) -> tuple[Skill | None, PyTree]:
    """Write fields.h5, and score the forecast on the way; returns the scores and the state at the end of the fit.

    **Arguments:**

    - `exp`, `found`: the experiment and its fit.
    - `store`: what is written.
    - `path`, `title`: of the file.
    """
    problem, record = found.problem, exp.source.record
    total = record.ts.size
    more, fields = derived_coords(problem.system), field_coords(problem.system, problem.y0)
    coords, scalars = fields | more, diagnostic_coords(problem.system, problem.y0)
    measured = measured_coords(found.functional, coords | scalars)
    wanted = store.wanted(coords | measured, total, 3)
    frame_shapes = {n: np.shape(x) for n, x in named_fields(problem.y0).items()}
    seen = [n for n, x in _observed(exp, problem, 0, coords).items() if x.shape == frame_shapes.get(n)]
    film_kinds = {
        name: ("predicted",)
        + (("observed",) if name in seen else ())
        + (("true",) if exp.source.true_states is not None else ())
        + (("observed", "sigma") if name in measured else ())
        for name in wanted
    }
    measured = {name: where for name, where in measured.items() if name in wanted}
    true_system = problem.system if exp.truth is None else exp.truth.system
    film_kinds |= dict.fromkeys(scalars, ("predicted",) if exp.source.true_states is None else ("predicted", "true"))
    kept = np.arange(0, total, store.every)
    phase = (np.arange(total) >= exp.fitted).astype(np.int8)
    ahead: list[dict[str, np.ndarray]] = []
    last: PyTree = problem.y0
    unit = problem.system.time_unit
    where, ts = coords | scalars | measured, record.ts[kept]
    with FieldsFile(
        path, ts, unit, where, film_kinds, store.dtype, phase[kept], title, scalars, more, measured
    ) as film:
        for i, state in enumerate(predicted(exp, found.functional, problem)):
            if i < exp.fitted:
                last = state
            else:
                ahead.append(_observe(problem, record, i, state))
            if i % store.every:
                continue
            shown = {"predicted": (problem.system, problem, state)}
            if exp.source.true_states is not None:
                y = jax.tree.map(lambda x, i=i: jnp.asarray(x[i]), exp.source.true_states)
                shown["true"] = true_system, exp.truth or problem, y
            row = {
                f"{name}_{kind}": np.asarray(x)
                for kind, (system, by, y) in shown.items()
                for name, x in (
                    whole_frame(system, record.ts[i], y) | (_observe(by, record, i, y) if measured else {})
                ).items()
                if name in film_kinds
            }
            for name in measured:
                sigma = np.asarray(record.sigma[name])
                row[f"{name}_observed"] = np.where(record.mask[name][i], record.values[name][i], np.nan)
                row[f"{name}_sigma"] = np.broadcast_to(sigma[i % len(sigma)], record.values[name].shape[1:])
            for name, values in _observed(exp, problem, i, coords).items():
                if "observed" in film_kinds.get(name, ()):
                    row[f"{name}_observed"] = values
            film.append(row)
    write_maps(problem.system, path, store.dtype, title)
    return (_skill(exp, found, ahead, last, coords) if ahead else None), last


def write_maps(system: AbstractSystem, path: Path, dtype: str, title: str) -> None:
    """Write maps.h5, a film of one frame, and points.csv beside a film, for a system that reads them from it.

    **Arguments:**

    - `system`: the equations.
    - `path`: of fields.h5.
    - `dtype`, `title`: of maps.h5.
    """
    if not isinstance(system, AbstractFilmed):
        return
    maps, coords, kinds, rows = dict[str, np.ndarray](), dict[str, FieldCoords](), dict[str, tuple[str, ...]](), []
    with open_film(path) as film:
        ts, unit = film.ts, film.time_unit
        for kind in _KINDS:
            for name, (values, where) in system.maps(ts, _frames_of(film, kind)).items():
                maps[f"{name}_{kind}"], coords[name], kinds[name] = values, where, (*kinds.get(name, ()), kind)
            columns = system.points(ts, _frames_of(film, kind))
            for frame, *place in zip(*columns.values(), strict=True):
                rows.append({"kind": kind, "time": ts[frame], **dict(zip(columns, (frame, *place), strict=True))})
    if not maps:
        return
    write_rows(path.with_name("points.csv"), rows)
    with FieldsFile(path.with_name("maps.h5"), ts[:1], unit, coords, kinds, dtype, np.zeros(1), title) as one:
        one.append(maps)


def _frames_of(film: Film, kind: str) -> dict[str, Iterator[np.ndarray]]:
    """All frames of the fields that a film has in a kind."""
    every = range(film.ts.size)
    return {name: film.frames(name, kind, every) for name, field in film.fields.items() if kind in field.kinds}


@eqx.filter_jit
def _observation(by: Problem, t: Array, y: PyTree, positions: dict[str, Array]) -> dict[str, Array]:
    return by.instrument.placed(positions)(t.astype(precision(y)), y, by.args)


def _observe(by: Problem, record: Observations, i: int, y: PyTree) -> dict[str, np.ndarray]:
    """Observation of a state by the instrument of a problem, at time `i` of a record."""
    found = _observation(by, jnp.asarray(record.ts[i]), y, record.positions_at(i))
    return {name: np.asarray(x) for name, x in found.items()}


def _observed(exp: Experiment, problem: Problem, i: int, coords: dict[str, FieldCoords]) -> dict[str, np.ndarray]:
    """Observed values of a frame that may lie on the points of their fields, without gain and offset. NaN means missing."""
    record = exp.source.record.at(slice(i, i + 1))
    record = problem.observe.inverted(record) or record
    frame = {
        n: np.where(np.asarray(record.mask[n][0]), np.asarray(x[0]), np.nan)
        for n, x in record.values.items()
        if n not in record.positions
    }
    return problem.observe.returned(frame, coords)


def _skill(exp: Experiment, found: Fit, ahead: list[dict[str, np.ndarray]], last: PyTree, coords: Any) -> Skill:
    """Scores of the forecast against the truth (or the observations) and against a baseline from the same state."""
    problem, later = found.problem, slice(exp.fitted, None)
    record = exp.source.record
    ts, t0 = record.ts[later], float(record.ts[exp.fitted - 1])
    # in the order of the state: jit returns mappings in alphabetical order
    where = [record.positions_at(i) for i in range(exp.fitted, record.ts.size)]
    positions = jax.tree.map(lambda *x: jnp.stack(x), *where)
    times = jnp.asarray(ts, precision(last))

    def observed(by: Problem, states: PyTree) -> dict[str, np.ndarray]:
        look = jax.vmap(lambda t, y, x: by.instrument.placed(x)(t, y, by.args))
        return {n: np.asarray(v) for n, v in look(times, states, positions).items()}

    names = sorted(ahead[0], key=[*named_fields(problem.y0), *ahead[0]].index)
    forecast = {n: np.stack([a[n] for a in ahead]) for n in names}
    if isinstance(problem.system, AbstractBaseline):
        whole = problem.system.baseline(t0, last, ts)
        state = jax.tree.unflatten(jax.tree.structure(last), [whole[n] for n in named_fields(last)])
        baseline = observed(problem, state)
    else:
        baseline = observed(problem, jax.tree.map(lambda x: jnp.broadcast_to(x, (ts.size, *jnp.shape(x))), last))
    if exp.source.true_states is not None:
        # through the true instrument, with the true inputs
        truth = observed(exp.truth or problem, jax.tree.map(lambda x: x[later], exp.source.true_states))
    else:
        truth = {
            n: np.where(np.asarray(record.mask[n][later]), np.asarray(record.values[n][later]), np.nan) for n in names
        }
    first = coords.get(names[0])
    labels = first.coords[first.dims[0]] if first and first.dims else np.zeros(0)
    named = tuple(map(str, labels)) if labels.dtype.kind in "US" else ()
    spread = next((n for n in names if n in coords and _is_spread(coords[n])), None)
    return skill(ts, t0, forecast, baseline, truth, named, spread)


def _is_spread(where: FieldCoords) -> bool:
    """Whether a field lives on a grid: along an axis with positions, not labels or numbers."""
    return any(np.asarray(values).dtype.kind == "f" for values in where.coords.values())
