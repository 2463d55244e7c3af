"""Quantities derived from fitted numbers: formulas bound to theta, and their errors to first order (the delta method)."""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pdefit._util.errors import PdefitError, unknown
from pdefit.inverse.controls.bound_control import BoundControl
from pdefit.inverse.controls.paths import declaration, leaf, possible
from pdefit.inverse.controls.theta import Controls
from pdefit.inverse.controls.transforms import AbstractTransform, Identity, Log
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.problem.problem import Problem
from pdefit.inverse.uncertainty.control_values import moved
from pdefit.inverse.uncertainty.intervals import FACTOR
from pdefit.systems.terms.expression import Expression

_NAME = re.compile(r"[A-Za-z_]\w*", re.A)


class Quantity(NamedTuple):
    """A formula of fitted and known numbers.

    **Arguments:**

    - `name`: its name, with the index of a recording if its numbers differ between recordings, such as `half_life[1]`.
    - `formula`: the formula.
    - `transform`: the map to the scale on which its interval is symmetric.
    - `unit`: its unit; empty if it is not known.
    - `places`: the index in theta of each fitted number, by its name in the formula.
    - `known`: the value of each other number, or its values in E members, (E,).
    """

    name: str
    formula: Expression
    transform: AbstractTransform
    unit: str
    places: Mapping[str, int]
    known: Mapping[str, float | Array]


def read_formulas(given: Any, path: str = "derive") -> dict[str, Expression]:
    """Formulas of derived quantities by name.

    **Arguments:**

    - `given`: a mapping from names to texts, such as `{"R0": "beta / gamma"}`, or to formulas.
    - `path`: its path in a configuration, for errors.
    """
    if not (isinstance(given, Mapping) and all(isinstance(n, str) and _NAME.fullmatch(n) for n in given)):
        raise PdefitError(f"{path} expects names and formulas such as {{R0: beta / gamma}}, but got {given!r:.200}")
    return {n: f if isinstance(f, Expression) else Expression.parse(f, paths=True) for n, f in given.items()}


def quantities(objective: AbstractObjective, formulas: Mapping[str, Expression]) -> list[Quantity]:
    """The formulas bound to the numbers of an objective.

    A formula has one quantity, or one for each recording if its numbers differ between recordings.

    **Arguments:**

    - `objective`: the objective.
    - `formulas`: formulas of names in tables, such as `k`, `gm.Mars` or `k[1]`, and of known scalar parameters.

    **Errors:** PdefitError if a name is unknown or no scalar, or if a quantity has the name of a parameter.
    """
    found, parts = list[Quantity](), objective.parts(objective.theta0) if formulas else []
    for name, formula in formulas.items():
        each = [_bound(name, formula, objective.controls, e, part.problem) for e, (part, _) in enumerate(parts)]
        same = all((q.places, q.known) == (each[0].places, each[0].known) for q in each)
        found += each[:1] if same else [q._replace(name=f"{name}[{e}]") for e, q in enumerate(each)]
    return found


def _bound(name: str, formula: Expression, controls: Controls, e: int, problem: Problem) -> Quantity:
    """A formula bound to the numbers of recording `e`."""
    fitted = dict[str, tuple[BoundControl, int]]()
    for control, span in controls.spans:
        # with the index of its recording and, in its own recording, without
        for c in (control, dataclasses.replace(control, recording=None)):
            if control.is_number and (c is control or control.recording in (None, e)):
                fitted |= zip(c.names(), ((control, i) for i in range(span.start, span.stop)), strict=True)
    paths = {path for path in possible(problem) if path not in fitted}
    known = {path: float(x) for path in paths if not np.ndim(x := leaf(problem, path)(problem))}
    if name in {*fitted, *paths, *(c.name for c in controls.items)}:
        raise PdefitError(f"derive.{name} has the name of a parameter; choose another name")
    if wrong := [n for n in formula.names if n not in {*fitted, *known}]:
        raise unknown(f"scalar parameter (derive.{name})", wrong[0], {*fitted, *known})
    positive = {n for n, (c, _) in fitted.items() if type(c.transform) in FACTOR} | {n for n in known if known[n] > 0}
    scale, alone = Log() if _is_positive(formula, positive) else Identity(), str(formula.value)
    scale = fitted[alone][0].transform if alone in fitted else scale
    units = {fitted[n][0].unit if n in fitted else getattr(declaration(problem, n), "unit", "") for n in formula.names}
    unit = units.pop() if formula.kind == "name" or units == {"1"} else ""
    places = {n: fitted[n][1] for n in formula.names if n in fitted}
    return Quantity(name, formula, scale, unit, places, {n: known[n] for n in formula.names if n not in fitted})


def _is_positive(formula: Expression, positive: set[str]) -> bool:
    """True if a formula is positive for all values of its names, of which some are known to be positive."""
    if not formula.names:
        return bool(formula({}) > 0)
    parts = [_is_positive(part, positive) for part in formula.parts]
    if formula.kind in ("+", "*", "/"):
        return all(parts)
    return formula.value in positive or formula.kind == "exp" or formula.kind in ("^", "sqrt") and parts[0]


def values_and_slopes(
    bound: Sequence[Quantity], controls: Controls, thetas: Float[np.ndarray, "k E p"]
) -> tuple[Float[np.ndarray, "k E n"], Float[np.ndarray, "k E n p"]]:
    """Values of quantities, and derivatives on the scale of each in the values of theta in search space.

    **Arguments:**

    - `bound`: the quantities.
    - `controls`: the controls of theta.
    - `thetas`: k points of each of E members.
    """

    def each(theta: Array, by: Array, known: list[dict[str, Array]]) -> tuple[Array, Array]:
        physical = moved(controls, theta, by)
        pairs = zip(bound, known, strict=True)
        values = [q.formula(own | {n: physical[i] for n, i in q.places.items()}) for q, own in pairs]
        return jnp.stack([q.transform.to_search(x) for q, x in zip(bound, values, strict=True)]), jnp.stack(values)

    known = [{n: jnp.broadcast_to(x, thetas.shape[1]) for n, x in q.known.items()} for q in bound]
    slopes = jax.vmap(jax.vmap(jax.jacrev(each, argnums=1, has_aux=True)), in_axes=(0, 0, None))
    rows, values = jax.jit(slopes)(thetas, np.zeros_like(thetas), known)
    return np.asarray(values), np.asarray(rows)
