"""Guesses: the initial values of controls in a fit."""

import abc
import itertools
import zlib

import equinox as eqx
import jax
import numpy as np
import scipy
from jaxtyping import Array, PRNGKeyArray
from numpy.typing import ArrayLike

from pdefit._util.errors import PdefitError, first_line
from pdefit._util.trees import named_fields
from pdefit.data.observations import Observations
from pdefit.inverse.controls.parametrization.control_axes import FieldAxes, field_axes
from pdefit.inverse.problem.nudging import shown_fields
from pdefit.inverse.problem.observed_fields import observed_fields, observed_positions
from pdefit.inverse.problem.problem import Problem
from pdefit.systems.capabilities import AbstractDataGuess, AbstractDataState


class AbstractGuess(eqx.Module):
    """Initial value of a control in a fit, in physical units."""

    @abc.abstractmethod
    def value(
        self, nominal: Array, path: str, key: PRNGKeyArray, observations: Observations, problem: Problem
    ) -> np.ndarray | None:
        """Guess as an array of the control's shape; None for a hidden field to be reconstructed from observed ones.

        **Arguments:**

        - `nominal`: the value in the problem; for a twin this is the truth.
        - `path`: the path of the control, such as `y0.u`.
        - `key`: the key of random guesses.
        - `observations`: the record.
        - `problem`: the problem, with its equations and its instrument.
        """


class Value(AbstractGuess):
    """A given initial value.

    For a value that is known roughly. Not for observed states (`FromData`).

    **Arguments:**

    - `number`: one number, or an array of the control's shape, in physical units.
    """

    number: float | np.ndarray

    def value(self, nominal, path, key, observations, problem):
        given = np.asarray(self.number, float)
        try:
            return np.broadcast_to(given, nominal.shape)
        except ValueError:
            raise PdefitError(
                f"The guess of '{path}' has shape {given.shape}, but the control has shape {nominal.shape}; "
                f"give one number or an array of that shape"
            ) from None


class Perturb(AbstractGuess):
    """Nominal value times a random factor for each element, determined by the seed of the run.

    For twins and repeated starts. Not for measured data, whose nominal value has no meaning.

    **Arguments:**

    - `low`, `high`: the bounds of the uniformly distributed factor.
    """

    low: float
    high: float

    def __check_init__(self):
        if not self.low <= self.high:
            raise ValueError(f"perturb expects [low, high] with low <= high, but got [{self.low}, {self.high}]")

    def value(self, nominal, path, key, observations, problem):
        # the draw depends on the seed and the control's name, not on which other controls there are
        key = jax.random.fold_in(key, zlib.crc32(path.encode()))
        return np.asarray(nominal * jax.random.uniform(key, nominal.shape, minval=self.low, maxval=self.high))


class FromData(AbstractGuess):
    """First frame as guess of a field of `y0`, with missing points at their nominal values.

    For observed initial states. Not as prior knowledge: the data would count twice.

    An operator that acts on each value alone, such as a gain, is inverted. A blur is not. A field observed off its grid
    points is interpolated: by cubic splines if every point of a raster was observed, else linearly. Outside the points
    it has the value of the nearest point. A hidden field is made from the data by the system's `init_from_data`. Without
    this method, hidden fields are reconstructed from the observed fields that drive them through the record. A parameter
    is guessed by the system's `guess_from_data`. States that obey a constraint, such as zero divergence, are projected.
    """

    def value(self, nominal, path, key, observations, problem):
        root, _, name = path.partition(".")
        system, fields = problem.system, problem.observe.inverted(observations) or observations
        if root == "nodes":
            # nodes are taken from the data when the formulation makes them
            return np.asarray(nominal)
        if root != "y0":
            found = system.guess_from_data(path, fields) if isinstance(system, AbstractDataGuess) else None
            if found is None:
                raise PdefitError(
                    f"The guess of '{path}' cannot come from data, which fields of y0 and nodes can, and parameters for which "
                    f"the system has guess_from_data; give a number or an array"
                )
            return found
        # a state that is one bare array is observed as `y`
        field = name or "y"
        observed = observations.values.get(field)
        elsewhere = field in observations.positions or problem.observe.relocates
        if observed is not None and observed.shape[1:] == nominal.shape and not elsewhere:
            first = observed_fields(problem, observations.at(slice(0, 1)))
            return np.where(np.asarray(first.mask[field])[0], np.asarray(first.values[field])[0], nominal)
        observations, observed = fields, fields.values.get(field)
        axes = field_axes(problem, path, nominal.shape)
        if observed is not None and axes.names[:1] != ("",):
            points = np.asarray(observations.positions_at(0).get(field, ()), float)
            if points.ndim > 2 and isinstance(system, AbstractDataState):
                return _by_the_system(nominal, path, field, observations, problem)
            if points.ndim == 2:
                return _between_points(path, axes, points, observations.mask[field][0], observed[0])
            found = _between_rasters(path, field, axes, observations, problem)
            if found is not None:
                return found
        return _by_the_system(nominal, path, field, observations, problem)


