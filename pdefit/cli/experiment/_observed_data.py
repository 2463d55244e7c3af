"""Observations from a file, checked against what the model observes before their values are read."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from pdefit._util.errors import PdefitError
from pdefit.cli.config.settings import Settings
from pdefit.cli.config.sources import DataSettings
from pdefit.cli.experiment._positions import check_positions
from pdefit.cli.experiment.trial import try_observe
from pdefit.data.observations import Observations
from pdefit.data.readers.frames import Frames
from pdefit.data.readers.observations import read_all
from pdefit.data.readers.odd_values import about_ends
from pdefit.inverse.problem.instrument import AbstractObservationOperator, check_observed
from pdefit.inverse.problem.observed_fields import positions_of
from pdefit.systems.capabilities import AbstractGridded, FieldCoords
from pdefit.systems.system import AbstractSystem

_DIMS = ("x", "y", "z")


class Observed(NamedTuple):
    """Observations from a file.

    **Arguments:**

    - `observations`: the values.
    - `assumed`: messages about positions that the file does not state.
    - `remarks`: messages about what looks odd in the file.
    - `observe`: the operator, at the positions of the file where it has none of its own.
    """

    observations: Observations
    assumed: tuple[str, ...]
    remarks: tuple[str, ...]
    observe: AbstractObservationOperator


def observed_data(settings: Settings, data: DataSettings, path: Path, system: AbstractSystem) -> Observed:
    """Observations that `data` names, between `times.start` and `times.stop`.

    **Arguments:**

    - `settings`, `data`: of the experiment, and of the file; `path` is where it was found.
    - `system`: with units, and positions of what it observes.
    """
    times, observe = settings.times, settings.observe
    coords = system.coords() if isinstance(system, AbstractGridded) else {}
    # an operator may state units of what it observes
    stated = (observe if observe.lacks_points else observe.on(system)).moved(coords) or {}
    with Frames(
        path,
        data.variables,
        sigma=data.stated,
        units={field: where.unit for field, where in {**stated, **coords}.items()},
        time_unit=system.time_unit,
        time=data.time or "time",
        start=-np.inf if times.start is None else times.start,
        stop=np.inf if times.stop is None else times.stop,
        dims=[*dict.fromkeys(dim for where in coords.values() for dim in where.dims)],
        coordinates=data.coordinates,
        axes=data.axes,
        crop=data.crop,
        select=data.select,
    ) as frames:
        units = {dim: unit for where in coords.values() for dim, unit in where.coord_units.items()}
        if observe.lacks_points and not observe.scattered:
            observe = observe.along(_axes(frames, coords, data, units))
        elif observe.lacks_points:
            # the file holds the coordinates of the points that it was measured at
            observations, remarks = read_all(frames, frames.positions([*units], data.coordinates, units))
            return Observed(observations, (), tuple(remarks), observe)
        y, assumed = _some_state(system, settings.seed), None
        if y is not None:
            seeing = observe.on(system)
            t, args = frames.ts[0], settings.args
            shapes = try_observe(seeing, t, y, args)
            check_observed(shapes, frames.shapes, f"the data in '{frames.name}'")
            assumed = check_positions(frames, positions_of(seeing, t, y, args, coords), data.coordinates)
        observations, remarks = read_all(frames)
        periodic = getattr(getattr(system, "grid", None), "periodic", ())
        for field, values in observations.values.items():
            shown = np.where(observations.mask[field], values, np.nan)
            ends = zip(range(1, shown.ndim), _DIMS, periodic, strict=False)
            found = [about_ends(frames.variables[field], shown, i, dim) for i, dim, wraps in ends if wraps]
            remarks += [remark for remark in found if remark]
    return Observed(observations, () if assumed is None else (assumed,), tuple(remarks), observe)


def _axes(
    frames: Frames, coords: Mapping[str, FieldCoords], data: DataSettings, units: Mapping[str, str]
) -> dict[str, np.ndarray]:
    """Positions along the axes of the fields, as the file states them."""
    found: dict[str, np.ndarray] = {}
    for field in frames.shapes.keys() & coords.keys():
        dims = coords[field].dims
        for axis, dim in enumerate(dims, 1):
            where = frames.coordinate(field, axis, dims, data.coordinates, units.get(dim, "1"))
            if where is None:
                raise PdefitError(
                    f"'{frames.name}' states no positions along {dim}, at which {field} is observed; name the variable with "
                    f"data.coordinates={{{dim}: NAME}}, or give them to observe"
                )
            found[dim] = where.values
    return found


def _some_state(system: AbstractSystem, seed: int) -> PyTree | None:
    """State of random numbers with the shapes of the system; None from a system that has no state without data.

    Random numbers are used because derivatives may vanish at special values, such as zero.
    """
    try:
        shapes = eqx.filter_eval_shape(system.init, jax.random.key(seed))
    # a plugin may raise any exception; the error is reported where the initial state is made
    except Exception:
        return None
    random = np.random.default_rng(0)
    return jax.tree.map(lambda x: jnp.asarray(random.uniform(0.3, 0.7, x.shape), x.dtype), shapes)
