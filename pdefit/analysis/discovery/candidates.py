"""Learned terms of a fit with candidate formulas added to them."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pdefit._util.trees import named_fields, with_parts
from pdefit.analysis.discovery.library import CONSTANT
from pdefit.integrate.forward_runs import frames
from pdefit.inverse.controls.bind import bind
from pdefit.inverse.controls.declare import Control
from pdefit.inverse.controls.theta import in_order
from pdefit.inverse.controls.transforms import Log
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.objective.variants import with_tangents
from pdefit.inverse.problem.problem import Problem
from pdefit.systems.terms.combination import Combination
from pdefit.systems.terms.expression import Expression
from pdefit.systems.terms.unknown import unknown_terms, with_terms

# where constants begin
_PARTS = 0.1, 0.4, 1.6


def combinations(functional: Functional) -> dict[str, Combination]:
    """Learned terms of a functional with the candidates added to them, by name.

    **Arguments:** `functional`: a functional made by `with_candidates`.
    """
    return {n: t for n, t in unknown_terms(functional.problem.system).items() if isinstance(t, Combination)}


def with_candidates(
    functional: Functional, theta: Float[Array, " p"], candidates: Mapping[str, tuple[Expression, ...]]
) -> tuple[Functional, Float[np.ndarray, " q"]]:
    """The functional with its learned terms held fixed and candidates added to them, and its theta.

    A candidate with a constant is added several times: its constants are fractions of the size of the candidate's first
    input. A candidate whose value or slope is not finite along the learned trajectory is left out.

    **Arguments:**

    - `functional`, `theta`: the fit, and its estimate, (p,).
    - `candidates`: the formulas of every learned term, by its name.
    """
    functional = with_tangents(functional)
    problem = functional.at(theta)
    learned = unknown_terms(problem.system)
    visited = _visited(functional, problem)
    combined: dict[str, Combination] = {}
    for name, known in candidates.items():
        base = learned[name]
        # inputs that are no fields, such as gradients, have the size 1
        inputs = {x: visited.get(x, jnp.ones(())) for x in base.inputs}
        kept = []
        for e, part in [(f, part) for f in known for part in (_PARTS if CONSTANT in f.names else (None,))]:
            first = next(inputs[n] for n in (*e.names, *inputs) if n in inputs)
            at = inputs if part is None else inputs | {CONSTANT: jnp.asarray(part * _size(first))}
            value, slope = jax.jvp(e, (at,), (jax.tree.map(jnp.ones_like, at),))
            if np.all(np.isfinite(value)) and np.all(np.isfinite(slope)):
                kept.append((e, at.get(CONSTANT), _size(value)))
        expressions, constants, sizes = zip(*kept, strict=True)
        combined[name] = Combination(
            base.inputs,
            base,
            jnp.asarray(1.0),
            jnp.zeros(len(kept)),
            jnp.asarray([c for c in constants if c is not None], float),
            jnp.asarray(sizes, float),
            expressions,
            CONSTANT,
        )
    problem = dataclasses.replace(problem, system=with_terms(problem.system, combined))
    declared: dict[str, Any] = {
        n: {"weight": Control(), "coefficients": Control()}
        | ({"constants": Control(Log())} if t.constants.size else {})
        for n, t in combined.items()
    }
    more, problem = bind(problem, declared, jax.random.key(0), functional.observations)
    gone = tuple(f"{name}." for name in candidates)
    others = [c for c in functional.controls.items if not c.path.startswith(gone)]
    controls = in_order([*others, *more.items])
    kept = tuple(r for r in functional.regularizers if not r.control.startswith(gone))
    made = with_parts(functional, lambda f: (f.problem, f.controls, f.regularizers), (problem, controls, kept))
    return made, np.asarray(made.controls.theta(problem))


def _visited(functional: Functional, problem: Problem) -> dict[str, Array]:
    """The states at all observation times, by field, and the times."""
    ts, numerics = functional.observations.ts, functional.numerics(problem)
    states = [named_fields(y) for y in frames(problem.system, problem.y0, ts, numerics, t0=float(ts[0]))]
    found = {n: jnp.stack([jnp.asarray(y[n]) for y in states]) for n in states[0]}
    shape = max((x.shape for x in found.values()), key=len)
    return found | {"t": jnp.broadcast_to(jnp.asarray(ts).reshape(-1, *[1] * (len(shape) - 1)), shape)}


def _size(x: Array) -> float:
    """Root mean square of an array; 1 if that is zero."""
    return float(np.sqrt(np.mean(np.square(np.asarray(x))))) or 1.0
