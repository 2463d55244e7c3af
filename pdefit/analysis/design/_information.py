"""Information of every frame, field and place about the unknowns, from one tangent solve on a dense schedule."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int, PyTree

from pdefit._util.errors import PdefitError
from pdefit._util.trees import named_fields
from pdefit.analysis.design._places import places_of
from pdefit.integrate.loop.time_grid import TimeGrid
from pdefit.integrate.loop.time_loop import precision
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.objective.normal_equations import Tangents, extra_equations
from pdefit.inverse.objective.trajectory_runner import ObservationSchedule
from pdefit.inverse.problem.instrument import AbstractObservationOperator
from pdefit.inverse.shooting.formulation import Single
from pdefit.inverse.shooting.trajectories import frozen_steps, laid_out

# frames for one of the record, and the part of its length by which the schedule goes on after its end
FINER, _LONGER = 4, 0.5
# values of all matrices together, at most: 1 GB
_MOST_VALUES = 125_000_000


class DenseTimes(NamedTuple):
    """The times of a dense schedule.

    **Arguments:**

    - `ts`: the times, increasing, (I,), in the system's time unit.
    - `finer`: 1 for frames of the record, 2 and 4 for frames added to double and quadruple their number, and 0 after its
      end, (I,).
    - `nearest`: for each time the frame of the record whose variables and sigma it takes, (I,).
    """

    ts: Float[np.ndarray, " I"]
    finer: Int[np.ndarray, " I"]
    nearest: Int[np.ndarray, " I"]

    @staticmethod
    def of(ts: np.ndarray, useful: np.ndarray, finest: int) -> "DenseTimes":
        """The dense times of a record.

        **Arguments:**

        - `ts`: the times of the record, (T,).
        - `useful`: the frames with fitted values.
        - `finest`: the largest multiple of the number of frames, 1, 2 or 4.
        """
        parts = np.arange(finest)
        inside = np.append(np.ravel(ts[:-1, None] + np.diff(ts)[:, None] * (parts / finest)[None]), ts[-1])
        # of four parts the second begins a half, the others a quarter
        level = np.asarray([1, *([2] if finest == 2 else [4, 2, 4] if finest == 4 else [])])
        levels = np.append(np.tile(level, ts.size - 1), 1)
        gap = float(np.median(np.diff(ts)))
        after = ts[-1] + gap * np.arange(1, max(1, int(_LONGER * (ts[-1] - ts[0]) / gap + 1e-9)) + 1)
        times = np.concatenate([inside, after])
        nearest = useful[np.argmin(np.abs(times[:, None] - ts[useful][None]), axis=1)]
        nearest = np.where(np.isin(times, ts), np.searchsorted(ts, times), nearest)
        return DenseTimes(times, np.concatenate([levels, np.zeros(after.size, int)]), nearest)


class DenseSchedule(ObservationSchedule):
    """A schedule whose residuals are all observable quantities: by frame, by place, and hidden fields.

    Hidden fields have a sigma of 1 until their range is known.

    **Arguments:**

    - `times`, `nearest`, `of_record`: as in `DenseTimes`, (I,); `of_record` is 1 for frames of the record.
    - `hidden`: the names of fields that are not observed.
    """

    times: Array
    nearest: Array
    of_record: Array
    hidden: tuple[str, ...] = eqx.field(static=True)

    def residuals(self, observe: AbstractObservationOperator, y: PyTree, args: PyTree, i: PyTree) -> dict[str, Any]:
        """All observable values at a time in units of sigma, by frame and by place, and the ranges of the values."""
        data, near = self.observations, self.nearest[i[0]]
        observed = observe.placed(data.positions_at(near))(self.times[i[0]].astype(precision(y)), y, args)
        seen, every, spans = {}, {}, {}
        for name, value in observed.items():
            sigma, mask = data.sigma[name], data.mask[name][near]
            every[name] = value / jnp.broadcast_to(sigma[near if sigma.shape[0] > 1 else 0], value.shape)
            seen[name] = jnp.where(mask, every[name], 0.0)
            spans[name] = jnp.stack([jnp.max(jnp.where(mask, s * every[name], -jnp.inf)) for s in (-1, 1)])
        for name in self.hidden:
            value = named_fields(y)[name]
            seen[name] = every[name] = value
            spans[name] = jnp.stack([-jnp.min(value), jnp.max(value)])
        counted = self.of_record[i[0]]
        places = {n: _by_place(x) * counted.astype(x.dtype) for n, x in every.items() if x.size > 1}
        spans = {n: jnp.where(counted > 0, x, -jnp.inf) for n, x in spans.items()}
        return {"seen": seen, "places": places, "spans": lax.stop_gradient(spans)}


def _by_place(value: Array) -> Array:
    """Values of each place, (B, M), padded with zeros."""
    each = [np.ravel(np.arange(value.size).reshape(value.shape)[place]) for place in places_of(value.shape)]
    most = max(x.size for x in each)
    index = np.stack([np.pad(x, (0, most - x.size), constant_values=value.size) for x in each])
    return jnp.append(jnp.ravel(value), jnp.zeros((), value.dtype))[index]


class _Total(eqx.Module):
    """Sums of J_r^T J_r for every time and every place, and the ranges of observed values so far."""

    number: Array
    frames: dict[str, Array]
    places: dict[str, Array]
    spans: dict[str, Array]

    def plus(self, r: PyTree, jac: PyTree) -> "_Total":
        """The sums with one more observation time, from its residuals and their derivatives in k directions."""
        wide = jax.tree.map(lambda x: x.astype(jnp.float64), jac)
        rows = {n: x.reshape(x.shape[0], -1) for n, x in wide["seen"].items()}
        frames = {n: f.at[self.number].set(rows[n] @ rows[n].T) for n, f in self.frames.items()}
        places = {n: f + jnp.einsum("kbm,lbm->bkl", *[wide["places"][n]] * 2) for n, f in self.places.items()}
        spans = {n: jnp.maximum(x, r["spans"][n].astype(jnp.float64)) for n, x in self.spans.items()}
        return _Total(self.number + 1, frames, places, spans)


class Information(NamedTuple):
    """Parts of the Gauss-Newton matrix of p unknowns.

    **Arguments:**

    - `times`: the I times.
    - `frames`: for each variable the contribution of every time, (I, p, p); not finite if the model has blown up.
    - `places`: for each variable with several values the contribution of every place over the record, (B, p, p).
    - `prior`: the contribution of priors and regularizers, (p, p).
    - `observed`: the variables that are observed now; the remaining ones are hidden fields.
    - `useful`: the frames of the record with fitted values, as indices of the times.
    """

    times: DenseTimes
    frames: dict[str, Float[np.ndarray, "I p p"]]
    places: dict[str, Float[np.ndarray, "B p p"]]
    prior: Float[np.ndarray, "p p"]
    observed: tuple[str, ...]
    useful: Int[np.ndarray, " f"]

    @property
    def of_times(self) -> Float[np.ndarray, "I p p"]:
        """The contribution of every time, with the variables observed now."""
        return sum(self.frames[name] for name in self.observed)  # pyright: ignore[reportReturnType]


def information(functional: Functional, theta: Float[Array, " p"]) -> Information:
    """Information matrices of all observable quantities, for a functional of one trajectory.

    A hidden field gets the median noise of the observed variables, relative to its range.

    **Arguments:**

    - `functional`, `theta`: the objective and the point, (p,).
    """
    data, problem = functional.observations, functional.problem
    observed = tuple(functional.observed)
    seen = np.any([np.asarray(functional.fitted(n))[0].reshape(data.ts.size, -1).any(1) for n in observed], axis=0)
    useful = np.flatnonzero(seen)
    fields = {n: x for n, x in named_fields(problem.y0).items() if n not in observed and eqx.is_inexact_array(x)}
    shapes = {n: x.shape for n, x in (*functional.observed.items(), *fields.items())}
    room = _MOST_VALUES / (theta.size**2 * len(shapes) * data.ts.size)
    finest = next((n for n in (FINER, 2, 1) if n + _LONGER <= room), None)
    if finest is None:
        raise PdefitError(
            f"A design of {theta.size} unknowns takes too much memory over {data.ts.size} frames; fit fewer"
        )
    times = DenseTimes.of(data.ts, useful, finest)
    index = np.arange(times.ts.size)[None]
    where = jnp.asarray(times.ts), jnp.asarray(times.nearest), jnp.asarray((times.finer == 1).astype(float))
    schedule = DenseSchedule(_grid(functional, theta, times.ts), index, {}, data, *where, tuple(fields))
    k, count = theta.size, times.ts.size
    blocks = {n: len(places_of(s)) for n, s in shapes.items() if np.prod(s) > 1}
    total = _Total(
        jnp.zeros(1, int),
        {n: jnp.zeros((1, count, k, k)) for n in shapes},
        {n: jnp.zeros((1, b, k, k)) for n, b in blocks.items()},
        {n: jnp.full((1, 2), -jnp.inf) for n in shapes},
    )
    found, extra = jax.tree.map(np.asarray, _SOLVED(functional, theta, schedule, total))
    spans = {n: float(np.sum(x[0])) for n, x in found.spans.items()}
    noise = 1 / np.median([spans[n] for n in observed])
    # the sigma of hidden fields is known only now
    weights = {n: 1.0 if n in observed else 1 / (noise * spans[n]) ** 2 if spans[n] > 0 else 0.0 for n in shapes}
    frames, places = ({n: weights[n] * x[0] for n, x in each.items()} for each in (found.frames, found.places))
    return Information(times, frames, places, extra.T @ extra, observed, np.flatnonzero(times.finer == 1)[useful])


def _solve(functional: Functional, theta: Array, schedule: DenseSchedule, total: _Total) -> tuple[_Total, Array]:
    tangents = Tangents(functional, theta)
    end = tangents.advance(tangents.start(total), schedule)
    return end.total, extra_equations(functional, theta)[1]


_SOLVED: Any = eqx.filter_jit(_solve)


def _grid(functional: Functional, theta: Array, ts: np.ndarray) -> TimeGrid:
    """Time grid of the single trajectory through all times."""
    layout = laid_out(Single(), functional.at, theta, ts, functional.dt)
    if functional.steps is None:
        return layout.time_grid
    problem = functional.at(theta)
    return frozen_steps(problem, functional.starts(problem), ts, layout, functional.runner.solver, functional.steps)
