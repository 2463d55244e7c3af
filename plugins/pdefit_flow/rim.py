"""The velocity on the rim of a window, from the outermost vectors of a measured field."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

import pdefit
from pdefit_flow.operators import Edges, Pair

_AHEAD = ("hold", "linear")


class Rim(eqx.Module):
    """The velocity on the rim of a window cut from a larger flow.

    The vectors lie on the rim itself, at equal distances along each side, ordered counterclockwise from the lower left
    corner. They are interpolated by cubic polynomials in space and time. The net flux through the rim of an
    incompressible flow vanishes: it is subtracted evenly from the component through the rim.

    **Arguments:**

    - `u`, `v`: both components of the m vectors over time, `pdefit.TimeSeries` with values (T, m). The array `values`
      of each can be a control.
    - `counts`: the number of intervals between vectors along a side of the x axis, and of the y axis. Then m = 2
      (counts[0] + counts[1]).
    - `ahead`: the extrapolation after the last time: `hold` keeps the last vectors (default), and `linear` continues
      the change between the last two times.
    - `steady`: whether the rim is constant in time, at the mean of its vectors over time, weighted by their noise;
      default False.
    """

    u: pdefit.TimeSeries
    v: pdefit.TimeSeries
    counts: tuple[int, int] = eqx.field(static=True, converter=lambda n: (int(n[0]), int(n[1])))
    ahead: str = eqx.field(default="hold", static=True)
    steady: bool = eqx.field(default=False, static=True)

    def __check_init__(self):
        if self.ahead not in _AHEAD:
            raise pdefit.PdefitError(f"A rim expects ahead as one of {', '.join(_AHEAD)}, but got '{self.ahead}'")
        vectors = 2 * sum(self.counts)
        for series in (self.u, self.v):
            if series.values.shape[1:] != (vectors,) or min(self.counts) < 3:
                raise pdefit.PdefitError(
                    f"A rim of {self.counts} distances, each at least 3, expects {vectors} vectors at every time, but got "
                    f"values of shape {series.values.shape}"
                )

    @property
    def start(self) -> Array:
        """The first time, in the system's time unit."""
        return jnp.asarray(self.u.times)[0]

    def edges(self, grid: pdefit.CartesianGrid, t: Array | float, balanced: bool = True) -> Edges:
        """The velocity on the faces and corners of a grid at one time.

        **Arguments:**

        - `grid`: the cells of the window.
        - `t`: the time.
        - `balanced`: whether the net flux through the rim is subtracted (default).
        """
        loop = jnp.stack([self._at(series, t) for series in (self.u, self.v)], axis=-1)
        nx, ny = self.counts
        closed = jnp.concatenate([loop, loop[:1]])
        sides = (
            (closed[2 * nx + ny :][::-1], closed[nx : nx + ny + 1]),
            (closed[: nx + 1], closed[nx + ny : 2 * nx + ny + 1][::-1]),
        )
        # the sides at the ends of an axis lie along the other one
        (left, right), (bottom, top) = (
            (_between(pair[0], n), _between(pair[1], n)) for pair, n in zip(sides, grid.shape[::-1], strict=True)
        )
        through = (left[0][:, 0], right[0][:, 0]), (bottom[0][:, 1], top[0][:, 1])
        return Edges(_balanced(grid, *through) if balanced else through, ((left[1], right[1]), (bottom[1], top[1])))

    def edge_rates(self, grid: pdefit.CartesianGrid, t: Array | float) -> Edges:
        """The time derivative of `edges`.

        **Arguments:** `grid`, `t`: as in `edges`.
        """
        t = jnp.asarray(t, float)
        return jax.jvp(lambda t: self.edges(grid, t), (t,), (jnp.ones_like(t),))[1]

    def _at(self, series: pdefit.TimeSeries, t: Array | float) -> Array:
        """The vectors at one time, (m,)."""
        times, values = jnp.asarray(series.times), series.values
        if self.steady:
            # with a measurement as prior at every time, that of the mean is right, too
            sigma = (
                jnp.ones_like(values) if series.measured is None else jnp.asarray(series.measured.sigma, values.dtype)
            )
            return jnp.average(values, axis=0, weights=sigma**-2)
        ahead = jnp.asarray(t, times.dtype) - times[-1]
        slope = (values[-1] - values[-2]) / (times[-1] - times[-2]).astype(values.dtype)
        beyond = values[-1] if self.ahead == "hold" else values[-1] + slope * ahead.astype(values.dtype)
        return jnp.where(ahead > 0, beyond, series.continued(t))


def _balanced(grid: pdefit.CartesianGrid, along_x: Pair, along_y: Pair) -> tuple[Pair, Pair]:
    """The velocity through the faces of the rim, (left, right) and (bottom, top), without a net flux."""
    hx, hy = grid.spacing
    outward = hy * jnp.sum(along_x[1] - along_x[0]) + hx * jnp.sum(along_y[1] - along_y[0])
    excess = outward / (2 * sum(grid.extent))
    return (along_x[0] + excess, along_x[1] - excess), (along_y[0] + excess, along_y[1] - excess)


