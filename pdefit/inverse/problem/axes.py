"""Axes of fields for files and pictures: of the state, derived and diagnosed fields, observed variables, and controls."""

import dataclasses
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from pdefit.data.observations import Observations
from pdefit.inverse.problem.instrument import AbstractObservationOperator
from pdefit.inverse.problem.observed_fields import positions_of
from pdefit.inverse.problem.problem import Problem
from pdefit.systems.capabilities import AbstractDerived, AbstractDiagnosed
from pdefit.systems.coordinates import FieldCoords


@dataclasses.dataclass(frozen=True)
class FilmAxes:
    """Axes of everything in a film of a model, by the names in the film.

    **Arguments:**

    - `fields`: the fields of a state, followed by derived fields.
    - `derived`: the names of the derived fields.
    - `scalars`: the diagnostics, which have no axes.
    - `measured`: the instrument's observations, apart from the fields.
    - `names`: names in the film that differ from the model's: `u_state` beside `u`, which the instrument derives from
      it.
    """

    fields: dict[str, FieldCoords]
    derived: list[str]
    scalars: dict[str, FieldCoords]
    measured: dict[str, FieldCoords]
    names: dict[str, str]

    @property
    def all(self) -> dict[str, FieldCoords]:
        """The axes of everything in the film."""
        return self.fields | self.scalars | self.measured

    def named(self, name: str) -> str:
        """Name of a model's field in the film."""
        return self.names.get(name, name)


def film_axes(problem: Problem, record: Observations | None = None) -> FilmAxes:
    """Axes of a film of a model.

    **Arguments:**

    - `problem`: the model.
    - `record`: the observations, if the film holds the instrument's view of states; default None.
    """
    system, measured, scalars = problem.system, dict[str, FieldCoords](), list[str]()
    derived = system.derived_coords() if isinstance(system, AbstractDerived) else {}
    fields = problem.coords() | derived
    if record is not None:
        plain = as_fields(problem.observe, {n: np.zeros(x.shape) for n, x in problem.observed(record).items()}, fields)
        measured = {n: where for n, where in observed_axes(problem, record).items() if n not in plain}
    if isinstance(system, AbstractDiagnosed):
        # not what this returns: jit returns mappings in alphabetical order
        jax.eval_shape(lambda t, y: scalars.extend(system.diagnostics(t, y)), jnp.zeros(()), problem.y0)
    names = {n: f"{n}_state" for n in (*fields, *scalars) if n in measured}
    return FilmAxes(
        {names.get(n, n): where for n, where in fields.items()},
        [names.get(n, n) for n in derived],
        {names.get(n, n): FieldCoords((), {}, long_name=n.replace("_", " ")) for n in scalars},
        measured,
        names,
    )


def file_name(path: str) -> str:
    """Name of a control in files: `y0.v[3]` is `v_3`."""
    return path.removeprefix("y0.").replace(".", "_").replace("[", "_").rstrip("]")


def as_fields(
    instrument: AbstractObservationOperator, frame: Mapping[str, np.ndarray], fields: Mapping[str, FieldCoords]
) -> dict[str, np.ndarray]:
    """Observed values that are values of fields at their points; empty if the instrument observes something else.

    **Arguments:**

    - `instrument`: the observation operator.
    - `frame`: the values of every variable at one time, NaN if missing.
    - `fields`: the axes of each field.
    """
    shown = instrument.returned(frame, fields)
    return {n: x for n, x in shown.items() if n in fields and np.shape(x) == fields[n].shape}


def observed_axes(problem: Problem, data: Observations) -> dict[str, FieldCoords]:
    """Axes and units of the observed variables, in the order of the state. Axes without positions have indices.

    **Arguments:** `problem`, `data`: the model with its instrument, and a single record.
    """
    fields, observed = problem.coords(), problem.observed(data)
    instrument = problem.instrument.placed(data.positions_at(0))
    plain = as_fields(instrument, {n: np.zeros(x.shape) for n, x in observed.items()}, fields)
    stated = positions_of(instrument, data.ts[0], problem.y0, problem.args, fields)
    taken = {dim: x for where in fields.values() for dim, x in where.coords.items()}
    found: dict[str, FieldCoords] = {}
    for name in sorted(observed, key=[*fields, *observed].index):
        if name in plain:
            found[name] = fields[name]
            continue
        where = stated.get(name, FieldCoords(("",) * observed[name].ndim, {}))
        axes = list[tuple[str, np.ndarray, str]]()
        for i, (dim, size) in enumerate(zip(where.dims, observed[name].shape, strict=True)):
            places = where.coords[dim] if dim in where.coords else np.arange(size)
            # another raster has an axis of its own
            is_new = dim not in where.coords or (dim in taken and not np.array_equal(taken[dim], places))
            axes.append((f"{name}_{dim or i}" if is_new else dim, places, where.coord_units.get(dim, "1")))
        coords, units = {d: x for d, x, _ in axes}, {d: unit for d, _, unit in axes}
        # values of a field's name are read in its unit
        like = fields.get(name, where)
        found[name] = dataclasses.replace(like, dims=(*coords,), coords=coords, coord_units=units, radius=0.0, view="")
        taken |= coords
    return found
