"""Observation operators: from time, state and inputs to what an instrument measures. They can be composed."""

import abc
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, PyTree

from pdefit._util.errors import PdefitError, unknown
from pdefit._util.trees import named_fields
from pdefit.data.observations import Observations
from pdefit.systems.coordinates import FieldCoords
from pdefit.systems.system import AbstractSystem


def as_names(fields: Any) -> Any:
    """The names of some fields as a tuple, from one or several; None stays."""
    return (fields,) if isinstance(fields, str) else fields if fields is None else tuple(fields)


class AbstractObservationOperator(eqx.Module):
    """An observation operator: a differentiable map from time, state and exogenous inputs to named arrays.

    Its array leaves are nuisance parameters of the instrument, such as a gain, and may be controls (`observe.gain`).
    Declared by `pdefit.parameter` they have units.
    """

    @abc.abstractmethod
    def __call__(self, t: Array, y: PyTree, args: PyTree) -> dict[str, Array]:
        """The observed variables by name.

        **Arguments:**

        - `t`: the time of the observation, a scalar, in the system's time unit.
        - `y`: the state at that time, or the mapping that another operator returned.
        - `args`: the exogenous inputs that `vector_field` is given, or None.
        """

    def on(self, system: AbstractSystem) -> "AbstractObservationOperator":
        """The operator with what it takes from a system, such as its grid.

        **Arguments:**

        - `system`: the equations.
        """
        return self

    def with_system(self, system: AbstractSystem) -> "AbstractObservationOperator":
        """The operator with the present parameters of a system, if it evaluates the equations itself.

        Unlike `on` it is called inside of traced functions, for every change of the parameters.

        **Arguments:** `system`: the equations, or tangents of their parameters.
        """
        return self

    @property
    def takes_state(self) -> bool:
        """Test for an operator that must be given a whole state, not what another operator makes of it."""
        return False

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

    @property
    def shows_states(self) -> bool:
        """Test for an operator whose data are values of the fields at their points, once `inverted` has undone the rest.

        Trajectories of windows may then start from data. An operator that does not say so shows none.
        """
        return False

    def placed(self, positions: Mapping[str, Array]) -> "AbstractObservationOperator":
        """The operator at points that come with the data; unchanged if it has fixed points or no points.

        **Arguments:**

        - `positions`: for variables that are observed at points, their coordinates, (n, d).
        """
        return self

    def along(self, axes: Mapping[str, np.ndarray]) -> "AbstractObservationOperator":
        """The operator at positions along axes that come with the data; unchanged if it has fixed ones or none.

        **Arguments:** `axes`: for each axis of the fields the positions along it, (n,).
        """
        return self

    def located(self, observations: Observations) -> Observations:
        """The record with the positions of the operator's own points. Positions at which it cannot observe are refused.

        **Arguments:** `observations`: the record.
        """
        return observations

    def inverted(self, observations: Observations) -> Observations | None:
        """The record before maps that act on each value alone, such as a gain; None if the operator does not state it.

        Blur and averages stay, and so do positions. Missing values stay missing.

        **Arguments:** `observations`: the record.
        """
        return None

    def moved(self, coords: Mapping[str, FieldCoords]) -> dict[str, FieldCoords] | None:
        """The output positions as a function of the input positions; None if the operator does not state them.

        **Arguments:** `coords`: for each field of the input its coordinates.
        """
        return None

    def returned(self, values: Mapping[str, np.ndarray], coords: Mapping[str, FieldCoords]) -> dict[str, np.ndarray]:
        """Observed values as values of the fields at their points; empty if the operator sees something else.

        Files and pictures show a variable that is returned as the field itself, and any other one beside the field.

        **Arguments:**

        - `values`: one frame of observed variables, NaN if missing.
        - `coords`: for each field its coordinates.
        """
        return {}


class AbstractSelection(AbstractObservationOperator):
    """An operator that observes values of fields as they are, at points of the grid."""

    @property
    def shows_states(self):
        return True

    def inverted(self, observations):
        return observations


