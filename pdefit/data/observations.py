"""A record: the measured values of an instrument, as plain arrays."""

from collections.abc import Callable, Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import ArrayLike

from pdefit._util.errors import PdefitError
from pdefit._util.memory import too_large
from pdefit._util.trees import taken

Numbers = ArrayLike | float | int

# largest value, in standard deviations, of data that say nothing
_NO_SIGNAL = 1e-4


class Observations(eqx.Module):
    """Values of named variables at increasing times, with masks and standard deviations.

    `Observations.build` makes such a record from arrays in which NaN means missing.

    **Arguments:**

    - `ts`: the T times, increasing, (T,), in the system's time unit.
    - `values`: for each variable its values, (T, ...), in the model's unit; 0 if missing.
    - `mask`: for each variable whether each value was observed, of the shape of its values.
    - `sigma`: for each variable the standard deviation of the noise, in the unit of its values, with as many axes as
      the values and broadcastable to them.
    - `positions`: for each variable measured at separate points, their coordinates, (T, n, d) for points that move,
      else (1, n, d), in the grid's unit of length; its values are (T, n). Points on a raster have one more axis for
      each of its axes. Default none.
    """

    ts: np.ndarray = eqx.field(converter=lambda t: np.asarray(t, np.float64))
    values: dict[str, Array]
    mask: dict[str, Array]
    sigma: dict[str, Array]
    positions: dict[str, Array] = eqx.field(default_factory=dict)

    @staticmethod
    def build(
        ts: Numbers,
        values: Mapping[str, Numbers],
        sigma: Mapping[str, Numbers] | float = 1.0,
        positions: Mapping[str, Numbers] | None = None,
    ) -> "Observations":
        """Observations from arrays in which NaN means missing.

        **Arguments:**

        - `ts`: the times, increasing, (T,), in the system's time unit.
        - `values`: for each variable an array, (T, ...), in the model's unit.
        - `sigma`: one standard deviation for all variables (default 1), or one entry for each: a number, (n,) along the
          first axis after time, or an array that broadcasts to the values. It must not exceed all values by far.
        - `positions`: for variables measured at separate points, values (T, n), the coordinates of these points, (n, d)
          or (T, n, d). A point without a value may have any.
        """
        arrays = {name: np.asarray(value) for name, value in values.items()}
        given = sigma if isinstance(sigma, Mapping) else dict.fromkeys(arrays, sigma)
        mask = {name: np.isfinite(value) for name, value in arrays.items()}
        _demand_signal({name: x[mask[name]] for name, x in arrays.items() if np.any(mask[name])}, given)
        return Observations(
            ts=ts,
            # unlike jnp.asarray, this compiles no program for each shape
            values={name: jax.device_put(np.where(mask[name], value, 0)) for name, value in arrays.items()},
            mask=jax.device_put(mask),
            sigma={name: _align(np.asarray(given[name], float), value.shape) for name, value in arrays.items()},
            positions={name: _placed(name, x, arrays[name].shape) for name, x in (positions or {}).items()},
        )

    @staticmethod
    def from_points(
        t: ArrayLike,
        x: ArrayLike,
        value: ArrayLike | Mapping[str, ArrayLike],
        sigma: Mapping[str, Numbers] | float = 1.0,
    ) -> "Observations":
        """Observations from a list of points, each with a time, a position and a value.

        Points of one time, equal up to round-off, become one frame. Frames with fewer points are padded with missing
        ones.

        **Arguments:**

        - `t`: the time of each of N points, in any order, (N,), in the system's time unit.
        - `x`: the coordinates of the points, (N,) or (N, d), in the grid's unit of length.
        - `value`: the measured values, (N,), in the model's unit, as `u`; or a mapping of such arrays by variable. NaN
          means missing.
        - `sigma`: one standard deviation for all variables (default 1), or one entry for each: a number, or one for
          each point, (N,).
        """
        given = {n: np.asarray(v, float) for n, v in (value if isinstance(value, Mapping) else {"u": value}).items()}
        times, where = np.asarray(t, float), np.asarray(x, float)
        where = where[:, None] if where.ndim == 1 else where
        odd = [n for n, v in given.items() if v.shape != times.shape]
        if times.ndim != 1 or times.size == 0 or where.ndim != 2 or where.shape[0] != times.size or odd:
            raise ValueError(
                f"from_points expects times (N,), coordinates (N, d) and values (N,), but got {times.shape}, {np.shape(x)} "
                f"and {', '.join(f'{n} {v.shape}' for n, v in given.items())}"
            )
        if not np.all(np.isfinite(times)) or not np.all(np.isfinite(where)):
            raise ValueError("from_points expects finite times and coordinates; leave points without them out")
        ts, framed = by_times(times)

        def weight(s: Numbers) -> Numbers:
            return framed(np.asarray(s, float), 1.0) if np.ndim(s) else s

        return Observations.build(
            ts,
            {n: framed(v, np.nan) for n, v in given.items()},
            {n: weight(s) for n, s in sigma.items()} if isinstance(sigma, Mapping) else sigma,
            dict.fromkeys(given, framed(where, np.nan)),
        )

    def __check_init__(self):
        if self.ts.ndim != 1 or self.ts.size == 0 or np.any(np.diff(self.ts) <= 0):
            raise ValueError("Observations expects increasing times in one dimension")
        for name, value in self.values.items():
            if value.shape[:1] != self.ts.shape or self.mask[name].shape != value.shape:
                raise ValueError(f"Observations of '{name}' expects {self.ts.size} times, but got shape {value.shape}")
            jnp.broadcast_shapes(self.sigma[name].shape, value.shape)
            if not np.all(np.asarray(self.sigma[name]) > 0):
                raise ValueError(f"Observations of '{name}' expects sigma > 0 everywhere")

    def at(self, index: slice | np.ndarray) -> "Observations":
        """The observations at some of the times.

        **Arguments:**

        - `index`: a slice, or an increasing array of indices of `ts`.
        """

        def pick(x: Array) -> Array:
            return taken(x, index) if x.shape[0] == self.ts.size else x

        return Observations(
            ts=self.ts[index],
            values=jax.tree.map(pick, self.values),
            mask=jax.tree.map(pick, self.mask),
            sigma=jax.tree.map(pick, self.sigma),
            positions=jax.tree.map(pick, self.positions),
        )

    def with_nothing_at(self, t: float) -> "Observations":
        """These observations with one more time, earlier or later, at which nothing is observed.

        A trajectory begins at the first of all times. So it begins at an earlier `t`, or continues to a later one.

        **Arguments:** `t`: the time, in the unit of `ts`.
        """
        earlier = t < self.ts[0]

        def longer(x: Array) -> Array:
            return jnp.concatenate([x[:1], x] if earlier else [x, x[-1:]]) if x.shape[0] == self.ts.size else x

        return Observations(
            ts=np.append(t, self.ts) if earlier else np.append(self.ts, t),
            values=jax.tree.map(longer, self.values),
            mask=jax.tree.map(lambda m: longer(m).at[0 if earlier else -1].set(False), self.mask),
            sigma=jax.tree.map(longer, self.sigma),
            positions=jax.tree.map(longer, self.positions),
        )

    @property
    def first_frame(self) -> int:
        """Index of the first time with an observed value; 0 if there is none."""
        masks = [np.asarray(m) for m in self.mask.values()]
        return next((i for i in range(self.ts.size) if any(m[i].any() for m in masks)), 0)

    @property
    def from_first_frame(self) -> "Observations":
        """These observations without the first times at which nothing is observed."""
        return self.at(slice(first, None)) if (first := self.first_frame) else self

    def positions_at(self, i: int | Array) -> dict[str, Array]:
        """Coordinates of the points at time `i`, for each variable with points, (n, d); 0 for missing points."""
        return {name: x[i if x.shape[0] > 1 else 0] for name, x in self.positions.items()}

    @property
    def measured_positions(self) -> dict[str, np.ndarray]:
        """Coordinates of all points with a value, for each variable with points, (m, d)."""

        def measured(name: str, x: np.ndarray) -> np.ndarray:
            mask = np.asarray(self.mask[name])
            return np.broadcast_to(x, (*mask.shape, x.shape[-1]))[mask]

        return {name: measured(name, np.asarray(x)) for name, x in self.positions.items()}

    def between(self, start: float, stop: float) -> "Observations":
        """The observations with start <= t <= stop, in the unit of `ts`."""
        return self.at(np.flatnonzero((self.ts >= start) & (self.ts <= stop)))

    def select(self, names: tuple[str, ...]) -> "Observations":
        """The observations of some of the variables."""
        return Observations(
            ts=self.ts,
            values={n: self.values[n] for n in names},
            mask={n: self.mask[n] for n in names},
            sigma={n: self.sigma[n] for n in names},
            positions={n: x for n, x in self.positions.items() if n in names},
        )

    def with_sigma(self, sigma: Mapping[str, Numbers]) -> "Observations":
        """The same values with other standard deviations, in the precision of the old ones.

        **Arguments:**

        - `sigma`: entries as in `build` for some of the variables. The other variables keep theirs.
        """
        aligned = {
            n: _align(np.asarray(s, float), self.values[n].shape).astype(self.sigma[n].dtype) for n, s in sigma.items()
        }
        return eqx.tree_at(lambda o: o.sigma, self, {**self.sigma, **aligned})


