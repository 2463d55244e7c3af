"""Observation operators: from a state to what an instrument measures, as arrays by name. They can be composed."""

import abc
from collections.abc import Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from pdefit._util.errors import PdefitError, unknown
from pdefit._util.trees import named_fields
from pdefit.data.observations import Observations
from pdefit.systems.capabilities import FieldCoords
from pdefit.systems.system import AbstractSystem


class AbstractObservationOperator(eqx.Module):
    """A differentiable map from a state, or from the output of another operator, to named arrays.

    Its array leaves are nuisance parameters of the instrument, such as a gain, and may be controls (`observe.gain`).
    """

    @abc.abstractmethod
    def __call__(self, y: PyTree) -> dict[str, Array]:
        """The observed variables by name.

        **Arguments:**

        - `y`: a state at one time, or the mapping that another operator returned.
        """

    def on(self, system: AbstractSystem) -> "AbstractObservationOperator":
        """The operator with what it takes from a system, such as its grid.

        **Arguments:**

        - `system`: the equations.
        """
        return self

    @property
    def scattered(self) -> bool:
        """Test for an operator whose output is a list of points, without an axis that orders them."""
        return False

    @property
    def lacks_points(self) -> bool:
        """Test for an operator whose points come with the data."""
        return False

    @property
    def relocates(self) -> bool:
        """Test for an operator whose output may have the shape of a field, but lies at other points."""
        return False

    def placed(self, positions: Mapping[str, Array]) -> "AbstractObservationOperator":
        """The operator at points that come with the data; itself if its own are fixed, or if it has none.

        **Arguments:**

        - `positions`: for variables that are observed at points, their coordinates, (n, d).
        """
        return self

    def along(self, axes: Mapping[str, np.ndarray]) -> "AbstractObservationOperator":
        """The operator at positions along axes that come with the data; itself if its own are fixed, or if it has none.

        **Arguments:** `axes`: for each axis of the fields the positions along it, (n,).
        """
        return self

    def located(self, observations: Observations) -> Observations:
        """The record with the positions of the operator's own points. Positions at which it cannot observe are refused.

        **Arguments:** `observations`: the record.
        """
        return observations

    def moved(self, coords: Mapping[str, FieldCoords]) -> dict[str, FieldCoords] | None:
        """The positions of the output, from those of the input; None where the operator does not state them.

        **Arguments:** `coords`: for each field of the input its coordinates.
        """
        return None

    def returned(self, values: Mapping[str, np.ndarray], coords: Mapping[str, FieldCoords]) -> dict[str, np.ndarray]:
        """Observed values at the points of the fields, as films show them; none where they lie elsewhere.

        **Arguments:**

        - `values`: one frame of observed variables, NaN where missing.
        - `coords`: for each field its coordinates.
        """
        return {} if self.scattered or self.relocates else dict(values)


class ObserveAll(AbstractObservationOperator):
    """The operator that observes every field of the state."""

    def __call__(self, y):
        return named_fields(y)


class Select(AbstractObservationOperator):
    """The operator that observes some fields of the state.

    **Arguments:**

    - `fields`: their names, or one name.
    """

    fields: tuple[str, ...] = eqx.field(converter=lambda f: (f,) if isinstance(f, str) else tuple(f), static=True)

    def __call__(self, y):
        available = named_fields(y)
        for name in self.fields:
            if name not in available:
                raise unknown("field of the state", name, available)
        return {name: available[name] for name in self.fields}


