"""Checks of orders of convergence in time and space.

Every rate between two successive refinements counts. One slope fitted to all errors would hide a refinement that fails.
"""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from pdefit.conformance._subject import HALVINGS, RESOLUTION, ROUND_OFF, Subject, gap, size, smooth, trajectory
from pdefit.conformance.report import Finding, at_most, not_applicable, rates_near
from pdefit.systems.capabilities import AbstractExact

_TIME, _SPACE = 0.2, 0.1


def _successive(errors: list[float], floor: float) -> list[float]:
    """Orders between successive errors; those of errors that are round-off are left out."""
    pairs = zip(errors[:-1], errors[1:], strict=True)
    return [float(np.log2(a / b)) if np.isfinite(a + b) else float("nan") for a, b in pairs if not b <= floor]


def time_order(subject: Subject) -> Iterator[Finding]:
    """Order in time by self-convergence: differences between solutions with a step and with half of it."""
    films = [subject.film(k) for k in range(HALVINGS + 1)]
    errors = [gap(a, b) for a, b in zip(films[:-1], films[1:], strict=True)]
    floor = ROUND_OFF * size(films[-1])
    found, order, name = _successive(errors, floor), subject.example.time_order, "order in time"
    remedy = "something in the vector field is not smooth in time or state, or the example's dt is too coarse"
    if found:
        yield rates_near(name, found, order, _TIME, remedy)
    else:
        yield at_most(f"{name}: differences are round-off", errors[-1], floor, remedy)


def space_order(subject: Subject) -> Iterator[Finding]:
    """Order in space: errors against the exact solution at the end of the example, on grids of doubled resolution.

    Systems without a grid are compared with halved steps in place of finer grids.
    """
    name, order = "order against the exact solution", subject.example.space_order
    if not isinstance(subject.system, AbstractExact):
        yield not_applicable(name, "the system is not AbstractExact, so only its self-convergence in time is known")
        return
    films: list[tuple[Any, PyTree]]
    if order is None:
        films = [(subject.system, subject.film(k)) for k in range(HALVINGS + 1)]
    else:
        examples = [smooth(subject.system_class.example(RESOLUTION * 2**k)) for k in range(1, 3)]
        films = [(subject.system, subject.film(0))]
        films += [(e.system, trajectory(e)) for e in examples]
    t = jnp.asarray(float(subject.example.ts[-1]))
    errors = [gap(jax.tree.map(lambda x: x[-1], film), system.exact(t)) for system, film in films]
    floor = ROUND_OFF * size(subject.film(0))
    found = _successive(errors, floor)
    remedy = "a stencil or the exact solution is wrong, the grid too coarse, or the time step too long for it"
    if not found:
        yield at_most(f"{name}: errors are round-off", errors[-1], floor, remedy)
    elif order is None:
        yield rates_near(name, found, subject.example.time_order, _TIME, remedy)
    else:
        yield rates_near(name, found, order, _SPACE, remedy)
