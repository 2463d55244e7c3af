"""Exogenous inputs by name."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from pdefit._util.errors import PdefitError, unknown


class Inputs(eqx.Module, Mapping):
    """Named inputs for the `args` of a system, such as `args.left(t)`.

    They can be controls by these names, as in `controls: {args: {left: {values: ...}}}`.

    **Arguments:**

    - `kwargs`: functions of time such as `pdefit.TimeSeries`, numbers or arrays, by name.
    """

    _named: dict[str, Any]

    def __init__(self, **kwargs: Any):
        self._named = {n: x if callable(x) else jnp.asarray(x, float) for n, x in kwargs.items()}

    def __getitem__(self, name: str) -> Any:
        return self._named[name]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._named:
            raise AttributeError(name)
        return self._named[name]

    def __iter__(self):
        return iter(self._named)

    def __len__(self):
        return len(self._named)


def is_input(value: Any) -> bool:
    """True for a function of time, or the name of an input."""
    return isinstance(value, str) or callable(value)


def value_at(value: Any, t: Array | float, args: PyTree) -> Any:
    """Number or array of a boundary or input value at a time.

    **Arguments:**

    - `value`: a number, an array, a function of time, or the name of one of these in `args`.
    - `t`: the time, in the system's time unit.
    - `args`: a mapping, or an object with attributes.
    """
    if isinstance(value, str):
        if args is None:
            raise PdefitError(f"A boundary takes its value from the input '{value}', but there are no inputs; set args")
        is_mapping = isinstance(args, Mapping)
        names = list(args) if is_mapping else [n for n in dir(args) if n[0] != "_"]
        if value not in names:
            raise unknown("input of a boundary (args)", value, names)
        value = args[value] if is_mapping else getattr(args, value)
    return value(t) if callable(value) else value
