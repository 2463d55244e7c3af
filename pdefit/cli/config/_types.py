"""Types of what a configuration holds, each with the words that refuse anything else, and values compared with type hints."""

import dataclasses
import inspect
import math
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import AbstractArray

from pdefit._util.errors import PdefitError
from pdefit._util.memory import size_in_bytes

# largest 64-bit integer: JAX holds seeds and counts of iterations in one
_LARGEST = 2**63 - 1


@dataclasses.dataclass(frozen=True)
class Expected:
    """The rule that a value of an annotated type must keep.

    **Arguments:**

    - `words`: what is expected, as it follows "expects" in an error.
    - `test`: whether a value is one.
    - `convert`: the entry of the section, from a value that is one.
    - `remedy`: what to do about a number that is no such value, where the words do not say it.
    - `each`: whether an entry of a mapping or list may stand in it, so that an error names the one that may not.
    """

    words: str
    test: Callable[[Any], bool]
    convert: Callable[[Any], Any] = lambda value: value
    remedy: str = ""
    each: Callable[[Any], bool] | None = None

    def but(self, value: Any, path: str) -> str:
        """The end of an error: the value that stands in place of what was expected."""
        wrong = f"got {value!r}"
        if self.each is not None and isinstance(value, Mapping | list | tuple):
            entries = value.items() if isinstance(value, Mapping) else enumerate(value)
            wrong = next((f"{path}.{k} is {entry!r}" for k, entry in entries if not self.each(entry)), wrong)
        return f"{wrong}; {self.remedy}" if self.remedy and is_number(value) else wrong


class Read(NamedTuple):
    """A function that reads a value of an annotated type.

    **Arguments:**

    - `read`: the function; its second argument is the path, for errors.
    - `expected`: in words, or the section whose keys the value has, or each of its entries; else the type says it.
    """

    read: Callable[[Any, str], Any]
    expected: str | type | None = None


def is_number(value: Any) -> bool:
    """Test for one finite number."""
    return isinstance(value, int | float) and is_measure(value) and math.isfinite(float(value))


