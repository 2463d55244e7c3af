"""Fields of a run in fields.h5 (observed, predicted, true), and scores of the forecast."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from pdefit._util.trees import named_fields
from pdefit.analysis.forecast.score import score
from pdefit.analysis.forecast.skill import Skill
from pdefit.cli.config.settings import Store
from pdefit.cli.run.experiment import Experiment
from pdefit.data.observations import Observations
from pdefit.data.readers.fields import Film, open_film
from pdefit.inverse.fit.predict import observe, predictions
from pdefit.inverse.fit.result import Fit
from pdefit.inverse.problem.axes import as_fields, film_axes
from pdefit.inverse.problem.problem import Problem
from pdefit.output.store.fields import FieldsFile
from pdefit.output.store.tables import write_rows
from pdefit.systems.capabilities import AbstractDerived, AbstractDiagnosed
from pdefit.systems.coordinates import FieldCoords
from pdefit.systems.filmed import AbstractFilmed
from pdefit.systems.system import AbstractSystem

# the kinds of fields from which a system reads maps and points
_KINDS = ("true", "observed", "predicted")


@eqx.filter_jit
def whole_frame(system: AbstractSystem, t: Array, y: PyTree) -> dict[str, Array]:
    """All stored quantities of a state: its fields, derived fields and diagnostics.

    **Arguments:** `system`, `t`, `y`: the equations, the time and the state.
    """
    more = system.derived(t, y) if isinstance(system, AbstractDerived) else {}
    return named_fields(y) | more | (system.diagnostics(t, y) if isinstance(system, AbstractDiagnosed) else {})


def write_film(exp: Experiment, found: Fit, store: Store, path: Any, title: str) -> tuple[Skill | None, PyTree]:
    """Write fields.h5, and score the forecast; returns the scores and the state at the end of the fit.

    **Arguments:**

    - `exp`, `found`: the experiment and its fit.
    - `store`: the settings of the file's content.
    - `path`, `title`: the path and title of the file.
    """
    problem, record, true_states = found.problem, exp.source.record, exp.source.true_states
    total, true = record.ts.size, None if true_states is None else (exp.truth or problem, true_states)
    axes = film_axes(found.functional.problem, found.functional.observations)
    wanted = store.wanted(axes.fields | axes.measured, total, 3)
    measured = {n: where for n, where in axes.measured.items() if n in wanted}
    fields = problem.coords()
    values, mask = jax.device_get((record.values, record.mask))
    seen = as_fields(problem.observe, {n: np.asarray(x[0]) for n, x in values.items()}, fields)
    kinds = ("predicted", "true") if true else ("predicted",)
    film_kinds = {n: kinds + ("observed",) * (n in seen or n in measured) for n in wanted}
    film_kinds |= {n: (*film_kinds[n], "sigma") for n in measured} | dict.fromkeys(axes.scalars, kinds)
    kept, unit = np.arange(0, total, store.every), problem.system.time_unit
    phase = (np.arange(total) >= exp.fitted).astype(np.int8)
    ahead: list[dict[str, np.ndarray]] = []
    last: PyTree = problem.y0
    with FieldsFile(
        path, record.ts[kept], unit, axes.all, film_kinds, store.dtype, phase[kept], title,
        axes.scalars, axes.derived, measured,
    ) as film:  # fmt: skip
        for i, (state, observed) in enumerate(predictions(found.functional, problem, record)):
            if i < exp.fitted:
                last = state
            else:
                ahead.append(observed)
            if i % store.every:
                continue
            shown = {"predicted": (problem.system, state, observed)}
            if true:
                y = jax.tree.map(lambda x, i=i: jnp.asarray(x[i]), true[1])
                shown["true"] = true[0].system, y, observe(true[0], record, i, y)
            frame = {n: np.where(mask[n][i], x[i], np.nan) for n, x in values.items()}
            plain = as_fields(problem.observe, frame, fields)
            row = {f"{name}_observed": x for name, x in (plain | {n: frame[n] for n in measured}).items()}
            for kind, (system, y, through) in shown.items():
                whole = whole_frame(system, jax.device_put(record.ts[i]), y)
                row |= {f"{axes.named(n)}_{kind}": x for n, x in whole.items()}
                row |= {f"{name}_{kind}": through[name] for name in measured}
            for name in measured:
                sigma = np.asarray(record.sigma[name])
                row[f"{name}_sigma"] = np.broadcast_to(sigma[i % len(sigma)], record.values[name].shape[1:])
            film.append({n: np.asarray(x) for n, x in row.items() if n.rpartition("_")[0] in film_kinds})
    write_maps(problem.system, path, store.dtype, title, lambda: _undone(problem, record.at(kept), measured))
    return (score(found, record, exp.fitted, ahead, last, true) if ahead else None), last


def _undone(problem: Problem, record: Observations, names: Iterable[str]) -> dict[str, np.ndarray]:
    """Frames of fields for maps, with the instrument's gain and offset inverted, if it states the inverse."""
    shapes, before = {n: np.shape(x) for n, x in named_fields(problem.y0).items()}, problem.observe.inverted(record)
    if before is None or problem.observe.relocates:
        return {}
    names = [n for n in names if n in shapes and n in record.values and record.values[n].shape[1:] == shapes[n]]
    return {n: np.where(before.mask[n], before.values[n], np.nan) for n in names}


def write_maps(
    system: AbstractSystem, path: Path, dtype: str, title: str, observed: Callable[[], dict[str, np.ndarray]] = dict
) -> None:
    """Write maps.h5, a film of one frame, and points.csv beside a film, for a system that computes maps from the film.

    **Arguments:**

    - `system`: the equations.
    - `path`: the path of fields.h5.
    - `dtype`, `title`: the number type and title of maps.h5.
    - `observed`: makes the frames of observed fields that the film holds only through an instrument; default none.
    """
    if not isinstance(system, AbstractFilmed):
        return
    maps, coords, kinds, rows = dict[str, np.ndarray](), dict[str, FieldCoords](), dict[str, tuple[str, ...]](), []
    with open_film(path) as film:
        ts, unit = film.ts, film.time_unit

        def frames(kind: str) -> dict[str, Iterable[np.ndarray]]:
            return _frames_of(film, kind) | (observed() if kind == "observed" else {})

        for kind in _KINDS:
            for name, (values, where) in system.maps(ts, frames(kind)).items():
                maps[f"{name}_{kind}"], coords[name], kinds[name] = values, where, (*kinds.get(name, ()), kind)
            columns = system.points(ts, frames(kind))
            for frame, *place in zip(*columns.values(), strict=True):
                rows.append({"kind": kind, "time": ts[frame], **dict(zip(columns, (frame, *place), strict=True))})
    if not maps:
        return
    write_rows(path.with_name("points.csv"), rows)
    with FieldsFile(path.with_name("maps.h5"), ts[:1], unit, coords, kinds, dtype, np.zeros(1), title) as one:
        one.append(maps)


def _frames_of(film: Film, kind: str) -> dict[str, Iterable[np.ndarray]]:
    """All frames of the fields of one kind in a film, by their names in the model."""
    every, states = range(film.ts.size), {f"{n}_state": n for n in film.measured}
    return {
        states.get(name, name): film.frames(name, kind, every)
        for name, field in film.fields.items()
        if kind in field.kinds and name not in film.measured
    }
