"""Guesses: the values from which controls start."""

import abc
import itertools
import zlib
from typing import Any

import equinox as eqx
import jax
import numpy as np
import scipy.interpolate
import scipy.spatial
from jaxtyping import Array, PRNGKeyArray

from pdefit._util.errors import PdefitError, first_line
from pdefit._util.trees import named_fields
from pdefit.data.observations import Observations
from pdefit.systems.capabilities import AbstractDataGuess, AbstractDataState
from pdefit.systems.system import AbstractSystem


class AbstractGuess(eqx.Module):
    """The first value of a control, in physical units."""

    @abc.abstractmethod
    def value(
        self, nominal: Array, path: str, key: PRNGKeyArray, observations: Observations, system: AbstractSystem
    ) -> np.ndarray:
        """The guess as an array of the control's shape.

        **Arguments:**

        - `nominal`: the value that the problem holds; for a twin this is the truth.
        - `path`: the path of the control, such as `y0.u`.
        - `key`: of random guesses.
        - `observations`: the record.
        - `system`: the equations.
        """


class Value(AbstractGuess):
    """A given first value.

    **Arguments:**

    - `number`: one number, or an array of the control's shape, in physical units.
    """

    number: float | np.ndarray

    def value(self, nominal, path, key, observations, system):
        given = np.asarray(self.number, float)
        try:
            return np.broadcast_to(given, nominal.shape)
        except ValueError:
            raise PdefitError(
                f"The guess of '{path}' has shape {given.shape}, but the control has shape {nominal.shape}; "
                f"give one number or an array of that shape"
            ) from None


class Perturb(AbstractGuess):
    """The nominal value times a random factor, one for each element. The seed of the run decides it.

    **Arguments:**

    - `low`, `high`: the bounds of the factor, which is uniform between them.
    """

    low: float
    high: float

    def __check_init__(self):
        if not self.low <= self.high:
            raise ValueError(f"perturb expects [low, high] with low <= high, but got [{self.low}, {self.high}]")

    def value(self, nominal, path, key, observations, system):
        # the draw depends on the seed and the control's name, not on which other controls there are
        key = jax.random.fold_in(key, zlib.crc32(path.encode()))
        return np.asarray(nominal * jax.random.uniform(key, nominal.shape, minval=self.low, maxval=self.high))


class FromData(AbstractGuess):
    """The observed value of a field of `y0` at the first time, with missing points at their nominal values.

    A field that was observed at points is interpolated linearly between them, and is that of the nearest point outside
    them. Where a field was not observed as a whole, the system's `init_from_data` makes it from the data. A parameter is
    guessed by the system's `guess_from_data`.
    """

    def value(self, nominal, path, key, observations, system):
        root, _, name = path.partition(".")
        if root == "nodes":
            # nodes are taken from the data when the formulation makes them
            return np.asarray(nominal)
        if root != "y0":
            found = system.guess_from_data(path, observations) if isinstance(system, AbstractDataGuess) else None
            if found is None:
                raise PdefitError(
                    f"The guess of '{path}' cannot come from data, which fields of y0 and nodes can, and parameters for which "
                    f"the system has guess_from_data; give a number or an array"
                )
            return found
        # a state that is one bare array is observed as `y`
        field = name or "y"
        observed = observations.values.get(field)
        grid = getattr(system, "grid", None)
        if field in observations.positions and grid is not None and grid.shape == nominal.shape:
            return _between_points(path, grid, observations, field)
        if observed is not None and observed.shape[1:] == nominal.shape:
            return np.asarray(np.where(observations.mask[field][0], observed[0], nominal))
        return _made_from_data(nominal, path, field, observations, system)


def _between_points(path: str, grid: Any, observations: Observations, field: str) -> np.ndarray:
    """A field on a grid from its values at points at the first time."""
    mask = np.asarray(observations.mask[field][0])
    if not np.any(mask):
        raise PdefitError(
            f"The guess of '{path}' cannot come from data: no point of '{field}' has a value at the first time; give a number "
            f"or an array"
        )
    points, rows = np.unique(np.asarray(observations.positions_at(0)[field], float)[mask], axis=0, return_index=True)
    values = np.asarray(observations.values[field][0], float)[mask][rows]
    low = np.asarray(grid.corner)
    size = np.asarray(grid.shape) * np.asarray(grid.spacing)
    # copies of the points around a periodic box, as far as half a period
    inside = np.where(grid.periodic, low + np.mod(points - low, size), points)
    shifts = itertools.product(*((-1, 0, 1) if wraps else (0,) for wraps in grid.periodic))
    points = np.concatenate([inside + np.asarray(shift) * size for shift in shifts])
    near = np.all(np.abs(points - low - size / 2) <= size, axis=1)
    points, values = points[near], np.tile(values, len(near) // len(rows))[near]
    nearest = scipy.interpolate.griddata(points, values, grid.mesh(), "nearest")
    try:
        linear = scipy.interpolate.griddata(points, values, grid.mesh(), "linear")
    # too few points, or all on one line
    except (scipy.spatial.QhullError, ValueError):
        return nearest
    return np.where(np.isfinite(linear), linear, nearest)


def _made_from_data(
    nominal: Array, path: str, field: str, observations: Observations, system: AbstractSystem
) -> np.ndarray:
    """A field of the initial state that was not observed as a whole, as the system makes it from the data."""
    seen = observations.values.get(field)
    why = "it is not observed" if seen is None else f"it has shape {nominal.shape} and was observed as {seen.shape[1:]}"
    if not isinstance(system, AbstractDataState):
        raise PdefitError(
            f"The guess of '{path}' cannot come from data: {why}, and {type(system).__name__} has no init_from_data to find it "
            f"(observed: {', '.join(observations.values)}); give a number or an array, leave the guess out for the system's "
            f"own initial state, or observe {field}"
        )
    try:
        found = named_fields(system.init_from_data(observations))[field]
    except PdefitError:
        raise
    # a plugin may fail with any exception where the data lack what it needs
    except Exception as error:
        raise PdefitError(
            f"The guess of '{path}' cannot come from data: init_from_data of {type(system).__name__} fails "
            f"({first_line(error)}); give a number or an array"
        ) from None
    if np.shape(found) != nominal.shape:
        raise PdefitError(
            f"init_from_data of {type(system).__name__} gives '{field}' shape {np.shape(found)}, but the guess of '{path}' has "
            f"{nominal.shape}; give a number or an array"
        )
    return np.asarray(found)
