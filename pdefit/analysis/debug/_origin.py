"""Which operation of a program makes the first value that is not finite."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, jaxpr_as_fun
from jax.typing import ArrayLike
from jaxtyping import PyTree

from pdefit.analysis.debug._source_line import SourceLine, source_line


@dataclasses.dataclass(frozen=True)
class Origin:
    """An operation whose result is not finite though what it was given is; or, without an operation, the argument (by its
    number among all leaves) that was not finite to begin with."""

    operation: str | None
    line: SourceLine | None
    argument: int | None


def origin(function: Callable, *arguments: PyTree) -> Origin | None:
    """Why `function(*arguments)` (arrays in, arrays out) is not finite; None if it is, evaluated operation by operation.

    What a `where` throws away explains nothing, so the program is evaluated forward and searched from its result back.
    """
    program = jax.make_jaxpr(function)(*arguments)
    found = _explain(program.jaxpr, program.consts, jax.tree.leaves(arguments))
    if found is None:
        return None
    if isinstance(found, int):
        return Origin(None, None, found)
    return Origin(found[-1].primitive.name, source_line(found), None)


# the equations that lead to an operation, each inside the one before; or the number of an argument
_Found = list[JaxprEqn] | int | None


def _explain(
    jaxpr: Jaxpr, consts: Sequence[ArrayLike], arguments: Sequence[ArrayLike], wanted: Sequence[int] | None = None
) -> _Found:
    """Why a program's results (those with the numbers `wanted`) are not finite."""
    given = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *arguments), strict=True))
    # in one compiled program: a compilation for each operation takes seconds
    results = jax.jit(lambda *given: _every_result(jaxpr, given))(*given.values())
    values, made = given, {x: (i, e) for i, e in enumerate(jaxpr.eqns) for x in e.outvars}
    for equation, found in zip(jaxpr.eqns, results, strict=True):
        values |= dict(zip(equation.outvars, found, strict=True))

    def read(x: Var | Literal) -> ArrayLike:
        return x.val if isinstance(x, Literal) else values[x]

    chosen = [x for k, x in enumerate(jaxpr.outvars) if wanted is None or k in wanted]
    bad = next((x for x in chosen if _bad(read(x)) and not isinstance(x, Literal)), None)
    while bad is not None:
        if bad in jaxpr.invars:
            return jaxpr.invars.index(bad)
        if bad in jaxpr.constvars:
            return None
        _, equation = made[bad]
        inputs, results = [read(x) for x in equation.invars], [values[x] for x in equation.outvars]
        inside = _inside(equation, inputs, [k for k, r in enumerate(results) if _bad(r)])
        if isinstance(inside, list):
            return [equation, *inside]
        if isinstance(inside, int):
            causes = [equation.invars[inside]]
        else:
            used = [_bad(x) for x in inputs]
            if equation.primitive.name == "select_n":
                used = _selected(inputs, results[0])
            causes = [x for x, u in zip(equation.invars, used, strict=True) if u]
        # infinity as a constant (of a mask, a minimum) is meant
        causes = [x for x in causes if not isinstance(x, Literal) and x not in jaxpr.constvars]
        if not causes:
            return [equation]
        bad = min(causes, key=lambda x: made[x][0] if x in made else -1)
    return None


def _selected(inputs: Sequence[ArrayLike], result: ArrayLike) -> list[bool]:
    """Which cases of a selection its bad results come from."""
    which, *cases = inputs
    wrong = ~jnp.isfinite(result)
    number = jnp.asarray(which).astype(int)
    return [False, *(bool(jnp.any(wrong & (number == k) & ~jnp.isfinite(x))) for k, x in enumerate(cases))]


def _every_result(jaxpr: Jaxpr, given: Sequence[ArrayLike]) -> list[list[ArrayLike]]:
    """The results of every equation of a program."""
    values: dict[Var, ArrayLike] = dict(zip((*jaxpr.constvars, *jaxpr.invars), given, strict=True))
    for equation in jaxpr.eqns:
        inputs = [x.val if isinstance(x, Literal) else values[x] for x in equation.invars]
        found = equation.primitive.bind(*inputs, **equation.primitive.get_bind_params(equation.params))
        values |= dict(zip(equation.outvars, found if equation.primitive.multiple_results else [found], strict=True))
    return [[values[x] for x in equation.outvars] for equation in jaxpr.eqns]


def _bad(x: ArrayLike) -> bool:
    dtype = getattr(x, "dtype", None)
    known = dtype is not None and jnp.issubdtype(dtype, jnp.inexact)
    return bool(~jnp.all(jnp.isfinite(x))) if known else isinstance(x, float) and not np.isfinite(x)


# --- programs inside programs ------------------------------------------------------------------------------------------


def _inside(equation: JaxprEqn, inputs: list[ArrayLike], wanted: list[int]) -> _Found:
    """Why an equation that holds a program has bad results: the equations inside, or the number of its input."""
    name, parameters = equation.primitive.name, equation.params
    if name == "scan":
        return _in_scan(parameters, inputs, wanted)
    if name == "while":
        return _in_while(parameters, inputs)
    if name == "cond":
        branch = parameters["branches"][int(np.clip(np.asarray(inputs[0]).item(), 0, len(parameters["branches"]) - 1))]
        found = _explain(branch.jaxpr, branch.consts, inputs[1:], wanted)
        return found + 1 if isinstance(found, int) else found
    for key in ("jaxpr", "call_jaxpr", "fun_jaxpr"):
        part = parameters.get(key)
        if isinstance(part, ClosedJaxpr):
            return _explain(part.jaxpr, part.consts, inputs, wanted)
        if isinstance(part, Jaxpr):
            return _explain(part, (), inputs, wanted)
    return None


def _in_scan(parameters: dict[str, Any], inputs: list[ArrayLike], wanted: list[int]) -> _Found:
    """The first turn of a loop after which what it carries, or what is wanted of its outputs, is bad."""
    body, consts, carried = parameters["jaxpr"], parameters["num_consts"], parameters["num_carry"]
    fixed, carry, xs = inputs[:consts], inputs[consts : consts + carried], inputs[consts + carried :]
    turns, run = range(parameters["length"]), jax.jit(jaxpr_as_fun(body))
    for i in reversed(turns) if parameters["reverse"] else turns:
        given = [*fixed, *carry, *(lax.dynamic_index_in_dim(x, i, keepdims=False) for x in xs)]
        results = run(*given)
        wrong = [k for k, r in enumerate(results) if (k < carried or k in wanted) and _bad(r)]
        if wrong:
            found = _explain(body.jaxpr, body.consts, given, wrong)
            return found
        carry = list(results[:carried])
    return None


def _in_while(parameters: dict[str, Any], inputs: list[ArrayLike]) -> _Found:
    condition, body = parameters["cond_jaxpr"], parameters["body_jaxpr"]
    first, second = parameters["cond_nconsts"], parameters["body_nconsts"]
    asked, fixed, carry = inputs[:first], inputs[first : first + second], inputs[first + second :]
    goes_on, run = jax.jit(jaxpr_as_fun(condition)), jax.jit(jaxpr_as_fun(body))
    while bool(goes_on(*asked, *carry)[0]):
        results = run(*fixed, *carry)
        wrong = [k for k, r in enumerate(results) if _bad(r)]
        if wrong:
            found = _explain(body.jaxpr, body.consts, [*fixed, *carry], wrong)
            return found + first if isinstance(found, int) else found
        carry = list(results)
    return None
