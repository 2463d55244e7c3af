"""The base class of equations for plugins: discretised in space, with declared parameters."""

import abc
import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray, PyTree

from pdefit._util.errors import PdefitError
from pdefit.data.units import unit_in_system
from pdefit.systems.coordinates import FieldCoords

# the parts of a problem beside its system, by their names in controls
PARTS = ("y0", "observe", "nodes", "args", "events")


class AbstractSystem(eqx.Module):
    """Equations after discretisation in space (method of lines): dy/dt = f(t, y).

    Parameters are declared with `parameter`, other arrays with `constant`. Both are array leaves of the system.
    `time_unit` is the unit of `t` and of every rate, such as "s", "ms" or "day".
    """

    time_unit: ClassVar[str]

    def __check_init__(self):
        if not isinstance(getattr(self, "time_unit", None), str):
            raise PdefitError(
                f'{type(self).__name__} states no unit of time; write time_unit: ClassVar[str] = "s" in it'
            )

    @abc.abstractmethod
    def vector_field(self, t: Array, y: PyTree, args: PyTree) -> PyTree:
        """The time derivative dy/dt, with the tree, shapes and dtypes of y.

        A linear constraint (such as a pressure projection) is part of it.

        **Arguments:**

        - `t`: the time, a scalar, in the system's time unit.
        - `y`: the state, any tree of arrays.
        - `args`: exogenous inputs such as a stimulus, or None.
        """

    @abc.abstractmethod
    def init(self, key: PRNGKeyArray) -> PyTree:
        """An initial state.

        If written with `jax.numpy`, it may contain parameters, and depends on unknown ones (`pdefit.OwnInitial`).

        **Arguments:**

        - `key`: the key of random initial states; others ignore it.
        """

    def coords(self) -> dict[str, FieldCoords]:
        """Dimensions, coordinates, unit and long name of every field of the state, by the field's name.

        Empty by default: axes then have indices, and fields no unit.
        """
        return {}


@dataclasses.dataclass(frozen=True)
class ParameterInfo:
    """The declaration of a parameter. Its attributes are the arguments of `parameter`."""

    unit: str
    positive: bool
    doc: str
    dims: tuple[str, ...]


def _array(value: Any) -> Any:
    """A number as an array. A module (a network, an interpolant) is unchanged, and so is None."""
    if value is None or isinstance(value, eqx.Module):
        return value
    value = value if isinstance(value, jax.Array) else np.asarray(value)
    # an explicit dtype: Python numbers would stay weakly typed, and a control of another type would compile everything
    # anew
    exact = value.astype(value.dtype if jnp.issubdtype(value.dtype, jnp.inexact) else float)
    return exact if isinstance(value, jax.Array) else jax.device_put(exact)


def parameter(*, unit: str = "1", positive: bool = False, doc: str = "", dims: tuple[str, ...] = (), **kwargs) -> Any:
    """Declaration of a parameter of a system or an observation operator: an array, or a module, that can be a control.

        D: Array = pdefit.parameter(unit="mm^2/s", positive=True, doc="diffusivity", default=0.1)

    **Arguments:**

    - `unit`: the unit of all its numbers; default "1". The words `length` and `time` stand for the units of grid and
      system: `length^2/time` is `um^2/s` on a grid in um. `mm^2/s` is refused there, because numbers are not converted.
    - `positive`: whether it must be positive; guesses are checked.
    - `doc`: a description for tables.
    - `dims`: the axes of an array parameter, by dimensions that `AbstractSystem.coords` labels. Tables then have names
      such as `gm.Mars` instead of `gm.4`.
    - `kwargs`: passed on to `equinox.field`, such as `default`.
    """
    info = ParameterInfo(unit=unit, positive=positive, doc=doc, dims=dims)
    return eqx.field(converter=_array, metadata={"parameter": info}, **kwargs)


def constant(*, unit: str = "1", doc: str = "", converter: Callable[[Any], Any] = jnp.asarray, **kwargs) -> Any:
    """Declaration of an array of a system that is never inferred: a mask, a transform matrix, a stimulus map.

    **Arguments:**

    - `unit`, `doc`: as in `parameter`.
    - `converter`: makes the array from the user's value; default `jax.numpy.asarray`.
    - `kwargs`: passed on to `equinox.field`, such as `default`.
    """
    return eqx.field(converter=converter, metadata={"constant": unit, "doc": doc}, **kwargs)


def parameters(owner: eqx.Module | type[eqx.Module]) -> dict[str, ParameterInfo]:
    """The declared parameters of a system or an observation operator by name, each with its `ParameterInfo`.

    The units of a system's constants are checked, too.

    **Arguments:**

    - `owner`: a system, for parameters in its own units; or an operator or a class, for units as declared.
    """
    declared: dict[str, ParameterInfo] = {
        f.name: f.metadata["parameter"] for f in dataclasses.fields(owner) if "parameter" in f.metadata
    }
    if not isinstance(owner, AbstractSystem):
        return declared
    if taken := [name for name in declared if name in PARTS]:
        parts = f"in controls {', '.join(PARTS)} are parts of the problem beside the system"
        raise PdefitError(
            f"A parameter of {type(owner).__name__} is called '{taken[0]}', but {parts}; give it another name"
        )
    for field in dataclasses.fields(owner):
        unit_in(owner, field.metadata.get("constant", "1"), field.name)
    return {name: dataclasses.replace(info, unit=unit_in(owner, info.unit, name)) for name, info in declared.items()}


def unit_in(system: AbstractSystem, declared: str, name: str) -> str:
    """A declared unit with the words `length` and `time` replaced by the system's units.

    **Arguments:**

    - `system`: the system.
    - `declared`: the unit as in `parameter`.
    - `name`: the name of the declared array, for errors.

    **Errors:** PdefitError for another unit of length or time than the system's.
    """
    parts = (system, *(getattr(system, field.name) for field in dataclasses.fields(system)))
    # a grid of any kind, or a system of bodies
    length = next((unit for part in parts if isinstance(unit := getattr(part, "length_unit", None), str)), "1")
    return unit_in_system(declared, length, system.time_unit, name)