def is_measured(guess: AbstractGuess | None, path: str, observations: Observations) -> bool:
    """True if a guess is a measurement of the unknown itself.

    **Arguments:**

    - `guess`, `path`: the guess and the path of the control.
    - `observations`: the record.
    """
    root, _, name = path.partition(".")
    return isinstance(guess, FromData) and root == "y0" and (name or "y") in observations.values


def _between_rasters(
    path: str, field: str, axes: FieldAxes, observations: Observations, problem: Problem
) -> np.ndarray | None:
    """Field interpolated from its values on another raster at the first time; None for an unknown raster or other axes."""
    coords = problem.system.coords()
    where = observed_positions(problem.instrument, observations.ts[0], problem.y0, problem.args, coords).get(field)
    dims = coords[field].dims
    values, mask = np.asarray(observations.values[field][0], float), np.asarray(observations.mask[field][0])
    along = [d.removesuffix("_face") for d in dims]
    # the axes of the same directions: a velocity on faces may be seen at corners
    if where is None or [d.removesuffix("_face") for d in where.dims] != along:
        return None
    raster = [np.asarray(where.coords[d], float) for d in where.dims]
    if tuple(x.size for x in raster) != values.shape:
        return None
    if not np.all(mask) or any(x.size < 4 or np.any(np.diff(x) <= 0) for x in raster):
        points = np.stack([np.ravel(m) for m in np.meshgrid(*raster, indexing="ij")], axis=-1)
        return _between_points(path, axes, points, np.ravel(mask), np.ravel(values))
    for i, (x, wraps, period) in enumerate(zip(raster, axes.periodic, axes.periods, strict=True)):
        moved, places = np.moveaxis(values, i, 0), axes.points[i]
        if wraps:
            x, moved = np.append(x, x[0] + period), np.concatenate([moved, moved[:1]])
            spline = scipy.interpolate.CubicSpline(x, moved, bc_type="periodic")
        else:
            spline, places = scipy.interpolate.CubicSpline(x, moved), np.clip(places, x[0], x[-1])
        values = np.moveaxis(spline(places), 0, i)
    return values


def _between_points(path: str, axes: FieldAxes, points: np.ndarray, mask: ArrayLike, values: ArrayLike) -> np.ndarray:
    """Field interpolated from its values at the points of a mask."""
    mask, values = np.asarray(mask), np.asarray(values, float)
    if not np.any(mask):
        raise PdefitError(
            f"The guess of '{path}' cannot come from data: no point of it has a value at the first time; give a number or an "
            f"array"
        )
    points, rows = np.unique(points[mask], axis=0, return_index=True)
    known = values[mask][rows]
    mesh = tuple(np.meshgrid(*axes.points, indexing="ij"))
    low, size = np.asarray([x[0] for x in axes.points]), np.asarray(axes.periods)
    # copies of the points around a periodic box, as far as half a period
    inside = np.where(axes.periodic, low + np.mod(points - low, size), points)
    shifts = itertools.product(*((-1, 0, 1) if wraps else (0,) for wraps in axes.periodic))
    points = np.concatenate([inside + np.asarray(shift) * size for shift in shifts])
    near = np.all(np.abs(points - low - size / 2) <= size, axis=1)
    points, known = points[near], np.tile(known, len(near) // len(rows))[near]
    nearest = scipy.interpolate.griddata(points, known, mesh, "nearest")
    try:
        linear = scipy.interpolate.griddata(points, known, mesh, "linear")
    # too few points, or all on one line
    except (scipy.spatial.QhullError, ValueError):
        return nearest
    return np.where(np.isfinite(linear), linear, nearest)


def _by_the_system(
    nominal: Array, path: str, field: str, observations: Observations, problem: Problem
) -> np.ndarray | None:
    """Guess of a state field by the system's `init_from_data`, for a field that was not observed at every grid point.

    None if the system has no such method, the field is unobserved, and another field was observed on its grid. Other fields
    are refused if the system has no such method.
    """
    system, data = problem.system, observations.values.get(field)
    why = "it is not observed" if data is None else f"it has shape {nominal.shape} and was observed as {data.shape[1:]}"
    if not isinstance(system, AbstractDataState):
        if data is None and system.coords() and shown_fields(problem, observations):
            return None
        raise PdefitError(
            f"The guess of '{path}' cannot come from data: {why}, and {type(system).__name__} has no init_from_data to find it "
            f"(observed: {', '.join(observations.values)}); give a number or an array, leave the guess out for the system's "
            f"own initial state, or observe {field}"
        )
    try:
        value = named_fields(system.init_from_data(observations))[field]
    except PdefitError:
        raise
    # a plugin may fail with any exception where the data lack what it needs
    except Exception as error:
        raise PdefitError(
            f"The guess of '{path}' cannot come from data: init_from_data of {type(system).__name__} fails "
            f"({first_line(error)}); give a number or an array"
        ) from None
    if np.shape(value) != nominal.shape:
        raise PdefitError(
            f"init_from_data of {type(system).__name__} gives '{field}' shape {np.shape(value)}, but the guess of '{path}' has "
            f"{nominal.shape}; give a number or an array"
        )
    return np.asarray(value)