class ObserveAll(AbstractSelection):
    """The operator that observes every field of the state.

    For data with every field on the grid of the model. Not for hidden fields (`Select`) or other places (`At`).
    """

    def __call__(self, t, y, args):
        return named_fields(y)

    def returned(self, values, coords):
        return dict(values)


class Select(AbstractSelection):
    """The operator that observes some fields of the state.

    For data that lack some fields. Not for places or averages: compose it with `At`, `Average` or `Subsample`.

    **Arguments:**

    - `fields`: their names, or one name.
    """

    fields: tuple[str, ...] = eqx.field(converter=as_names, static=True)

    def __call__(self, t, y, args):
        available = named_fields(y)
        for name in self.fields:
            if name not in available:
                raise unknown("field of the state", name, available)
        return {name: available[name] for name in self.fields}

    def returned(self, values, coords):
        return dict(values)


class Subsample(AbstractSelection):
    """The operator that observes every n-th point along the leading axes of all fields.

    For values at every n-th point of a finer model. Not for places between points (`At`), or averages over windows
    (`Average`, applied first).

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

    def __call__(self, t, y, args):
        offset = self.offset if self.offset is not None else tuple((n - 1) // 2 for n in self.stride)
        points = tuple(slice(first, None, step) for first, step in zip(offset, self.stride, strict=True))
        return {name: value[points] for name, value in named_fields(y).items()}


class Compose(AbstractObservationOperator):
    """Observation operators applied one after the other.

    For an instrument that does several things, such as averaging before it samples. Not for two instruments of one
    record: write an operator that returns both variables.

    **Arguments:**

    - `operators`: the operators, of which the first is applied to the state.
    """

    operators: tuple[AbstractObservationOperator, ...] = eqx.field(converter=tuple)

    def __check_init__(self):
        if any(operator.takes_state for operator in self.operators[1:]):
            raise PdefitError("An exposure begins with the whole state; put camera before the other operators")

    def __call__(self, t, y, args):
        for operator in self.operators:
            y = operator(t, y, args)
        return named_fields(y)

    def on(self, system):
        return Compose(tuple(operator.on(system) for operator in self.operators))

    def with_system(self, system):
        return Compose(tuple(operator.with_system(system) for operator in self.operators))

    @property
    def takes_state(self):
        return any(operator.takes_state for operator in self.operators[:1])

    @property
    def scattered(self):
        return any(operator.scattered for operator in self.operators)

    @property
    def lacks_points(self):
        return any(operator.lacks_points for operator in self.operators)

    @property
    def relocates(self):
        return any(operator.relocates for operator in self.operators)

    @property
    def shows_states(self):
        return all(operator.shows_states for operator in self.operators)

    def placed(self, positions):
        return Compose(tuple(operator.placed(positions) for operator in self.operators))

    def along(self, axes):
        return Compose(tuple(operator.along(axes) for operator in self.operators))

    def located(self, observations):
        for operator in self.operators:
            observations = operator.located(observations)
        return observations

    def inverted(self, observations):
        for operator in reversed(self.operators):
            if (observations := operator.inverted(observations)) is None:
                return None
        return observations

    def returned(self, values, coords):
        for operator in reversed(self.operators):
            values = operator.returned(values, coords)
        return dict(values)


def check_observed(
    observed: Mapping[str, jax.ShapeDtypeStruct], data: Mapping[str, tuple[int, ...]], source: str = "the data"
) -> None:
    """Refuse data that lack a variable which the model observes, or have it in another shape.

    **Arguments:**

    - `observed`: for each variable its shape as the model observes it.
    - `data`: for each variable of the data the shape of a frame.
    - `source`: the source of the data, for the error.
    """
    missing = [name for name in observed if name not in data]
    if missing:
        raise PdefitError(
            f"The model observes {', '.join(observed)}, but {source} hold {', '.join(data)}; name the fields of the equation "
            f"in variables (field: its name in the file), or set observe to those that were measured"
        )
    for name, shape in observed.items():
        if data[name] != shape.shape:
            raise PdefitError(
                f"The model sees '{name}' with shape {shape.shape}, but {source} have {data[name]}; "
                f"make the grid match the data, or observe through Subsample"
            )
