"""The base class of planar flows: staggered coordinates, averages over coarser cells, projection, stable steps."""

import abc
import functools
import math
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, PyTree

import pdefit
from pdefit.capabilities import (
    AbstractConstrained,
    AbstractDataState,
    AbstractDiagnosed,
    AbstractRefinable,
    AbstractStable,
    FieldCoords,
)
from pdefit_flow.operators import Edges, Velocity, divergence, mean_at_centres
from pdefit_flow.projection import project


class AbstractPlanarFlow(
    pdefit.AbstractSystem,
    AbstractRefinable,
    AbstractConstrained,
    AbstractStable,
    AbstractDataState,
    AbstractDiagnosed,
):
    """Incompressible flow in the plane on a staggered grid.

    The state is a `NamedTuple` with two velocity components, each on its faces, and scalars at centres, all declared
    with `pdefit.field`. `axes` are the names of the two axes, and `components` the names of the fields along them.

    **Arguments:**

    - `grid`: the cells, and the conditions on the tangential velocity at walls.
    """

    axes: eqx.AbstractClassVar[tuple[str, str]]
    components: eqx.AbstractClassVar[tuple[str, str]]
    time_unit: ClassVar[str] = "1"
    grid: pdefit.CartesianGrid

    @abc.abstractmethod
    def background(self) -> PyTree:
        """The state assumed where nothing was measured."""

    def edges(self, t: Array | float) -> Edges | None:
        """The velocity prescribed on the rim of the box; None between walls.

        **Arguments:** `t`: the time.
        """
        return None

    def velocity(self, y: PyTree) -> Velocity:
        """The two velocity components of a state, each on its faces."""
        u, v = (getattr(y, name) for name in self.components)
        return u, v

    def with_velocity(self, y: PyTree, velocity: Velocity) -> PyTree:
        """The state with its velocity replaced.

        **Arguments:**

        - `y`: the state.
        - `velocity`: its two components, each on its faces.
        """
        return y._replace(**dict(zip(self.components, velocity, strict=True)))

    def project(self, y):
        return self.with_velocity(y, project(self.grid, self.velocity(y)))

    def positions(self, normal: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The coordinates of centres, or of the faces of a velocity component, along both axes.

        **Arguments:**

        - `normal`: the axis along which the component points; None for centres.
        """
        x, y = (faces(self.grid, i) if i == normal else self.grid.axis(i) for i in range(2))
        return x, y

    def init_from_data(self, observations, index=0):
        """A state from the fields measured on the whole grid; all other fields come from `background`.

        A measured velocity is not divergence-free; a run applies `project` to its initial state.

        **Arguments:**

        - `observations`: the record.
        - `index`: the index of the time in `observations.ts`; by default the start of the record.
        """

        def merged(name: str, default: Array) -> Array:
            measured = observations.values.get(name)
            if measured is None or measured.shape[1:] != default.shape:
                return default
            return jnp.where(observations.mask[name][index], measured[index], default)

        default = self.background()
        return type(default)(*(merged(name, x) for name, x in default._asdict().items()))

    def coords(self):
        state = type(jax.eval_shape(lambda: self.init(jax.random.key(0))))
        return {name: self._coords(name, info) for name, info in state._field_defaults.items()}

    def _coords(self, name: str, info: Any) -> FieldCoords:
        normal = self.components.index(name) if name in self.components else None
        dims = tuple(f"{axis}_face" if i == normal else axis for i, axis in enumerate(self.axes))
        return FieldCoords(
            dims=dims,
            coords=dict(zip(dims, self.positions(normal), strict=True)),
            unit=info.unit if normal is None else self.unit_of(1, 1),
            long_name=info.doc,
            coord_units=dict.fromkeys(dims, self.grid.length_unit),
            vector="" if normal is None else "velocity",
            component="" if normal is None else self.axes[normal],
        )

    def unit_of(self, lengths: int, times: int) -> str:
        """The unit of a quantity, such as `m/s^2`; a unit of 1 is left out.

        **Arguments:**

        - `lengths`: the power of the unit of length, 1 or 2.
        - `times`: the power of one over the unit of time, 1 or 2.
        """
        above, below = (
            unit if n == 1 or unit == "1" else f"{unit}^{n}"
            for unit, n in ((self.grid.length_unit, lengths), (self.time_unit, times))
        )
        return above if below == "1" else f"{above}/{below}"

    def coarsen(self, y, factor):
        """A state of this (fine) system averaged over coarser cells: scalars over cells, velocities along their faces.

        If a coarse face lies between fine ones, the velocity is interpolated linearly. The coarse divergence is then
        the mean of the fine one, and a divergence-free flow stays so.

        **Arguments:**

        - `y`: the state.
        - `factor`: the size of a coarse cell in fine ones, an integer or a fraction such as 1.5. It must divide the
          shape.
        """
        counts = [round(n / factor) for n in self.grid.shape]
        if any(abs(c * factor - n) > 1e-6 or c < 2 for c, n in zip(counts, self.grid.shape, strict=True)):
            raise ValueError(f"coarsen expects a shape divisible by {factor:g}, but got {self.grid.shape}")

        def averaged(name: str, x: Array) -> Array:
            normal = self.components.index(name) if name in self.components else None
            along = [
                _at_faces(n, c, wraps) if i == normal else _over_cells(n, c)
                for i, (n, c, wraps) in enumerate(zip(self.grid.shape, counts, self.grid.periodic, strict=True))
            ]
            a, b = (jnp.asarray(matrix, x.dtype) for matrix in along)
            return jnp.einsum("ik,kl,jl->ij", a, x, b, precision=lax.Precision.HIGHEST)

        return type(y)(*(averaged(name, x) for name, x in y._asdict().items()))

    def diagnostics(self, t, y):
        edges = self.edges(t)
        # halves of the faces on the rim belong to the box
        squares = (jnp.mean(x) for x in self._at_centres(jnp.square, y, edges))
        return {
            "energy_kinetic": sum(squares, start=jnp.zeros(())) / 2,
            # times the step it is the CFL number
            "advection_rate": self._advection_rate(y, edges),
            "divergence": jnp.max(jnp.abs(divergence(self.grid, self.velocity(y), edges))),
        }

    def mean(self, x: Array) -> Array:
        """The mean over the box of values at centres or on faces; values on walls are 0."""
        return jnp.sum(x) / math.prod(self.grid.shape)

    def _stable_step(self, y: PyTree, diffusivity: Array, speed: Array | float, decay: float = 0.0) -> float:
        """Stable step size of explicit methods for diffusion, advection and decay, for a fluid that reaches `speed`.

        RK4 at 2.785 / 2 of it is stable for every wave of the grid in a uniform flow; with the exponent 2 instead of
        1.5 it would not be. Explicit Euler is stable, too, if viscosity damps the shortest waves.
        """
        spread = decay + 4 * float(jnp.max(diffusivity)) * sum(1 / h**2 for h in self.grid.spacing)
        carried = max(float(self._advection_rate(y)), float(speed) / min(self.grid.spacing))
        return 2 / (spread**1.5 + carried**1.5) ** (2 / 3)

    @eqx.filter_jit
    def _advection_rate(self, y: PyTree, edges: Edges | None = None) -> Array:
        """The number of cells that the fastest fluid crosses per unit of time, summed over both axes."""
        sizes = (x / h for x, h in zip(self._at_centres(jnp.abs, y, edges), self.grid.spacing, strict=True))
        return jnp.max(sum(sizes, start=jnp.zeros(())))

    def _at_centres(self, size: Callable[[Array], Array], y: PyTree, edges: Edges | None) -> Iterator[Array]:
        """The function `size` of both velocity components, averaged from faces to centres."""
        for i, u in enumerate(self.velocity(y)):
            ends = None if edges is None else (size(edges.through[i][0]), size(edges.through[i][1]))
            yield mean_at_centres(self.grid, size(u), i, ends)


def faces(grid: pdefit.CartesianGrid, axis: int) -> np.ndarray:
    """The positions of the faces normal to an axis with an unknown velocity, (n,), or (n - 1,) between walls.

    **Arguments:**

    - `grid`: the cells.
    - `axis`: the number of the axis.
    """
    n, h = grid.shape[axis], grid.spacing[axis]
    return grid.corner[axis] + h * np.arange(0 if grid.periodic[axis] else 1, n)


@functools.lru_cache
def _over_cells(fine: int, coarse: int) -> np.ndarray:
    """The fraction of every fine cell in each coarse one, (coarse, fine)."""
    ends, starts = np.arange(1, fine + 1) / fine, np.arange(fine) / fine
    upper, lower = np.arange(1, coarse + 1)[:, None] / coarse, np.arange(coarse)[:, None] / coarse
    return coarse * np.clip(np.minimum(upper, ends) - np.maximum(lower, starts), 0, None)


@functools.lru_cache
def _at_faces(fine: int, coarse: int, wraps: bool) -> np.ndarray:
    """Weights of linear interpolation from fine faces to coarse ones, 0 on walls, (coarse faces, fine faces)."""
    places = np.arange(coarse) * (fine / coarse)
    distance = np.abs(places[:, None] - np.arange(fine))
    if wraps:
        return np.clip(1 - np.minimum(distance, fine - distance), 0, None)
    return np.clip(1 - distance, 0, None)[1:, 1:]