def _between(vectors: Array, cells: int) -> tuple[Array, Array]:
    """The velocity at the midpoints of the cells along a side, and at the corners between them, (..., 2).

    **Arguments:** `vectors` lie at equal distances along the side, (k, 2), and `cells` is the number of its cells.
    """
    places = np.linspace(0.0, len(vectors) - 1, 2 * cells + 1)
    side = pdefit.Interpolant(vectors, None, [np.arange(len(vectors))])
    return side(0.0, [places[1::2]]), side(0.0, [places[2:-1:2]])


class MeasuredRim(eqx.Module):
    """The rim of a window given by the data: the outermost vectors of the raster.

    Missing vectors are filled by a harmonic function of the known vectors of their frame. As measurements, filled
    vectors have the standard deviation of the whole component.

    **Arguments:**

    - `ahead`: as in `Rim`.
    - `read`: whether the outermost vectors are read (default). Otherwise they are filled from the inner ones.
    - `steady`: as in `Rim`, for a steady flow, whose frames differ only by noise.
    """

    ahead: str = eqx.field(default="hold", static=True)
    read: bool = eqx.field(default=True, static=True)
    steady: bool = eqx.field(default=False, static=True)

    @property
    def start(self) -> Array:
        raise _without_data()

    def edges(self, grid: pdefit.CartesianGrid, t: Array | float, balanced: bool = True) -> Edges:
        """Error, since there is no velocity without data.

        **Arguments:** as in `Rim.edges`.
        """
        raise _without_data()

    def of(self, observations: pdefit.Observations, names: tuple[str, str]) -> tuple[Rim, tuple[str, ...]]:
        """The rim of a record, and messages for the user.

        **Arguments:**

        - `observations`: the frames to read, of two components on one raster, (T, k, l).
        - `names`: the names of the components.
        """
        shapes = {n: observations.values[n].shape[1:] for n in names if n in observations.values}
        if len({*shapes.values()}) != 1 or len(shapes) != 2 or min(map(len, shapes.values())) != 2:
            raise pdefit.PdefitError(
                f"A measured rim expects {' and '.join(names)} on one raster, but the data have {shapes}; name both in "
                f"data.variables; vectors at points become means over cells by pdefit import tracks bins=[20,20]"
            )
        if observations.ts.size < 2:
            raise pdefit.PdefitError("A measured rim expects two frames or more that are fitted")
        u, v = (self._series(observations, name) for name in names)
        missing = sum(int(np.sum(~known)) for _, known in (u, v))
        remark = f"{missing} of {2 * v[1].size} components on the rim are missing and were filled from their neighbours"
        kx, ky = shapes[names[0]]
        return Rim(u[0], v[0], (kx - 1, ky - 1), self.ahead, self.steady), (remark,) if missing else ()

    def _series(self, observations: pdefit.Observations, name: str) -> tuple[pdefit.TimeSeries, np.ndarray]:
        """The outermost vectors of a component over time, and the mask of known ones, (T, m)."""
        values, mask = np.asarray(observations.values[name], float), np.array(observations.mask[name])
        spread = max(float(np.std(values[mask])), np.finfo(float).tiny)
        if not self.read:
            mask[:, [0, -1]] = mask[:, :, [0, -1]] = False
        sigma = np.broadcast_to(np.asarray(observations.sigma[name], float), values.shape)
        around = np.stack([_loop(harmonic(x, m)) for x, m in zip(values, mask, strict=True)])
        known = np.stack([_loop(m) for m in mask])
        noise = np.where(known, np.stack([_loop(s) for s in sigma]), spread)
        # with knots at all times a series passes through its values
        return pdefit.TimeSeries(observations.ts, around, "smooth", sigma=noise, knots=observations.ts), known


def harmonic(values: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """A field whose missing values are filled with the mean of their neighbours, (k, l).

    **Arguments:**

    - `values`: the field, (k, l).
    - `mask`: True for known values, (k, l).
    """
    filled = np.where(mask, values, 0.0)
    if mask.all() or not mask.any():
        return filled
    number = np.cumsum(~mask).reshape(mask.shape) - 1
    unknown = np.argwhere(~mask)
    matrix, right = np.zeros((len(unknown), len(unknown))), np.zeros(len(unknown))
    for row, (i, j) in enumerate(unknown):
        for at in ((i - 1, j), (i + 1, j), (i, j - 1), (i, j + 1)):
            if 0 <= at[0] < mask.shape[0] and 0 <= at[1] < mask.shape[1]:
                matrix[row, row] += 1
                if mask[at]:
                    right[row] += values[at]
                else:
                    matrix[row, number[at]] -= 1
    filled[~mask] = np.linalg.solve(matrix, right)
    return filled


def _loop(x: np.ndarray) -> np.ndarray:
    """The outermost elements of an array (k, l), counterclockwise from the first."""
    return np.concatenate([x[:-1, 0], x[-1, :-1], x[:0:-1, -1], x[0, :0:-1]])


def _without_data() -> pdefit.PdefitError:
    return pdefit.PdefitError("A measured rim expects data, of which it takes the outermost vectors; set data.path")
