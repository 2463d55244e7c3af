"""Observation of fields at points between the points of their grid."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from pdefit._util.errors import PdefitError, unknown
from pdefit._util.trees import named_fields, with_parts
from pdefit.inverse.problem.instrument import as_names
from pdefit.inverse.problem.on_grid import AbstractOnGrid, Faces, as_faces, basis, sizes_and_starts
from pdefit.systems.grid import AbstractGrid

# values that an interpolation takes along each axis; `spectral` takes all
_ORDER = {"linear": 2, "cubic": 4, "spectral": 1}


def _points(x: Any) -> Any:
    return x if x is None or isinstance(x, Mapping) else jnp.asarray(np.asarray(x, float))


class At(AbstractOnGrid):
    """Observation operator: values of fields at points, by interpolation on their grid.

    For probes, tracks, and rasters that do not lie on the grid. Not for a film on the grid itself (`ObserveAll`,
    `Subsample`) or at corners of its cells (`Corners`).

    Values of a field on cell centres are cell averages, as in `CartesianGrid.coarsen`. Values on the points of a grid
    are point values. The choice matters to `cubic` and `spectral` only: an average differs from the value at the centre
    by h^2/24 times the second derivative. A velocity on faces is interpolated on its own points: directly along the
    axis normal to the faces, and as averages along the other axes.

    - `linear` has an error of second order in the spacing h, and no overshoot.
    - `cubic` takes 4 values along each axis, and has an error of fourth order. Near walls its stencil is one-sided.
    - `spectral` is exact for a field that the grid resolves. All axes must be periodic.

    Points wrap around periodic axes. Along other axes they must lie inside the box, walls included.

    **Arguments:**

    - `grid`: the grid of the fields; by default the grid of the problem's system.
    - `points`: the coordinates of the n points, (n, d), in the grid's `length_unit`. By default they come with the data
      (`Observations.positions`), and may change in time.
    - `method`: `linear`, `cubic` (default) or `spectral`.
    - `fields`: the names of the fields, or one name; by default all that live on the grid.
    - `average`: the edge lengths of a box, such as a pixel, over which each observation averages, in the unit of
      lengths; one number for all axes. By default an observation is the value at its point.
    - `cell_average`: whether values on the grid are averages over cells; by default they are on grids of cell centres.
    - `faces`: for each field on faces the index of the axis normal to them, such as `{u: 0, v: 1}`; by default as
      stated by the system.
    """

    grid: AbstractGrid | None = None
    points: Any = eqx.field(default=None, converter=_points)
    method: str = eqx.field(default="cubic", static=True)
    fields: tuple[str, ...] | None = eqx.field(default=None, static=True, converter=as_names)
    average: tuple[float, ...] | float | None = eqx.field(
        default=None, static=True, converter=lambda w: tuple(map(float, w)) if isinstance(w, Sequence) else w
    )
    cell_average: bool | None = eqx.field(default=None, static=True)
    faces: Faces | None = eqx.field(default=None, static=True, converter=as_faces)

    def __check_init__(self):
        if self.method not in _ORDER:
            raise unknown("method (at)", self.method, _ORDER)
        if self.grid is None:
            return
        if self.method == "spectral" and not all(self.box.periodic):
            raise PdefitError("spectral interpolation expects periodic axes only; take method=cubic")
        for name in self.fields or ("", *dict(self.faces or ())):
            if min(shape := self._shape(name)) < _ORDER[self.method]:
                raise PdefitError(
                    f"{self.method} expects {_ORDER[self.method]} values along every axis, but {name or 'the grid'} has {shape}"
                )
        if len(self._widths) != self.box.ndim or min(self._widths) < 0:
            raise PdefitError(f"average expects a width for each of {self.box.ndim} axes, but got {self.average}")
        if self.points is not None:
            self._check("points", np.asarray(self.points))

    def __call__(self, t, y, args):
        if self.points is None:
            raise PdefitError("At has no points, and the data have none; give points, or positions to the observations")
        available, ndim = named_fields(y), self.box.ndim
        on_grid = {n: u for n, u in available.items() if u.shape[u.ndim - ndim :] == self._shape(n)}
        placed = self.points if isinstance(self.points, Mapping) else dict.fromkeys(self.fields or on_grid, self.points)
        for name in placed:
            if name not in on_grid:
                raise unknown(f"field on the grid {self.box.shape}", name, on_grid)
        return {name: self._interpolated(name, on_grid[name], points) for name, points in placed.items()}

    @property
    def scattered(self):
        return True

    @property
    def lacks_points(self):
        return self.points is None

    def placed(self, positions):
        chosen = {n: x for n, x in positions.items() if n in (self.fields or positions)}
        if self.points is not None or not chosen:
            return self
        return with_parts(self, lambda o: o.points, chosen)

    def located(self, observations):
        given = observations.measured_positions
        names = [n for n, x in observations.values.items() if x.ndim == 2 and n in (self.fields or [n])]
        if self.points is None:
            for name in given.keys() & names:
                self._check(f"positions of '{name}'", given[name])
            return observations
        own = {n: self.points[None] for n in names if observations.values[n].shape[1] == self.points.shape[0]}
        placed = dataclasses.replace(observations, positions={**observations.positions, **own})
        for name in given.keys() & own.keys():
            if not np.allclose(
                given[name], placed.measured_positions[name], rtol=1e-6, atol=1e-6 * max(self.box.spacing)
            ):
                raise PdefitError(
                    f"The positions of '{name}' are not the points of At; leave points out, or the positions"
                )
        return placed

    def _check(self, what: str, x: np.ndarray) -> None:
        """Refuse points that are not finite, of the wrong dimension, or outside the box."""
        ndim, grid = self.box.ndim, self.box
        if x.ndim != 2 or x.shape[1] != ndim or not np.all(np.isfinite(x)):
            raise PdefitError(f"At expects {what} with {ndim} finite coordinates, (n, {ndim}), but got shape {x.shape}")
        for i in range(ndim):
            low, half = grid.corner[i], self._widths[i] / 2
            high = low + grid.spacing[i] * grid.shape[i]
            # a point on a wall may miss it by round-off, in single precision too
            off = np.maximum(low + half - x[:, i], x[:, i] + half - high) > 1e-6 * (high - low)
            if not grid.periodic[i] and np.any(off):
                within = f" and half of average ({half:.6g}) from its walls" if half else ""
                raise PdefitError(
                    f"At expects {what} in the box from {low:.6g} to {high:.6g}{within}, but a coordinate {i} is "
                    f"{x[off, i][0]:.6g}; leave that point out, or take a larger grid"
                )

    @property
    def _widths(self) -> tuple[float, ...]:
        given = self.average or 0.0
        return given if isinstance(given, tuple) else (float(given),) * self.box.ndim

    def _shape(self, name: str) -> tuple[int, ...]:
        """Number of points of a field along each axis."""
        return tuple(size for size, _ in sizes_and_starts(self.box, self.faces, name))

    def _interpolated(self, name: str, u: Array, points: Array) -> Array:
        """The field at the points, (..., n)."""
        ndim, grid, lines = self.box.ndim, self.box, list[tuple[Array, float, int, int, bool]]()
        for i, (n, start) in enumerate(sizes_and_starts(grid, self.faces, name)):
            # in cells from the first point of the field
            where = (points[:, i] - (grid.corner[i] + start * grid.spacing[i])) / grid.spacing[i]
            on_faces = i in dict(self.faces or ()).get(name, ())
            of_cells = not on_faces and (start == 0.5 if self.cell_average is None else self.cell_average)
            lines.append((where, self._widths[i] / grid.spacing[i], i, n, of_cells))
        if self.method == "spectral":
            weights = [self._waves(*line) for line in lines]
        else:
            stencils = [self._stencil(*line) for line in lines]
            weights = [w for _, w in stencils]
            u = u[(..., *(jnp.expand_dims(at, [k + 1 for k in range(ndim) if k != i])
                          for i, (at, _) in enumerate(stencils)))]  # fmt: skip
        axes = "xyz"[:ndim]
        taken = f"...{axes}" if self.method == "spectral" else f"...p{axes}"
        form = ",".join([taken, *(f"p{a}" for a in axes)])
        return jnp.einsum(f"{form}->...p", u, *(w.astype(u.dtype) for w in weights))

    def _stencil(self, s: Array, width: float, axis: int, n: int, of_cells: bool) -> tuple[Array, Array]:
        """Indices and weights of an observation's interpolation stencil along an axis, (n, m)."""
        order = _ORDER[self.method]
        offsets = _gauss(width)
        s = s[:, None] + jnp.asarray(offsets, s.dtype)[None, :]
        first = jnp.floor(s).astype(int) + 1 - order // 2
        if not self.box.periodic[axis]:
            first = jnp.clip(first, 0, n - order)
        t = s - first
        powers = jnp.stack([t**k for k in range(order)], axis=-1)
        weights = powers @ jnp.asarray(basis(order, of_cells) / offsets.size, s.dtype)
        index = jnp.mod(first[..., None] + jnp.arange(order)[None, None, :], n)
        return index.reshape(s.shape[0], -1), weights.reshape(s.shape[0], -1)

    def _waves(self, s: Array, width: float, axis: int, n: int, of_cells: bool) -> Array:
        """Weights of all n values along a periodic axis in trigonometric interpolation, (points, n)."""
        k = np.arange(n // 2 + 1)
        # the highest mode of an even number of points is a cosine, which counts once
        size = np.where((k == 0) | (2 * k == n), 1.0, 2.0) / n * np.sinc(k * width / n)
        size = size / np.sinc(k / n) if of_cells else size
        here, there = (2 * np.pi / n) * k[None, :] * s[:, None], (2 * np.pi / n) * np.outer(np.arange(n), k)
        return (jnp.cos(here) * size[None, :]) @ np.cos(there).T + (jnp.sin(here) * size[None, :]) @ np.sin(there).T


def _gauss(width: float) -> np.ndarray:
    """Quadrature points of equal weight for the mean over a box: two Gauss points in each part of at most one cell."""
    parts = math.ceil(width - 1e-9)
    if parts <= 0:
        return np.zeros(1)
    middles = (np.arange(parts) + 0.5) / parts - 0.5
    return width * np.ravel(middles[:, None] + np.array([-0.5, 0.5]) / (math.sqrt(3) * parts))
