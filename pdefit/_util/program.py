"""Compiled functions whose kernels are worth the time that their compilation takes."""

import functools
import importlib.metadata
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
from jaxtyping import PyTree

from pdefit._util.trees import is_traced

# versions of jaxlib whose compiler options were tried: an unknown option is refused
TRIED = ("0.10.1",)
# The emitters of fused loops make kernels of fields up to 1.7 times faster, and take half the time of a compilation. On
# small states they gain nothing.
_EMITTERS = "xla_cpu_use_fusion_emitters"
# values of a state from which on faster kernels are worth their compilation
_MANY = 1000


class Program:
    """A function behind `equinox.filter_jit` that compiles fast for small states, and to fast kernels for fields.

    For all that a fit compiles. Not for functions that need other options of `jax.jit`.

    **Arguments:**

    - `function`: the function, of arrays and trees.
    - `states`: from its arguments to the states that it steps. By default it steps none, and compiles fast.
    """

    def __init__(self, function: Callable, states: Callable[..., PyTree] | None = None):
        functools.update_wrapper(self, function)
        self._function, self._states = function, states
        self._quick, self._fast = (eqx.filter_jit(function, **_options(fast)) for fast in (False, True))

    def _suited(self, args: tuple) -> Any:
        states = () if self._states is None else jax.tree.leaves(self._states(*args))
        return self._fast if sum(x.size for x in states) >= _MANY else self._quick

    def __call__(self, *args: Any) -> Any:
        # part of another program, whose options hold
        if is_traced(args):
            return self._function(*args)
        return self._suited(args)(*args)

    def lower(self, *args: Any) -> Any:
        """The lowered program for these arguments, as of `equinox.filter_jit`."""
        return self._suited(args).lower(*args)


def _options(fast: bool) -> dict[str, Any]:
    """The options of `jax.jit` for fast kernels, or for a fast compilation."""
    known = importlib.metadata.version("jaxlib") in TRIED
    return {"compiler_options": {_EMITTERS: fast}} if known else {}
