"""Compiled functions with compiler options suited to their size."""

import functools
import importlib.metadata
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import PyTree

from pdefit._util.trees import is_traced

# versions of jaxlib whose compiler options were tried: an unknown option is refused
TRIED = ("0.10.1",)
# The emitters of fused loops make kernels of fields up to 1.7 times faster, and take half the time of a compilation. On
# small states they gain nothing.
_EMITTERS = "xla_cpu_use_fusion_emitters"
# values of a state from which on faster kernels are worth their compilation
SMALL = 1000


class Program:
    """A function wrapped by `equinox.filter_jit`: fast compilation for small states, fast kernels for fields.

    For all programs of a fit. Not for functions that need other options of `jax.jit`.

    **Arguments:**

    - `function`: the function, of arrays and trees.
    - `size`: maps the arguments to the number of values of the stepped states; by default 0.
    - `donate`: as of `equinox.filter_jit`.
    """

    def __init__(self, function: Callable, size: Callable[..., int] = lambda *_: 0, donate: Any = "none"):
        functools.update_wrapper(self, function)
        self._function, self._size = function, size
        self._quick, self._fast = (eqx.filter_jit(function, donate=donate, **_options(fast)) for fast in (False, True))

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def _suited(self, args: tuple) -> Any:
        return self._fast if self._size(*args) >= SMALL else self._quick

    def __call__(self, *args: Any) -> Any:
        # part of another program, whose options hold
        if is_traced(args):
            return self._function(*args)
        # inside another program that traces none of them it is evaluated at once
        with jax.core.eval_context():  # pyright: ignore[reportAttributeAccessIssue]
            return self._suited(args)(*args)

    def lower(self, *args: Any) -> Any:
        """The lowered program for these arguments, as in `equinox.filter_jit`."""
        return self._suited(args).lower(*args)


def _options(fast: bool) -> dict[str, Any]:
    """Options of `jax.jit` for fast kernels or for fast compilation."""
    known = importlib.metadata.version("jaxlib") in TRIED
    return {"compiler_options": {_EMITTERS: fast}} if known else {}


def values_of(tree: PyTree) -> int:
    """Number of values in all arrays of a tree."""
    return sum(np.size(x) for x in jax.tree.leaves(tree))