def is_measure(value: Any) -> bool:
    """Test for one number, or the text of one: YAML reads 1e-3 without a dot as text."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return False
    try:
        return not math.isnan(float(value))
    except (ValueError, OverflowError):
        return False


def is_whole(value: Any, least: int = 0) -> bool:
    """Test for a whole number of 64 bits, not below the least one."""
    return is_index(value) and least <= value <= _LARGEST


def is_text(value: Any) -> bool:
    return isinstance(value, str)


def count(least: int = 1, remedy: str = "") -> Expected:
    """A whole number that is not below the least one."""
    return Expected(f"a whole number >= {least}", lambda value: is_whole(value, least), remedy=remedy)


def is_index(value: Any) -> bool:
    """Test for a whole number, below zero for one that is counted from the end."""
    return isinstance(value, int) and not isinstance(value, bool)


def mapping_of(words: str, test: Callable[[Any], bool], least: int = 0, most: float = math.inf) -> Expected:
    """A mapping whose values pass a test, with so many of them."""

    def fits(value: Any) -> bool:
        return isinstance(value, Mapping) and least <= len(value) <= most and all(map(test, value.values()))

    return Expected(words, fits, dict, each=test)


def is_size(value: Any) -> bool:
    """Test for a number of bytes, or a text such as "2 GB"."""
    try:
        return size_in_bytes(value, "") >= 0
    except PdefitError:
        return False


def is_list(value: Any, test: Callable[[Any], bool]) -> bool:
    """Test for a list whose entries pass a test."""
    return isinstance(value, list | tuple) and all(map(test, value))


Number = Annotated[float, Expected("a number", is_number, float)]
WholeNumber = Annotated[int, Expected("a whole number", is_whole)]
Count = Annotated[int, count()]
Time = Annotated[float, Expected("a time", is_number, float)]
TimeStep = Annotated[float, Expected("a positive time step (e.g. 0.1)", lambda x: is_number(x) and x > 0, float)]
Share = Annotated[float, Expected("a number from 0 to 1", lambda x: is_measure(x) and 0 <= float(x) <= 1, float)]
Size = Annotated[str | float, Expected("a size like '2 GB'", is_size)]
# numbers of a control
Positive = Annotated[float, Expected("a positive number", lambda x: is_measure(x) and 0 < float(x) < math.inf, float)]
Pair = Annotated[
    tuple[float, float],
    Expected("two numbers", lambda x: is_list(x, is_measure) and len(x) == 2, lambda x: tuple(map(float, x))),
]

# arguments of these types are plain values and not objects with a name
_PLAIN = (bool, int, float, complex, str, bytes, type(None), list, tuple, dict, Mapping, Sequence)


def argument_hints(target: Any) -> dict[str, Any]:
    """Type hints of the arguments of a class or function."""
    # a class with an __init__ of its own has the hints there, and not at its fields
    own = inspect.isclass(target) and not (
        dataclasses.is_dataclass(target) and set(inspect.signature(target).parameters) <= set(_field_names(target))
    )
    try:
        return typing.get_type_hints(target.__init__ if own else target, include_extras=True)
    # hints with names that a library imports for type checkers only cannot be resolved
    except (NameError, TypeError, AttributeError):
        return {}


def returned(target: Any) -> Any:
    """Type that a class or function makes; None if a function has no hint of it."""
    return target if inspect.isclass(target) else argument_hints(target).get("return")


def fits(hint: Any, value: Any) -> bool:
    """Test for a value that fits a type hint; if the hint leaves something open any value fits."""
    # a class since Python 3.11, but none that has instances
    if hint is Any:
        return True
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(fits(h, value) for h in inside)
    if origin in (typing.Annotated, typing.Final):
        return fits(inside[0], value)
    if origin is typing.Literal:
        return value in inside
    if hint is None or hint is type(None):
        return value is None
    if hint is bool or hint is str:
        return isinstance(value, hint)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**1023
    if origin is Callable or hint is Callable:
        return callable(value)
    if inspect.isclass(hint) and (issubclass(hint, AbstractArray | jax.Array | np.ndarray)):
        # a parameter may be a module as well: a network, an interpolant
        return isinstance(value, jax.Array | np.ndarray | eqx.Module) or _numeric(value)
    if origin is not None and inspect.isclass(origin):
        if issubclass(origin, Mapping):
            return isinstance(value, Mapping) and all(fits(inside[1], v) for v in value.values())
        if issubclass(origin, Sequence):
            return _sequence(inside, value)
        return True
    return not inspect.isclass(hint) or getattr(hint, "_is_protocol", False) or isinstance(value, hint)


def _sequence(inside: tuple[Any, ...], value: Any) -> bool:
    if not isinstance(value, list | tuple):
        return False
    if len(inside) == 2 and inside[1] is Ellipsis or len(inside) == 1:
        return all(fits(inside[0], v) for v in value)
    return len(value) == len(inside) and all(fits(h, v) for h, v in zip(inside, value, strict=True))


def _numeric(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(_numeric(v) for v in value)
    return isinstance(value, bool | int | float | np.generic)


def converted(target: Any) -> set[str]:
    """Names of the fields of a class that have a converter."""
    if not dataclasses.is_dataclass(target):
        return set()
    return {f.name for f in dataclasses.fields(target) if "converter" in f.metadata}


def _field_names(target: Any) -> list[str]:
    return [f.name for f in dataclasses.fields(target)]


def classes_in(hint: Any) -> tuple[type, ...]:
    """Classes whose objects an argument may be, by its type hint.

    An array, and whatever the hint leaves open, may be any module, such as a network or an interpolant.
    """
    if hint is not Any and inspect.isclass(hint) and typing.get_origin(hint) is None:
        if issubclass(hint, AbstractArray | jax.Array | np.ndarray):
            return (eqx.Module,)
        return () if hint in _PLAIN else (hint,)
    if isinstance(hint, typing.TypeVar) or hint is Any or hint is Callable or typing.get_origin(hint) is Callable:
        return (eqx.Module,)
    return tuple(dict.fromkeys(c for h in typing.get_args(hint) for c in classes_in(h)))
