"""Comparison of values with type hints, and the hints of configured classes and functions."""

import dataclasses
import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import AbstractArray

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
    """The type that a class or function returns; None if a function has no such hint."""
    return target if inspect.isclass(target) else argument_hints(target).get("return")


def fits(hint: Any, value: Any) -> bool:
    """True if a value fits a type hint; an open hint fits every value."""
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
    """Classes of the objects that an argument accepts, by its type hint.

    An array, or an open hint, accepts any module, such as a network or an interpolant.
    """
    if hint is not Any and inspect.isclass(hint) and typing.get_origin(hint) is None:
        if issubclass(hint, AbstractArray | jax.Array | np.ndarray):
            return (eqx.Module,)
        return () if hint in _PLAIN else (hint,)
    if isinstance(hint, typing.TypeVar) or hint is Any or hint is Callable or typing.get_origin(hint) is Callable:
        return (eqx.Module,)
    return tuple(dict.fromkeys(c for h in typing.get_args(hint) for c in classes_in(h)))
