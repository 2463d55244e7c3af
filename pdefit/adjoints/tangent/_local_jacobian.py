"""Local Jacobians as coefficients times basis arrays, multiplied out once for all tangents.

A derivative that JAX makes follows the function operation by operation, with a factor for each, and applies all of them
to every tangent. Here a value that is linear in the tangent is a sum of coefficients times basis arrays. A basis array
contains no factor: it is the tangent itself, or its differences in space. So factors are multiplied once, whatever the
number of tangents.
"""

from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Literal
from jaxtyping import Array, PyTree


class _Sum(NamedTuple):
    """A sum of coefficient_i basis_i, with the shape of each basis_i. A coefficient None is 1. An empty sum is zero."""

    terms: tuple[tuple[Any, Array], ...]

    @property
    def value(self) -> Array:
        first, *others = (x if c is None else c * x for c, x in self.terms)
        return sum(others, start=first)

    def times(self, factor: Any) -> "_Sum":
        return _Sum(tuple((factor if c is None else c * factor, x) for c, x in self.terms))

    def where(self, chosen: Array | np.ndarray) -> "_Sum":
        """The sum masked by `chosen`, zero elsewhere."""
        return _Sum(tuple((jnp.where(chosen, 1.0 if c is None else c, 0.0).astype(x.dtype), x) for c, x in self.terms))

    def plus(self, other: "_Sum") -> "_Sum":
        terms = {id(x): (c, x) for c, x in self.terms}
        for c, x in other.terms:
            if id(x) in terms:
                old = terms[id(x)][0]
                c = (1.0 if old is None else old) + (1.0 if c is None else c)
            terms[id(x)] = (c, x)
        total = _Sum(tuple(terms.values()))
        # factors that are numbers need no collecting: their sum is one array
        few = all(c is None or jnp.size(c) < x.size for c, x in total.terms)
        return _Sum(((None, total.value),)) if few and len(total.terms) > 1 else total


class Linearised(NamedTuple):
    """A function f(p, x) linearised at one point.

    **Arguments:**

    - `value`: f(p, x).
    - `jacobian`: dx -> df/dx dx, a pytree whose leaves are its coefficients.
    - `along`: dp -> df/dp dp, with None in dp for fixed arrays, and in the result for outputs that do not depend on p.
    """

    value: PyTree
    jacobian: Callable[[PyTree], PyTree]
    along: Callable[[PyTree], PyTree]


def linearised(function: Callable[[PyTree, PyTree], PyTree], p: PyTree, x: PyTree) -> Linearised:
    """The value and the derivative of a function at p and x."""
    out, linear = jax.linearize(function, p, x)
    closed, still = jax.make_jaxpr(linear)(p, x), jax.tree.map(jnp.zeros_like, x)
    leaves, structure = jax.tree.leaves(p), jax.tree.structure(p)

    def moved(dp: list[Any], dx: list[Any]) -> PyTree:
        outs = _evaluated(closed, [_Sum(() if d is None else ((None, d),)) for d in [*dp, *dx]])
        values = [o.value if isinstance(o, _Sum) and o.terms else None for o in outs]
        return jax.tree.unflatten(jax.tree.structure(out), values)

    def applied(dx: PyTree) -> PyTree:
        results = moved([None] * len(leaves), jax.tree.leaves(dx))
        return jax.tree.map(lambda o, d: jnp.zeros_like(o) if d is None else d, out, results)

    def along(dp: PyTree) -> PyTree:
        return moved(structure.flatten_up_to(dp), [None] * len(jax.tree.leaves(x)))

    return Linearised(out, jax.linearize(applied, still)[1], along)


def _evaluated(closed: ClosedJaxpr, args: list[Any]) -> list[Any]:
    """The results of a program whose arguments may be sums."""
    jaxpr = closed.jaxpr
    env: dict[Any, Any] = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*closed.consts, *args], strict=True))

    def read(x: Any) -> Any:
        return x.val if isinstance(x, Literal) else env[x]

    for equation in jaxpr.eqns:
        outs = _operation(equation, [read(x) for x in equation.invars])
        env.update(zip(equation.outvars, outs, strict=True))
    return [read(x) for x in jaxpr.outvars]


def _operation(equation: Any, args: list[Any]) -> list[Any]:
    """The results of one operation. Products with known factors and sums stay sums, other operations make new terms."""
    name, summed = equation.primitive.name, [isinstance(x, _Sum) for x in args]
    if name in ("jit", "pjit"):
        return _evaluated(equation.params["jaxpr"], args)
    moved = [isinstance(x, _Sum) and bool(x.terms) for x in args]
    if any(summed) and not any(moved):
        return [_Sum(()) for _ in equation.outvars]
    if name == "select_n" and any(summed) and not summed[0]:
        # a case that does not depend on the tangent is zero
        cases = [args[i].where(args[0] == i - 1) for i, found in enumerate(summed) if found]
        return [reduce(_Sum.plus, cases)]
    # factors may be numbers, or extend along fewer axes
    shape = equation.outvars[0].aval.shape
    if any(moved) and all(x.aval.shape == shape for x, m in zip(equation.invars, moved, strict=True) if m):
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
    zeros = (jnp.zeros(x.aval.shape, x.aval.dtype) for x in equation.invars)
    known = [(x.value if x.terms else z) if isinstance(x, _Sum) else x for x, z in zip(args, zeros, strict=True)]
    outs = equation.primitive.bind(*known, **equation.primitive.get_bind_params(equation.params))
    outs = outs if equation.primitive.multiple_results else [outs]
    return [_Sum(((None, x),)) for x in outs] if any(summed) else list(outs)
