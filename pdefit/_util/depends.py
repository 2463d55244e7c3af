"""Dependence of the outputs of a function on its argument, found from one trace."""

from collections.abc import Callable

import jax
from jax.extend.core import Literal
from jaxtyping import Array, PyTree


def depends(function: Callable[[PyTree], list[Array]], x: PyTree) -> list[bool]:
    """For each output of a function, whether it depends on x."""
    jaxpr = jax.make_jaxpr(function)(x).jaxpr
    dependent = set(jaxpr.invars)
    for equation in jaxpr.eqns:
        if any(not isinstance(v, Literal) and v in dependent for v in equation.invars):
            dependent.update(equation.outvars)
    return [not isinstance(v, Literal) and v in dependent for v in jaxpr.outvars]
