"""Search of a traced program for the first operation with a non-finite result."""

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

from pdefit._util.source_line import SourceLine, source_line


@dataclasses.dataclass(frozen=True)
class Origin:
    """Origin of a non-finite value: an operation of the program, or one of its arguments.

    **Arguments:**

    - `operation`, `line`: JAX's name of the operation with finite inputs and a non-finite result, and its source line.
    - `argument`: otherwise the index (among all leaves) of an argument that was not finite.
    """

    operation: str | None
    line: SourceLine | None
    argument: int | None


def origin(function: Callable, *arguments: PyTree) -> Origin | None:
    """Origin of values that are not finite in `function(*arguments)`; None if the result is finite.

    The program is evaluated operation by operation, and searched from its result backward: infinities that a `where`
    discards explain nothing.

    **Arguments:**

    - `function`: arrays in, arrays out.
    - `arguments`: trees of arrays.
    """
    program = jax.make_jaxpr(function)(*arguments)
    path = _explain(program.jaxpr, program.consts, jax.tree.leaves(arguments))
    if path is None:
        return None
    if isinstance(path, int):
        return Origin(None, None, path)
    return Origin(path[-1].primitive.name, source_line(path), None)


# path of nested equations (JAX's word for operations) that ends at the one that fails; or the number of an argument
_Found = list[JaxprEqn] | int | None


def _explain(
    jaxpr: Jaxpr, consts: Sequence[ArrayLike], arguments: Sequence[ArrayLike], wanted: Sequence[int] | None = None
) -> _Found:
    """Path to the operation that makes results of a program non-finite; `wanted` are indices of results (default: all)."""
    given = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *arguments), strict=True))
    # all results by one compiled program: compiling every operation by itself would take seconds
    results = jax.jit(lambda *given: _every_result(jaxpr, given))(*given.values())
    values, maker = given, {x: (i, e) for i, e in enumerate(jaxpr.eqns) for x in e.outvars}
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
        _, equation = maker[bad]
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
        # an infinite constant (of a mask, of a minimum) is intended, and no cause
        causes = [x for x in causes if not isinstance(x, Literal) and x not in jaxpr.constvars]
        if not causes:
            return [equation]
        bad = min(causes, key=lambda x: maker[x][0] if x in maker else -1)
    return None


def _selected(inputs: Sequence[ArrayLike], result: ArrayLike) -> list[bool]:
    """For each input of a selection (`where`), whether non-finite results were taken from it."""
    which, *cases = inputs
    wrong = ~jnp.isfinite(result)
    number = jnp.asarray(which).astype(int)
    return [False, *(bool(jnp.any(wrong & (number == k) & ~jnp.isfinite(x))) for k, x in enumerate(cases))]


def _every_result(jaxpr: Jaxpr, given: Sequence[ArrayLike]) -> list[list[ArrayLike]]:
    """Results of every equation of a program."""
    values: dict[Var, ArrayLike] = dict(zip((*jaxpr.constvars, *jaxpr.invars), given, strict=True))
    for equation in jaxpr.eqns:
        inputs = [x.val if isinstance(x, Literal) else values[x] for x in equation.invars]
        out = equation.primitive.bind(*inputs, **equation.primitive.get_bind_params(equation.params))
        values |= dict(zip(equation.outvars, out if equation.primitive.multiple_results else [out], strict=True))
    return [[values[x] for x in equation.outvars] for equation in jaxpr.eqns]


def _bad(x: ArrayLike) -> bool:
    dtype = getattr(x, "dtype", None)
    known = dtype is not None and jnp.issubdtype(dtype, jnp.inexact)
    return bool(~jnp.all(jnp.isfinite(x))) if known else isinstance(x, float) and not np.isfinite(x)


# --- programs inside programs ------------------------------------------------------------------------------------------


def _inside(equation: JaxprEqn, inputs: list[ArrayLike], wanted: list[int]) -> _Found:
    """Path inside an equation that holds a program with non-finite results, or the index of the responsible input."""
    name, parameters = equation.primitive.name, equation.params
    if name == "scan":
        return _in_scan(parameters, inputs, wanted)
    if name == "while":
        return _in_while(parameters, inputs)
    if name == "cond":
        branch = parameters["branches"][int(np.clip(np.asarray(inputs[0]).item(), 0, len(parameters["branches"]) - 1))]
        path = _explain(branch.jaxpr, branch.consts, inputs[1:], wanted)
        return path + 1 if isinstance(path, int) else path
    for key in ("jaxpr", "call_jaxpr", "fun_jaxpr"):
        part = parameters.get(key)
        if isinstance(part, ClosedJaxpr):
            return _explain(part.jaxpr, part.consts, inputs, wanted)
        if isinstance(part, Jaxpr):
            return _explain(part, (), inputs, wanted)
    return None


def _in_scan(parameters: dict[str, Any], inputs: list[ArrayLike], wanted: list[int]) -> _Found:
    """Path from the first iteration of a scan after which its carry, or a wanted output, is not finite."""
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
            path = _explain(body.jaxpr, body.consts, [*fixed, *carry], wrong)
            return path + first if isinstance(path, int) else path
        carry = list(results)
    return None
