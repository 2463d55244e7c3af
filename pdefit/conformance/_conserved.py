"""Checks of what the exact solution conserves: invariants and linear constraints."""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from pdefit.conformance._subject import ROUND_OFF, Subject, rates, relative
from pdefit.conformance.report import Finding, at_least, at_most, not_applicable
from pdefit.systems.capabilities import AbstractConservative, AbstractConstrained


def invariants(subject: Subject) -> Iterator[Finding]:
    """Drift of each invariant of an AbstractConservative system: the error of the solver, or round-off."""
    system = subject.system
    if not isinstance(system, AbstractConservative):
        yield not_applicable("drift of invariants", "the system is not AbstractConservative")
        return
    scales = {name: _scale(system, name, subject.y0) for name in system.invariants(subject.y0)}
    drifts = [_drifts(system, subject.film(k)) for k in range(3)]
    remedy = "the drift must fall with the step: the invariant, or the vector field, is wrong"
    for name, scale in scales.items():
        fall = [drift[name] / scale for drift in drifts]
        pairs = [(a, b) for a, b in zip(fall[:-1], fall[1:], strict=True) if not b <= ROUND_OFF]
        if pairs:
            rate = min(float(np.log2(a / b)) for a, b in pairs)
            yield at_least(f"fall of the drift of {name}, order", rate, subject.example.time_order - 0.3, remedy)
        else:
            yield at_most(f"drift of {name}, relative", fall[-1], ROUND_OFF, remedy)


def _drifts(system: Any, film: PyTree) -> dict[str, float]:
    """The largest change of each invariant since the first state."""
    values = jax.jit(jax.vmap(system.invariants))(film)
    return {name: float(jnp.max(jnp.abs(v - v[:1]))) for name, v in values.items()}


def _scale(system: Any, name: str, y: PyTree) -> float:
    """Scale of an invariant: sum |dI/dy_k y_k|, its size if no terms cancelled.

    Its own value will not do: an angular momentum, say, may be zero.
    """

    def invariant(y: PyTree) -> Array:
        return system.invariants(y)[name]

    slopes = jax.tree.leaves(jax.jit(jax.jacrev(invariant))(y))
    total = np.abs(np.asarray(invariant(y)))
    for slope, x in zip(slopes, jax.tree.leaves(y), strict=True):
        parts = np.abs(np.asarray(slope) * np.asarray(x))
        total = total + parts.reshape(*total.shape, -1).sum(axis=-1)
    return float(np.max(total)) or 1.0


def projection(subject: Subject) -> Iterator[Finding]:
    """Projection of an AbstractConstrained system: it is idempotent, and rates obey the constraint."""
    system, y = subject.system, subject.y1
    if not isinstance(system, AbstractConstrained):
        yield not_applicable("projection", "the system is not AbstractConstrained")
        return
    # a state that violates the constraint, so that the projection changes it
    rough = jax.tree.map(lambda x: x + jax.random.normal(jax.random.key(0), x.shape, x.dtype), y)
    once: Any = system.project(rough)
    remedy = "project must return the nearest state that obeys the constraint"
    yield at_most("projected twice against once", relative(system.project(once), once), 1e-10, remedy)
    rate = rates(system, jnp.asarray(float(subject.example.ts[0])), once)
    remedy = "project the rates inside vector_field"
    yield at_most("rates that leave the constraint", relative(system.project(rate), rate), 1e-10, remedy)