def by_times(times: np.ndarray) -> tuple[np.ndarray, Callable[[np.ndarray, float], np.ndarray]]:
    """Distinct times of a list of points, and a function that groups an array by them.

    That function takes an array, (N, ...), and the fill value for missing points. It returns (T, points, ...), where
    points of equal times keep their order.

    **Arguments:**

    - `times`: the finite time of each of N points, (N,). Times that agree up to round-off count as one.
    """
    order = np.argsort(times, kind="stable")
    first = np.flatnonzero(np.diff(times[order], prepend=-np.inf) > 1e-12 * np.max(np.abs(times)))
    counts = np.diff(first, append=times.size)
    shape = first.size, int(np.max(counts))
    if size := too_large(shape):
        raise PdefitError(f"{times.size} points take {size} of memory when they are grouped by their times; take fewer")
    row = np.repeat(np.arange(first.size), counts)
    place = row, np.arange(times.size) - first[row]

    def grouped(values: np.ndarray, missing: float) -> np.ndarray:
        found = np.full((*shape, *values.shape[1:]), missing)
        found[place] = values[order]
        return found

    return times[order][first], grouped


def _placed(name: str, positions: Numbers, shape: tuple[int, ...]) -> Array:
    """Positions with the axes (time, point, coordinate); 0 for missing points."""
    x = np.asarray(positions, float)
    x = x[None] if x.ndim == len(shape) else x
    if len(shape) < 2 or x.ndim != len(shape) + 1 or x.shape[0] not in (1, shape[0]) or x.shape[1:-1] != shape[1:]:
        raise ValueError(
            f"Positions of '{name}' expect values (time, point) and coordinates (point, axis) or (time, point, axis), but "
            f"got {shape} and {np.shape(positions)}"
        )
    return jax.device_put(np.where(np.isfinite(x), x, 0.0))


def _demand_signal(values: Mapping[str, np.ndarray], sigma: Mapping[str, Numbers]) -> None:
    """Refuse standard deviations so large that any model would fit. A weight of 1 is accepted."""
    reach = {n: (float(np.max(np.abs(x))), np.min(np.asarray(sigma[n], float))) for n, x in values.items()}
    if reach and all(least != 1 and 0 < largest < _NO_SIGNAL * least for largest, least in reach.values()):
        name, (largest, least) = next(iter(reach.items()))
        raise PdefitError(
            f"sigma of '{name}' is {least:.3g} or more, but its values reach {largest:.3g}: any model would fit them; give "
            f"sigma in the unit of the values"
        )


def _align(sigma: np.ndarray, shape: tuple[int, ...]) -> Array:
    """sigma with as many axes as its variable: (n,) is taken along the first axis after time, if its length is n."""
    if sigma.ndim == 1 and sigma.shape == shape[1:2]:
        sigma = sigma.reshape(-1, *(1,) * (len(shape) - 2))
    # a copy, since device_put may share memory, and the caller may write into it
    return jax.device_put(np.array(sigma.reshape((1,) * (len(shape) - sigma.ndim) + sigma.shape)))
