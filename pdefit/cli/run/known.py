"""Arguments of a system from a data file, such as known velocities, in the units and axes of the system."""

import contextlib
import dataclasses
import functools
import itertools
from pathlib import Path

import numpy as np

from pdefit._util.errors import PdefitError
from pdefit.cli.config.settings import SystemSettings
from pdefit.cli.run.positions import check_positions
from pdefit.data.readers.frames import Frames
from pdefit.data.readers.layout import orders
from pdefit.data.readers.observations import about_units, read_arrays
from pdefit.data.readers.open_source import opened_source
from pdefit.data.readers.recordings import part_of
from pdefit.data.readers.source import DataSource, Wanted
from pdefit.data.readers.variable import DataFile, Variable, in_memory
from pdefit.data.units import conversion
from pdefit.systems.coordinates import FieldCoords
from pdefit.systems.grid import AbstractGrid
from pdefit.systems.system import AbstractSystem, parameters


def with_known(settings: SystemSettings, data: DataSource) -> tuple[AbstractSystem, str | None, list[str]]:
    """The system with the arguments that `data.system` names in a file.

    An array on the grid gets the axes of the grid in their order; the axis of a vector keeps its place. Units and
    positions are treated like those of data.

    **Arguments:** `settings`, `data`: the settings of the system, and of the file.

    **Returns:** the system, a message about positions missing in the file, and remarks about units and axes.

    **Errors:** PdefitError for a unit or positions that differ from the system's, and for an ambiguous order of axes.
    """
    path = data.file
    read = read_arrays(data, data.system, data.select)
    held = {key: values.tolist() for key, values in read.items()}
    # units and grid are those of the system, which needs its arguments
    system = settings.changed(held).build()
    numbers = {key: name for key, name in data.system.items() if read[key].dtype.kind == "f"}
    if not numbers:
        return system, None, []
    grid = getattr(system, "grid", None)
    places = grid.coords() if isinstance(grid, AbstractGrid) else FieldCoords((), {})
    named = {dim: name for dim, name in data.coordinates.items() if dim in places.dims}
    with opened_source(data) as file:
        part = part_of(file, data.select, others=numbers.values())
        units = {key: _unit(system, key, part[name].unit) for key, name in numbers.items()}
        films, seen = {"time": in_memory("time", part.path, np.arange(2.0))}, dict[str, FieldCoords]()
        for key, name in numbers.items():
            films[name], seen[key] = _film(part[name], key, places, data)
        still = DataFile(part.path, {*part, "time"}, lambda name: films[name] if name in films else part[name])
        with Frames(DataSource(data.path, numbers), Wanted(units), file=still) as frames:
            assumed, remarks = check_positions(frames, seen, named), about_units(frames)
            found = {key: values[0].tolist() for key, values in frames.arrays(0, 1)[0].items()}
    for name in numbers.values():
        before, after = part[name].shape, films[name].shape[1:]
        if before != after and not any(part[name].labels):
            remarks.append(f"The axes of '{name}' were {before} in '{path.name}'; they were put into the order {after}")
    return settings.changed(held | found).build(), assumed, remarks


def shapes_from_file(data: DataSource | None, system: AbstractSystem) -> str:
    """Clause for errors about the shapes of arrays that a system took from a file; empty if there are none."""
    given = (
        {} if data is None else {key: (name, np.shape(getattr(system, key, ()))) for key, name in data.system.items()}
    )
    told = [f"{key} is '{name}' of shape {shape}" for key, (name, shape) in given.items() if shape]
    return f"; from '{Path(data.path).name}', {', '.join(told)}" if data and told else ""


def _unit(system: AbstractSystem, key: str, stated: str | None) -> str:
    """The unit of an argument: the declared one.

    For an array inside another argument, such as a radius: the unit of that argument, or its unit of length or of time,
    whichever has the dimension stated in the file; "1" if none does.
    """
    if key in (declared := parameters(system)):
        return declared[key].unit
    root, *inside = key.split(".")
    owner = functools.reduce(lambda part, name: getattr(part, name, None), [root, *inside][:-1], system)
    above = [declared[root].unit] if root in declared else []
    for unit in (*above, getattr(owner, "length_unit", "1"), system.time_unit):
        with contextlib.suppress(PdefitError):
            if stated and unit != "1" and conversion(stated, unit):
                return unit
    return "1"


def _film(stored: Variable, key: str, places: FieldCoords, data: DataSource) -> tuple[Variable, FieldCoords]:
    """An array as a film of two equal frames, which is read like data, with the axes in the order of the grid."""
    shape, names = stored.shape, [name.lower() for name in data.axes.get(key, stored.labels)]
    sizes = [*places.shape]
    called = [(data.coordinates.get(dim) or dim).lower() for dim in places.dims]
    ways = [w for w in itertools.permutations(range(len(shape)), len(sizes)) if [shape[i] for i in w] == sizes]
    fits = [w for w in ways if not {*called} <= {*names} or [*map(dict(enumerate(names)).get, w)] == called]
    if len(names) != len(shape) or (ways and len(fits) != 1):
        told = ", ".join(f"{dim} has {size}" for dim, size in zip(places.dims, sizes, strict=True))
        raise PdefitError(
            f"The axes ({', '.join(name or '?' for name in names)}) of {stored.where} have the lengths {shape}, where {told}, "
            f"so their order is open; state that of the file, {orders(key, range(len(shape)), ways, called)}"
        )
    order, dims = [*range(len(shape))], [""] * len(shape)
    for slot, i, dim in zip(sorted(fits[0]), fits[0], places.dims, strict=True) if fits else ():
        order[slot], dims[slot] = i, dim
    turned = stored.ordered(order)
    film = in_memory(stored.name, stored.path, np.stack(2 * [turned.array()]), stored.unit)
    # positions that belong to an axis of the grid are compared with it, whatever they are called
    own = [
        [s if not dim or s.label in places.dims else s._replace(label=dim) for s in scales]
        for scales, dim in zip(turned.scales, dims, strict=False)
    ]
    film = dataclasses.replace(film, scales=((), *own) if own else ())
    return film, dataclasses.replace(places, dims=tuple(dims))
