"""The axes of an unknown field: their names, the size of a cell, and which of them are periodic."""

from typing import Any, NamedTuple

import numpy as np

from pdefit.systems.capabilities import AbstractGridded


class FieldAxes(NamedTuple):
    """The axes of a field.

    **Arguments:**

    - `names`: the name of each axis, such as `x`; empty where it has none.
    - `points`: the positions along each axis, (n,), in the unit of lengths; running numbers where none are stated.
    - `periodic`: for each axis whether its ends are neighbours.
    """

    names: tuple[str, ...]
    points: tuple[np.ndarray, ...]
    periodic: tuple[bool, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(x.size for x in self.points)

    @property
    def periods(self) -> tuple[float, ...]:
        """The length of each axis, that of its cells together."""
        return tuple(n * h for n, h in zip(self.shape, self.spacing, strict=True))

    @property
    def spacing(self) -> tuple[float, ...]:
        return tuple(float(x[-1] - x[0]) / (x.size - 1) if x.size > 1 else 1.0 for x in self.points)


def field_axes(system: Any, path: str, shape: tuple[int, ...]) -> FieldAxes:
    """The axes of a control: those of its field of the state, those of the grid, or running numbers.

    **Arguments:**

    - `system`: the equations.
    - `path`: the path of the control, such as `y0.u`.
    - `shape`: its shape.
    """
    grid = getattr(system, "grid", None)
    root, _, name = path.partition(".")
    where = None
    if root in ("y0", "nodes") and isinstance(system, AbstractGridded):
        where = system.coords().get(name or "y")
    elif getattr(grid, "shape", None) == shape and grid is not None:
        where = grid.coords()
    # labels, such as names of bodies, are no positions
    points = [] if where is None else [np.asarray(where.coords[d]) for d in where.dims]
    if where is None or tuple(x.size for x in points) != shape or any(x.dtype.kind not in "fiu" for x in points):
        return FieldAxes(("",) * len(shape), tuple(np.arange(n) for n in shape), (False,) * len(shape))
    periodic = tuple(getattr(grid, "periodic", ()))
    names = tuple(d.removesuffix("_face") for d in where.dims)
    return FieldAxes(names, tuple(points), periodic if len(periodic) == len(shape) else (False,) * len(shape))
