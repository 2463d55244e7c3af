"""Choice of the solver for a system, if none is named."""

import dataclasses
from collections.abc import Callable

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from pdefit.integrate.adaptive.tolerance import Adaptive
from pdefit.integrate.loop.eigenvalues import fastest_change, jacobian_of
from pdefit.integrate.solvers.etdrk4 import ETDRK4
from pdefit.integrate.solvers.rk4 import RK4
from pdefit.integrate.solvers.rkc import RKC
from pdefit.systems.fourier_grid import SpectralSystem
from pdefit.systems.system import AbstractSystem

# tolerances of adaptive steps, the absolute one for states of one or larger
_RTOL, _ATOL = 1e-5, 1e-8
# of systems with so few values all eigenvalues are computed
_SMALL = 200
# explicit steps for a record beyond which an implicit method pays, and what RK4 is stable up to
_MANY_STEPS, _REACH = 20_000, 2.785
# exponential steps pay where the linear part is so many times faster than the rest
_LONGER = 5.0
# stabilised steps (RKC) pay where diffusion is so many times faster than the state changes, and RK4 would take so many
# steps
_STIFF, _MORE_STEPS = 50.0, 500


@dataclasses.dataclass(frozen=True)
class SolverChoice:
    """The solver chosen for a system.

    **Arguments:**

    - `solver`: the time stepping method.
    - `steps`: the tolerance of adaptive steps if it needs them, else None.
    - `reason`: the reason in words.
    """

    solver: diffrax.AbstractSolver
    steps: Adaptive | None
    reason: str


def choose_solver(
    system: AbstractSystem, y0: PyTree, span: float, adaptive: bool = True, args: PyTree = None
) -> SolverChoice:
    """Choice of the solver for a system, with the reason.

    Equations are stiff if some direction decays so fast that the record would need many explicit steps. They are
    dominated by diffusion if the fastest direction decays far faster than the state changes.

    **Arguments:**

    - `system`: the equations with their parameters.
    - `y0`: the initial state, at which rates are estimated.
    - `span`: the length of the record, in the system's time unit.
    - `adaptive`: whether steps may be adaptive (the default); False if a step was given.
    - `args`: exogenous inputs of the system.
    """
    if isinstance(system, SpectralSystem):
        rates = jax.tree.map(lambda e: float(jnp.max(jnp.abs(e))), system.eigenvalues())
        linear = max(jax.tree.leaves(rates))
        rest, count = fastest_change(system.explicit, y0, args), linear * span / _REACH
        if count > _MORE_STEPS and linear > _LONGER * rest:
            return SolverChoice(
                ETDRK4(), None, f"explicit steps would be {count:.1e}, and the stiff part is diagonal in Fourier space"
            )
    flat, back = ravel_pytree(y0)

    def rate(x: Array) -> Array:
        return ravel_pytree(system.vector_field(jnp.zeros((), x.dtype), back(x), args))[0]

    # concentrations in mol/l may all be far below one
    largest = float(np.max(np.abs(flat), initial=0.0)) or 1.0
    steps = Adaptive(rtol=_RTOL, atol=_ATOL * min(1.0, largest)) if adaptive else None
    if flat.size <= _SMALL:
        matrix = jacobian_of(system.vector_field, y0, args)
        fastest = float(-np.min(np.linalg.eigvals(matrix).real, initial=0.0))
        count = fastest * span / _REACH
        if count > _MANY_STEPS:
            reason = f"stiff: explicit steps would be {count:.1e}, since some direction decays at {fastest:.2g}"
            per = "" if system.time_unit == "1" else f" / {system.time_unit}"
            return SolverChoice(diffrax.Kvaerno5(), steps, f"{reason}{per}")
        return SolverChoice(RK4(), None, "the equations are not stiff")
    decay, size, relative = map(float, jax.jit(lambda y: _rates(rate, y))(flat))
    # a state at rest is taken to change within the record all the same
    change = max(relative, 1 / span)
    if decay > 0.9 * size and decay > _STIFF * change and decay * span / _REACH > _MORE_STEPS:
        # stable for a tenth of the time in which the state changes
        stages = int(np.clip(np.sqrt(1 + 0.1 * decay / change / 0.653), 4, 60))
        reason = f"diffusion-dominated: fine structure decays {decay / change:.0f} times faster than the state changes"
        return SolverChoice(RKC(stages if adaptive else None), steps, reason)
    return SolverChoice(RK4(), None, "the equations are not stiff")


def _rates(rate: Callable[[Array], Array], y: Float[Array, " n"]) -> tuple[Array, Array, Array]:
    """Rates of decay and of change of the fastest direction, by the power method, and y'' / y', which a step must resolve."""

    def turn(_: Array, v: Array) -> Array:
        w = jax.jvp(rate, (y,), (v,))[1]
        return w / jnp.maximum(jnp.linalg.norm(w), 1e-300)

    # white noise, which contains every scale
    v = jax.random.normal(jax.random.key(0), y.shape, y.dtype)
    v = jax.lax.fori_loop(0, 40, turn, v / jnp.linalg.norm(v))
    w = jax.jvp(rate, (y,), (v,))[1]
    slope, bend = jax.jvp(rate, (y,), (rate(y),))
    relative = jnp.linalg.norm(bend) / jnp.maximum(jnp.linalg.norm(slope), 1e-300)
    return -jnp.vdot(v, w), jnp.linalg.norm(w), relative
