"""What a plugin writes: equations after discretisation in space, with declared parameters."""

import abc
import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray, PyTree


class AbstractSystem(eqx.Module):
    """Equations after discretisation in space (method of lines).

    Parameters are declared with `parameter`, other arrays with `constant`; both are array leaves of the system.
    `time_unit` is the unit of `t` and of every rate, e.g. "s", "ms", "day".
    """

    time_unit: eqx.AbstractClassVar[str]

    @abc.abstractmethod
    def vector_field(self, t: Array, y: PyTree, args: PyTree) -> PyTree:
        """dy/dt with the tree, shapes and dtypes of y. Linear constraints (a pressure projection) are projected in here.

        `args` holds exogenous inputs, or None.
        """

    @abc.abstractmethod
    def init(self, key: PRNGKeyArray) -> PyTree:
        """An initial state."""


@dataclasses.dataclass(frozen=True)
class ParameterInfo:
    """How a parameter was declared."""

    unit: str
    positive: bool
    doc: str
    dims: tuple[str, ...]


def _array(value: Any) -> Any:
    """A number becomes a floating-point array; a module (a network, an interpolant) stays what it is."""
    if isinstance(value, eqx.Module):
        return value
    dtype = value.dtype if isinstance(value, jax.Array) else np.asarray(value).dtype
    # an explicit dtype: Python numbers would stay weakly typed, and a control of another type compile everything anew
    return jnp.asarray(value, dtype if jnp.issubdtype(dtype, jnp.inexact) else float)


def parameter(*, unit: str = "1", positive: bool = False, doc: str = "", dims: tuple[str, ...] = (), **kwargs) -> Any:
    """Declare a parameter: an array leaf, or a whole Equinox module, that can be a control.

    `dims` names the axes of an array parameter by the dimensions that `AbstractGridded.coords` labels, so that tables can
    say `gm.Mars` instead of `gm.4`. Further keywords go to `equinox.field` (`default=...`).
    """
    info = ParameterInfo(unit=unit, positive=positive, doc=doc, dims=dims)
    return eqx.field(converter=_array, metadata={"parameter": info}, **kwargs)


def constant(*, converter: Callable[[Any], Any] = jnp.asarray, **kwargs) -> Any:
    """Declare an array that is never inferred: a mask, a transform matrix, a stimulus map."""
    return eqx.field(converter=converter, metadata={"constant": True}, **kwargs)


def parameters(system: AbstractSystem | type[AbstractSystem]) -> dict[str, ParameterInfo]:
    """The declared parameters of a system (or of its class) by name."""
    return {
        field.name: field.metadata["parameter"] for field in dataclasses.fields(system) if "parameter" in field.metadata
    }
