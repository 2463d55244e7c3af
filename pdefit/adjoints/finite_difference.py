"""The gradient by finite differences."""

from collections.abc import Callable
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from pdefit._util.errors import PdefitError
from pdefit.adjoints.base import AbstractAdjoint, Account, Checkpointed

# relative steps of a study: from one that bends every map to one below which nothing but round-off is left
STEPS = 10.0 ** -np.arange(1.0, 12.0)


class FiniteDifference(AbstractAdjoint):
    """Central differences of J along every unknown.

        dJ/dtheta_k = (J(theta + h e_k) - J(theta - h e_k)) / 2h + O(h^2) + O(round-off / h)

    The step h is `step` times the size of the unknown's control. By default the step is found for each unknown: of 10^-1 ...
    10^-11 the one between truncation and round-off, where quotients change least (22 p runs in place of 2 p). Needs no
    derivative of the equations: a check, or for equations that cannot be differentiated.
    """

    accuracy: ClassVar[float] = 1e-6
    has_tangents: ClassVar[bool] = True

    step: float | None = None

    def __check_init__(self):
        if self.step is not None and not 0 < self.step < 1:
            raise PdefitError(f"FiniteDifference expects a relative step between 0 and 1, but got {self.step}")

    def run(self, stepper, y0, grid, emit, inputs, probes=None):
        # backward for what else is asked of the loop: products with J_r^T in a certificate
        return Checkpointed().run(stepper, y0, grid, emit, inputs, probes)

    def gradient(self, function, theta, probes, size):
        steps = STEPS if self.step is None else np.asarray([self.step])

        def slope(k: Array) -> Array:
            found = quotients(lambda x: function(x, None), theta, jnp.zeros_like(theta).at[k].set(size[k]), steps)
            return found[bottom(found)] / size[k]

        return function(theta, None), lax.map(slope, jnp.arange(theta.size)), jnp.zeros(())

    def resolve_for(self, starts, grid, solver):
        return self

    def account(self, grid, unknowns):
        passes = 1.0 + 2 * unknowns * (STEPS.size if self.step is None else 1)
        return Account("finite differences", 1, grid.intervals * grid.length, passes, 0.0)


def quotients(
    function: Callable[[Array], Array], theta: Float[Array, " p"], v: Float[Array, " p"], steps: Float[np.ndarray, " k"]
) -> Float[Array, " k"]:
    """(f(theta + h v) - f(theta - h v)) / 2h for every step h."""

    def one(h: Array) -> Array:
        return (function(theta + h * v) - function(theta - h * v)) / (2 * h)

    return lax.map(one, jnp.asarray(steps))


def bottom(found: Float[Array, " k"]) -> Array:
    """Which of several quotients, of steps that shrink, is the best: the one that differs least from its neighbours. Those
    with larger steps show its truncation, those with smaller ones its round-off."""
    if found.shape[0] < 3:
        return jnp.zeros((), int)
    change = jnp.abs(jnp.diff(found))
    change = jnp.where(jnp.isfinite(change), change, jnp.inf)
    return 1 + jnp.argmin(change[:-1] + change[1:])
