"""Checks of steps: orders of convergence in time and space, the largest stable step, and degenerate states.

Every rate between two successive refinements counts. One slope through all errors would hide a refinement that fails.
"""

from collections.abc import Iterator
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from pdefit.conformance._subject import HALVINGS, RESOLUTION, ROUND_OFF, Subject, finite, gap, size, smooth, trajectory
from pdefit.conformance.report import Finding, at_most, not_applicable, rates_near
from pdefit.integrate.forward_runs import Numerics, states
from pdefit.integrate.loop.eigenvalues import eigenvalues
from pdefit.systems.capabilities import AbstractExact, AbstractMechanical, AbstractStable

_TIME, _SPACE = 0.2, 0.1


def _successive(errors: list[float], floor: float) -> list[float]:
    """Orders between successive errors, without errors at the level of round-off."""
    pairs = zip(errors[:-1], errors[1:], strict=True)
    return [float(np.log2(a / b)) if np.isfinite(a + b) else float("nan") for a, b in pairs if not b <= floor]


def time_order(subject: Subject) -> Iterator[Finding]:
    """Order in time by self-convergence: differences between solutions with a step and with half of it."""
    films = [subject.film(k) for k in range(HALVINGS + 1)]
    errors = [gap(a, b) for a, b in zip(films[:-1], films[1:], strict=True)]
    floor = ROUND_OFF * size(films[-1])
    rates, order, name = _successive(errors, floor), subject.example.time_order, "order in time"
    remedy = "something in the vector field is not smooth in time or state, or the example's dt is too coarse"
    if rates:
        yield rates_near(name, rates, order, _TIME, remedy)
    else:
        yield at_most(f"{name}: differences are round-off", errors[-1], floor, remedy)


def space_order(subject: Subject) -> Iterator[Finding]:
    """Order in space: errors against the exact solution at the end of the example, on grids of doubled resolution.

    Systems without a grid are compared with halved steps instead of finer grids.
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
    rates = _successive(errors, floor)
    remedy = "a stencil or the exact solution is wrong, the grid too coarse, or the time step too long for it"
    if not rates:
        yield at_most(f"{name}: errors are round-off", errors[-1], floor, remedy)
    elif order is None:
        yield rates_near(name, rates, subject.example.time_order, _TIME, remedy)
    else:
        yield rates_near(name, rates, order, _SPACE, remedy)


# an error that grows by a factor 1.1 in each step has then grown by 1e8
_STEPS = 200
# the relative imaginary part up to which the fastest eigenvalue counts as real
_SIMPLE = 0.1
# relative size of white noise, which excites every wave length of the grid
_NOISE = 1e-3


def stability(subject: Subject) -> Iterator[Finding]:
    """Stable step of an AbstractStable system: explicit Euler stays bounded at 0.95 of it, from a noisy state.

    The step must also not exceed 2 / (fastest decay rate) at the first state.
    """
    system, name = subject.system, "growth at the stated Euler limit"
    if not isinstance(system, AbstractStable):
        yield not_applicable(name, "the system is not AbstractStable, so a run must be given its dt")
        return
    dt = 0.95 * float(system.stable_step(subject.y0))
    scale, t0 = size(subject.film(0)), float(subject.example.ts[0])
    # noise as a factor and not as a summand, so that a density cannot become negative
    rough = jax.tree.map(
        lambda x: x * (1 + _NOISE * jax.random.normal(jax.random.key(0), x.shape, x.dtype)), subject.y0
    )
    ts = np.asarray([t0 + _STEPS * dt])
    end = states(subject.example.system, rough, ts, Numerics(diffrax.Euler(), dt), t0=t0)
    remedy = "stable_step states a step that is too long for explicit Euler"
    yield at_most(name, size(end) / max(scale, 1e-300), 1e2, remedy)
    # a nonlinearity may keep an unstable mode bounded; the limit is that of the equations linearised at the state
    field = subject.system.vector_field
    values = eigenvalues(lambda _, y, args: field(jnp.asarray(t0), y, args), subject.y0)
    fastest = values[np.argmax(np.abs(values))] if values.size else 0.0
    name = "stated Euler limit over 2 / (fastest decay rate)"
    if fastest.real < 0 and abs(fastest.imag) < _SIMPLE * abs(fastest):
        yield at_most(name, -float(fastest.real) * dt / 0.95 / 2, 1.02, remedy)
    else:
        yield not_applicable(name, "the fastest mode at the first state is not one decaying eigenvalue")


@eqx.filter_jit
def _gradient(system_and_state: PyTree, t: Array) -> tuple[Array, PyTree]:
    def total(x: PyTree) -> Array:
        system, y = x
        return sum((jnp.sum(k) for k in jax.tree.leaves(system.vector_field(t, y, None))), start=jnp.zeros(()))

    return eqx.filter_value_and_grad(total)(system_and_state)


def degenerate_states(subject: Subject) -> Iterator[Finding]:
    """Finite values and gradients, in state and parameters, at zeros of roots, norms and denominators."""
    system: Any = subject.system
    t = jnp.asarray(float(subject.example.ts[0]))
    states = {
        "zero state": jax.tree.map(jnp.zeros_like, subject.y0),
        "constant fields": jax.tree.map(lambda x: jnp.full_like(x, jnp.mean(x)), subject.y1),
    }
    if isinstance(system, AbstractMechanical):
        together = jax.tree.map(jnp.zeros_like, system.positions(subject.y1))
        states["coincident positions"] = system.assemble(together, system.velocities(subject.y1))
    remedy = "guard the inputs of sqrt, division and powers with pdefit.safe_sqrt, safe_norm, safe_div"
    for name, y in states.items():
        value, slopes = _gradient((system, y), t)
        slopes = [x for x in jax.tree.leaves(slopes) if eqx.is_inexact_array(x)]
        wrong = float(not finite((value, slopes)))
        yield at_most(f"{name}: value or gradient not finite", wrong, 0, remedy)