class Subsample(AbstractObservationOperator):
    """The operator that observes every n-th point along the leading axes of all fields.

    **Arguments:**

    - `stride`: n for each axis, in cells.
    - `offset`: the first point along each axis, in cells; by default the middle of a stride.
    """

    stride: tuple[int, ...] = eqx.field(converter=lambda s: tuple(int(n) for n in s), static=True)
    offset: tuple[int, ...] | None = eqx.field(
        converter=lambda s: None if s is None else tuple(int(n) for n in s), static=True, default=None
    )

    def __check_init__(self):
        if min(self.stride) < 1 or (self.offset is not None and len(self.offset) != len(self.stride)):
            raise ValueError(
                f"Subsample expects strides >= 1 and as many offsets, but got {self.stride}, {self.offset}"
            )

    def __call__(self, y):
        offset = self.offset if self.offset is not None else tuple((n - 1) // 2 for n in self.stride)
        points = tuple(slice(first, None, step) for first, step in zip(offset, self.stride, strict=True))
        return {name: value[points] for name, value in named_fields(y).items()}


class Compose(AbstractObservationOperator):
    """Observation operators applied one after the other.

    **Arguments:**

    - `operators`: the operators, of which the first is applied to the state.
    """

    operators: tuple[AbstractObservationOperator, ...] = eqx.field(converter=tuple)

    def __call__(self, y):
        for operator in self.operators:
            y = operator(y)
        return named_fields(y)

    def on(self, system):
        return Compose(tuple(operator.on(system) for operator in self.operators))

    @property
    def scattered(self):
        return any(operator.scattered for operator in self.operators)

    @property
    def lacks_points(self):
        return any(operator.lacks_points for operator in self.operators)

    @property
    def relocates(self):
        return any(operator.relocates for operator in self.operators)

    def placed(self, positions):
        return Compose(tuple(operator.placed(positions) for operator in self.operators))

    def along(self, axes):
        return Compose(tuple(operator.along(axes) for operator in self.operators))

    def located(self, observations):
        for operator in self.operators:
            observations = operator.located(observations)
        return observations


def check_observed(
    seen: Mapping[str, jax.ShapeDtypeStruct], data: Mapping[str, tuple[int, ...]], source: str = "the data"
) -> None:
    """Refuse data that lack a variable which the model observes, or have it in another shape.

    **Arguments:**

    - `seen`: for each variable its shape as the model observes it.
    - `data`: for each variable of the data the shape of a frame.
    - `source`: where the data come from, for the error.
    """
    missing = [name for name in seen if name not in data]
    if missing:
        raise PdefitError(
            f"The model observes {', '.join(seen)}, but {source} hold {', '.join(data)}; name the fields of the equation in "
            f"variables (field: its name in the file), or set observe to those that were measured"
        )
    for name, shape in seen.items():
        if data[name] != shape.shape:
            raise PdefitError(
                f"The model sees '{name}' with shape {shape.shape}, but {source} have {data[name]}; "
                f"make the grid match the data, or observe through Subsample"
            )


def seen_positions(
    observe: AbstractObservationOperator, y: PyTree, coords: Mapping[str, FieldCoords]
) -> dict[str, FieldCoords]:
    """Positions of the points that an operator observes, for every variable and axis where they can be found.

    Some operators state them (`moved`). Else a point of the output lies at the mean position of the cells it depends on.
    That is the derivative of the operator at `y`, applied to the coordinates of the fields, divided by the same of ones.
    So picked points keep their places, and blocks lie at their centres. An operator that only blurs keeps the points
    where they were, although its weights lean inward at the edges.

    **Arguments:**

    - `observe`: the operator.
    - `y`: a state at which it can be differentiated.
    - `coords`: the coordinates of every field of the state.
    """
    if isinstance(observe, Compose):
        for operator in observe.operators:
            coords, y = seen_positions(operator, y, coords), operator(y)
        return dict(coords)
    if observe.scattered:
        seen = named_fields(jax.eval_shape(observe, y))
        return {name: FieldCoords(dims=(*("",) * (x.ndim - 1), "point"), coords={}) for name, x in seen.items()}
    if (stated := observe.moved(coords)) is not None:
        return stated
    numbers = {d: np.asarray(c, float) for w in coords.values() for d, c in w.coords.items() if c.dtype.kind == "f"}
    length_units = {d: unit for w in coords.values() for d, unit in w.coord_units.items()}
    found: dict[str, dict[int, str]] = {}
    where: dict[str, dict[str, np.ndarray]] = {}
    for dim, points in numbers.items():
        # from 0 to 1, so that single precision is enough where the origin is far away
        origin, span = points[0], float(np.ptp(points)) or 1.0
        unit = (points - origin) / span
        total, moments = (_pushed(observe, y, coords, dim, p) for p in (np.ones_like(unit), unit))
        for name, weights in total.items():
            with np.errstate(divide="ignore", invalid="ignore"):
                placed = _along_one_axis(np.asarray(moments[name] / weights), coords.get(name), dim)
            if placed is not None:
                axis, at = placed
                is_blurred = at.size == unit.size and not np.allclose(np.sort(at), np.sort(unit), atol=1e-5)
                found.setdefault(name, {})[axis] = dim
                where.setdefault(name, {})[dim] = points if is_blurred else origin + span * at
    shapes = {name: np.ndim(x) for name, x in named_fields(jax.eval_shape(observe, y)).items()}
    return {
        name: FieldCoords(
            dims=tuple(found.get(name, {}).get(axis, "") for axis in range(ndim)),
            coords=where.get(name, {}),
            coord_units={d: length_units.get(d, "1") for d in where.get(name, {})},
        )
        for name, ndim in shapes.items()
    }


def _pushed(
    observe: AbstractObservationOperator, y: PyTree, coords: Mapping[str, FieldCoords], dim: str, points: np.ndarray
) -> dict[str, np.ndarray]:
    """The derivative of the operator applied to fields that are `points` along one axis.

    Fields without that axis do not change.
    """

    def tangent(name: str, like: Array) -> Array:
        dims = coords[name].dims if name in coords else ()
        if dim not in dims:
            return jnp.zeros_like(like)
        shape = [-1 if d == dim else 1 for d in dims]
        return jnp.broadcast_to(jnp.asarray(points.reshape(shape), like.dtype), like.shape)

    moved = [tangent(name, x) for name, x in named_fields(y).items()]
    _, pushed = jax.jvp(observe, (y,), (jax.tree.unflatten(jax.tree.structure(y), moved),))
    return {name: np.asarray(x) for name, x in named_fields(pushed).items()}


def _along_one_axis(at: np.ndarray, before: FieldCoords | None, dim: str) -> tuple[int, np.ndarray] | None:
    """The one axis along which positions change, and the positions along it; None where there is no such axis."""
    if at.ndim == 0 or not np.all(np.isfinite(at)):
        return None
    small = 1e-9 * max(float(np.ptp(at)), np.finfo(float).tiny)
    changing = [axis for axis in range(at.ndim) if np.max(np.ptp(at, axis=axis)) > small]
    if not changing and before is not None and len(before.dims) == at.ndim and dim in before.dims:
        changing = [before.dims.index(dim)] if at.shape[before.dims.index(dim)] == 1 else []
    if len(changing) != 1:
        return None
    return changing[0], np.moveaxis(at, changing[0], 0).reshape(at.shape[changing[0]], -1)[:, 0]
