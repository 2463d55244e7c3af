"""Observation operators: from a state to what the instrument sees, as arrays by name. They compose."""

import abc
from collections.abc import Mapping

import equinox as eqx
import jax
from jaxtyping import Array, PyTree

from pdefit.arrays.trees import named_fields
from pdefit.errors import PdefitError, unknown
from pdefit.systems.observations import Observations


class AbstractObservationOperator(eqx.Module):
    """A differentiable map from a state (or from what another operator saw) to named arrays. Its array leaves are nuisance
    parameters of the instrument and may be controls."""

    @abc.abstractmethod
    def __call__(self, y: PyTree) -> dict[str, Array]:
        """The observed variables by name."""


class ObserveAll(AbstractObservationOperator):
    """Every field of the state."""

    def __call__(self, y):
        return named_fields(y)


class Select(AbstractObservationOperator):
    """Some fields of the state, by name."""

    fields: tuple[str, ...] = eqx.field(converter=lambda f: (f,) if isinstance(f, str) else tuple(f), static=True)

    def __call__(self, y):
        available = named_fields(y)
        for name in self.fields:
            if name not in available:
                raise unknown("field of the state", name, available)
        return {name: available[name] for name in self.fields}


class Subsample(AbstractObservationOperator):
    """Every `stride`-th point along each of the leading axes, starting at `offset` (default: the middle of a stride)."""

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
    """Operators one after the other, the first nearest to the state."""

    operators: tuple[AbstractObservationOperator, ...] = eqx.field(converter=tuple)

    def __call__(self, y):
        for operator in self.operators:
            y = operator(y)
        return named_fields(y)


def check_observed(seen: Mapping[str, jax.ShapeDtypeStruct], observations: Observations) -> None:
    """Refuse data that lack a variable which the model sees, or have it in another shape."""
    missing = [name for name in seen if name not in observations.values]
    if missing:
        raise PdefitError(
            f"The model observes {', '.join(seen)}, but the data hold {', '.join(observations.values)}; "
            f"set observe to the fields that were measured"
        )
    for name, shape in seen.items():
        got = observations.values[name].shape[1:]
        if got != shape.shape:
            raise PdefitError(
                f"The model sees '{name}' with shape {shape.shape}, but the data have {got}; "
                f"make the grid match the data, or observe through Subsample"
            )
