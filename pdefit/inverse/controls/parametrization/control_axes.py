"""Axes of an unknown field: their names, positions and ends."""

from typing import NamedTuple

import numpy as np

from pdefit.inverse.problem.problem import Problem


class FieldAxes(NamedTuple):
    """Axes of a field.

    **Arguments:**

    - `names`: the name of each axis, such as `x`; empty without a name.
    - `points`: the positions along each axis, (n,), in the unit of lengths; indices if no positions are stated.
    - `periodic`: whether the two ends are neighbours, for each axis.
    """

    names: tuple[str, ...]
    points: tuple[np.ndarray, ...]
    periodic: tuple[bool, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(x.size for x in self.points)

    @property
    def periods(self) -> tuple[float, ...]:
        """Length of each axis, the sum of its cells."""
        return tuple(n * h for n, h in zip(self.shape, self.spacing, strict=True))

    @property
    def spacing(self) -> tuple[float, ...]:
        return tuple(float(x[-1] - x[0]) / (x.size - 1) if x.size > 1 else 1.0 for x in self.points)


def field_axes(problem: Problem, path: str, shape: tuple[int, ...]) -> FieldAxes:
    """Axes of a control from `Problem.axes`; without these, unnamed axes with indices as positions.

    **Arguments:** `problem`, and `path`, `shape` as in `Problem.axes`.
    """
    where = problem.axes(path, shape)
    # labels, such as names of bodies, are no positions
    points = [] if where is None else [np.asarray(where.coords[d]) for d in where.dims]
    if where is None or tuple(x.size for x in points) != shape or any(x.dtype.kind not in "fiu" for x in points):
        return FieldAxes(("",) * len(shape), tuple(np.arange(n) for n in shape), (False,) * len(shape))
    periodic = tuple(getattr(getattr(problem.system, "grid", None), "periodic", ()))
    names = tuple(d.removesuffix("_face") for d in where.dims)
    return FieldAxes(names, tuple(points), periodic if len(periodic) == len(shape) else (False,) * len(shape))
