"""Derivatives with their coefficients collected.

A derivative that JAX makes follows the function operation by operation, with a factor for each, and applies all of them
to every tangent. Here a value that is linear in the tangent is a sum of coefficients times basis arrays. A basis array
is what no coefficient can be drawn out of: the tangent itself, or its differences in space. So factors are multiplied
once, whatever the number of tangents.
"""

from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Literal
from jaxtyping import Array, PyTree


class _Sum(NamedTuple):
    """A sum_i coefficient_i basis_i, of the shape of every basis_i. A coefficient of None is 1."""

    terms: tuple[tuple[Any, Array], ...]

    @property
    def value(self) -> Array:
        first, *others = (x if c is None else c * x for c, x in self.terms)
        return sum(others, start=first)

    def times(self, factor: Any) -> "_Sum":
        return _Sum(tuple((factor if c is None else c * factor, x) for c, x in self.terms))

    def where(self, chosen: Array) -> "_Sum":
        """The sum where chosen, zero elsewhere."""
        return _Sum(tuple((jnp.where(chosen, 1.0 if c is None else c, 0.0).astype(x.dtype), x) for c, x in self.terms))

    def plus(self, other: "_Sum") -> "_Sum":
        found = {id(x): (c, x) for c, x in self.terms}
        for c, x in other.terms:
            if id(x) in found:
                old = found[id(x)][0]
                c = (1.0 if old is None else old) + (1.0 if c is None else c)
            found[id(x)] = (c, x)
        return _Sum(tuple(found.values()))


def collected(function: Callable[[PyTree], PyTree], x: PyTree) -> tuple[PyTree, Callable[[PyTree], PyTree]]:
    """f(x), and its derivative dx -> f'(x) dx as a pytree whose leaves are its coefficients."""
    out, linear = jax.linearize(function, x)
    still = jax.tree.map(jnp.zeros_like, x)

    def applied(dx: PyTree) -> PyTree:
        return jax.tree.map(lambda o, d: jnp.zeros_like(o) if d is None else d, out, _along(linear, dx))

    return out, jax.linearize(applied, still)[1]


def direction(function: Callable[[PyTree], PyTree], x: PyTree, dx: PyTree) -> PyTree:
    """The derivative f'(x) dx, with None in place of what does not depend on dx."""
    return _along(jax.linearize(function, x)[1], dx)


def depends(function: Callable[[PyTree], list[Array]], x: PyTree) -> list[bool]:
    """For each value of a function whether it depends on x."""
    jaxpr = jax.make_jaxpr(function)(x).jaxpr
    found = set(jaxpr.invars)
    for equation in jaxpr.eqns:
        if any(not isinstance(v, Literal) and v in found for v in equation.invars):
            found.update(equation.outvars)
    return [not isinstance(v, Literal) and v in found for v in jaxpr.outvars]


def _along(linear: Callable[[PyTree], PyTree], dx: PyTree) -> PyTree:
    """A linear function applied to dx, with None in place of what does not depend on it."""
    closed, shape = jax.make_jaxpr(linear, return_shape=True)(dx)
    outs = _evaluated(closed, [_Sum(((None, d),)) for d in jax.tree.leaves(dx)])
    return jax.tree.unflatten(jax.tree.structure(shape), [o.value if isinstance(o, _Sum) else None for o in outs])


def _evaluated(closed: ClosedJaxpr, args: list[Any]) -> list[Any]:
    """The results of a program of which some arguments are sums."""
    jaxpr = closed.jaxpr
    env: dict[Any, Any] = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*closed.consts, *args], strict=True))

    def read(x: Any) -> Any:
        return x.val if isinstance(x, Literal) else env[x]

    for equation in jaxpr.eqns:
        outs = _operation(equation, [read(x) for x in equation.invars])
        env.update(zip(equation.outvars, outs, strict=True))
    return [read(x) for x in jaxpr.outvars]


def _operation(equation: Any, args: list[Any]) -> list[Any]:
    """The results of one operation. Products with known factors and sums stay sums, anything else makes new terms."""
    name, summed = equation.primitive.name, [isinstance(x, _Sum) for x in args]
    if name in ("jit", "pjit"):
        return _evaluated(equation.params["jaxpr"], args)
    if name == "select_n" and any(summed) and not summed[0]:
        # a case that does not depend on the tangent is zero
        cases = [args[i].where(args[0] == i - 1) for i, found in enumerate(summed) if found]
        return [reduce(_Sum.plus, cases)]
    # factors may be numbers, or extend along fewer axes
    shape = equation.outvars[0].aval.shape
    if any(summed) and all(x.aval.shape == shape for x, s in zip(equation.invars, summed, strict=True) if s):
        match name, summed:
            case "mul", [True, False]:
                return [args[0].times(args[1])]
            case "mul", [False, True]:
                return [args[1].times(args[0])]
            case "div", [True, False]:
                return [args[0].times(1 / args[1])]
            case "neg", _:
                return [args[0].times(-1.0)]
            case (("add" | "add_any"), [True, True]):
                return [args[0].plus(args[1])]
            case "sub", [True, True]:
                return [args[0].plus(args[1].times(-1.0))]
            case _:
                pass
    known = [x.value if isinstance(x, _Sum) else x for x in args]
    outs = equation.primitive.bind(*known, **equation.primitive.get_bind_params(equation.params))
    outs = outs if equation.primitive.multiple_results else [outs]
    return [_Sum(((None, x),)) for x in outs] if any(summed) else list(outs)
