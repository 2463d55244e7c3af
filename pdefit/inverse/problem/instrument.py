"""Observation operators: maps from time, state and inputs to measured variables. They can be composed."""

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
    """Names of fields as a tuple, from one name or several; None stays None."""
    return (fields,) if isinstance(fields, str) else fields if fields is None else tuple(fields)


class AbstractObservationOperator(eqx.Module):
    """An observation operator: a differentiable map from time, state and exogenous inputs to named arrays.

    Its array leaves are nuisance parameters of the instrument, such as a gain, and may be controls (`observe.gain`). If
    declared by `pdefit.parameter`, they have units.
    """

    @abc.abstractmethod
    def __call__(self, t: Array, y: PyTree, args: PyTree) -> dict[str, Array]:
        """The observed variables by name.

        **Arguments:**

        - `t`: the time of the observation, a scalar, in the system's time unit.
        - `y`: the state at that time, or the mapping returned by another operator.
        - `args`: the exogenous inputs of `vector_field`, or None.
        """

    def on(self, system: AbstractSystem) -> "AbstractObservationOperator":
        """The operator completed with the properties of a system that it needs, such as its grid.

        **Arguments:**

        - `system`: the equations.
        """
        return self

    def with_system(self, system: AbstractSystem) -> "AbstractObservationOperator":
        """The operator with the present parameters of a system, if it evaluates the equations itself.

        Unlike `on`, it is called inside traced functions, for every change of the parameters.

        **Arguments:** `system`: the equations, or tangents of their parameters.
        """
        return self

    @property
    def takes_state(self) -> bool:
        """True if the operator needs a whole state, not the output of another operator."""
        return False

    @property
    def scattered(self) -> bool:
        """True if the output is a list of points, without an axis that orders them."""
        return False

    @property
    def lacks_points(self) -> bool:
        """True if the operator's points come with the data."""
        return False

    @property
    def relocates(self) -> bool:
        """True if the output may have the shape of a field, but lies at other points."""
        return False

    @property
    def shows_states(self) -> bool:
        """True if data are values of the fields at their points, after `inverted`.

        Trajectories of windows may then start from data. By default an operator shows no states.
        """
        return False

    def placed(self, positions: Mapping[str, Array]) -> "AbstractObservationOperator":
        """The operator at points that come with the data; unchanged if it has fixed points or no points.

        **Arguments:**

        - `positions`: the coordinates, (n, d), of variables observed at points.
        """
        return self

    def along(self, axes: Mapping[str, np.ndarray]) -> "AbstractObservationOperator":
        """The operator at positions along axes that come with the data; unchanged if it has fixed ones or none.

        **Arguments:** `axes`: the positions along each axis of the fields, (n,).
        """
        return self

    def located(self, observations: Observations) -> Observations:
        """The record with the operator's own positions; positions at which it cannot observe are refused.

        **Arguments:** `observations`: the record.
        """
        return observations

    def inverted(self, observations: Observations) -> Observations | None:
        """The record with pointwise maps, such as a gain, inverted; None if the operator does not state the inverse.

        Blur and averages are not inverted, and positions are kept. Missing values stay missing.

        **Arguments:** `observations`: the record.
        """
        return None

    def moved(self, coords: Mapping[str, FieldCoords]) -> dict[str, FieldCoords] | None:
        """Output positions as a function of the input positions; None if the operator does not state them.

        **Arguments:** `coords`: the coordinates of each field of the input.
        """
        return None

    def returned(self, values: Mapping[str, np.ndarray], coords: Mapping[str, FieldCoords]) -> dict[str, np.ndarray]:
        """Observed values as values of the fields at their points; empty if the operator observes something else.

        Files and pictures show a returned variable as the field itself, and any other one beside the field.

        **Arguments:**

        - `values`: one frame of observed variables, NaN if missing.
        - `coords`: the coordinates of each field.
        """
        return {}


class AbstractSelection(AbstractObservationOperator):
    """An operator that observes unchanged values of fields at points of the grid."""

    @property
    def shows_states(self):
        return True

    def inverted(self, observations):
        return observations


class ObserveAll(AbstractSelection):
    """Observation operator: every field of the state.

    For data with every field on the grid of the model. Not for hidden fields (`Select`) or other positions (`At`).
    """

    def __call__(self, t, y, args):
        return named_fields(y)

    def returned(self, values, coords):
        return dict(values)


class Select(AbstractSelection):
    """Observation operator: some fields of the state.

    For data that lack some fields. Not for positions or averages: compose it with `At`, `Average` or `Subsample`.

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
    """Observation operator: every n-th point along the leading axes of all fields.

    For values at every n-th point of a finer model. Not for positions between points (`At`), or averages over windows
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

    For an instrument with several operations, such as averaging before sampling. Not for two instruments of one record:
    write an operator that returns both variables.

    **Arguments:**

    - `operators`: the operators; the first is applied to the state.
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
    """Refuse data that lack an observed variable of the model, or have it in another shape.

    **Arguments:**

    - `observed`: the shape of each variable that the model observes.
    - `data`: the shape of a frame of each variable of the data.
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
