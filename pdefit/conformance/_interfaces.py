"""Checks of the optional interfaces against the vector field, and of the invariants of the exact solution."""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from pdefit.conformance._subject import ROUND_OFF, Subject, gap, rates, relative
from pdefit.conformance.report import Finding, at_least, at_most, not_applicable
from pdefit.systems.capabilities import AbstractConservative, AbstractConstrained, AbstractMechanical, AbstractSwitched
from pdefit.systems.linear_operators import AbstractDiagonal, AbstractSplit

_SAME = 1e-9


def mechanics(subject: Subject) -> Iterator[Finding]:
    """Mechanical interface: positions and velocities make up the state; rates are velocities and accelerations."""
    system, y = subject.system, subject.y1
    if not isinstance(system, AbstractMechanical):
        yield not_applicable("mechanics", "the system is not AbstractMechanical")
        return
    t = jnp.asarray(float(subject.example.ts[-1]))
    x, v, slope = system.positions(y), system.velocities(y), rates(system, t, y)
    remedy = "assemble must undo positions and velocities"
    yield at_most("assembled state against the state", gap(system.assemble(x, v), y), 0, remedy)
    remedy = "the rate of the positions must be the velocities"
    yield at_most("rate of positions against velocities", relative(system.positions(slope), v), _SAME, remedy)
    force = system.acceleration(t, x, None)
    remedy = "acceleration must be the rate of the velocities in vector_field; symplectic solvers use it alone"
    yield at_most("acceleration against rate of velocities", relative(force, system.velocities(slope)), _SAME, remedy)


def split(subject: Subject) -> Iterator[Finding]:
    """Split into two parts: they add up to the vector field, one is linear, and its solve is the exact inverse."""
    system, y, z = subject.system, subject.y1, subject.y0
    if not isinstance(system, AbstractSplit):
        yield not_applicable("split", "the system is not AbstractSplit")
        return
    t = jnp.asarray(float(subject.example.ts[-1]))
    linear = system.linear(y)
    whole = jax.tree.map(jnp.add, system.explicit(t, y, None), linear)
    remedy = "vector_field must be the sum of explicit and linear"
    yield at_most("explicit and linear against the vector field", relative(whole, rates(system, t, y)), _SAME, remedy)
    both = system.linear(jax.tree.map(lambda a, b: 2 * a - b, y, z))
    apart = jax.tree.map(lambda a, b: 2 * a - b, linear, system.linear(z))
    remedy = "linear must be linear: what a boundary adds belongs to explicit"
    yield at_most("linear part of a sum against the sum", relative(both, apart), _SAME, remedy)
    h = jnp.asarray(10 * subject.example.dt)
    solved = system.linear_solve(y, h)
    back = jax.tree.map(lambda a, b: a - h * b, solved, system.linear(solved))
    remedy = "linear_solve(y, h) must be (1 - h L)^-1 y with the discrete L; pdefit.diffusion_solve is for diffusion"
    yield at_most("(1 - h L) of linear_solve against the state", relative(back, y), _SAME, remedy)
    if not isinstance(system, AbstractDiagonal):
        return
    modes, explicit = system.to_modes(y), system.explicit(t, y, None)
    remedy = "from_modes must be the inverse of to_modes"
    yield at_most("from_modes of to_modes against the state", relative(system.from_modes(modes), y), _SAME, remedy)
    inside = system.from_modes(system.explicit_modes(t, y, None))
    remedy = "explicit_modes must be to_modes of explicit"
    yield at_most("explicit_modes against explicit", relative(inside, explicit), _SAME, remedy)
    product = system.from_modes(jax.tree.map(jnp.multiply, modes, system.eigenvalues()))
    remedy = "eigenvalues must be those of linear, in the order of the modes"
    yield at_most("eigenvalues against the linear part", relative(product, linear), _SAME, remedy)


def switches(subject: Subject) -> Iterator[Finding]:
    """Smoothed switches: `smoothed` returns a system that is declared smooth.

    The checks of the gradient test whether it is smooth.
    """
    system = subject.system
    if not isinstance(system, AbstractSwitched):
        yield not_applicable("switches", "the system is not AbstractSwitched")
        return
    remedy = "smoothed() must return a system with is_smooth"
    yield at_most("smoothed() that is not smooth", float(not system.is_smooth), 0, remedy)


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
    """Largest change of each invariant since the first state."""
    values = jax.jit(jax.vmap(system.invariants))(film)
    return {name: float(jnp.max(jnp.abs(v - v[:1]))) for name, v in values.items()}


def _scale(system: Any, name: str, y: PyTree) -> float:
    """Scale of an invariant: sum |dI/dy_k y_k|, its size without cancellation.

    Its own value is unsuitable, since an angular momentum, say, may be zero.
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
