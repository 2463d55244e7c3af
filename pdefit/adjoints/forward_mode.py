"""The gradient by forward runs alone: one tangent for each unknown, or finite differences."""

from collections.abc import Callable
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from pdefit._util.errors import PdefitError
from pdefit.adjoints.base import ROUND_OFF, AbstractForward, Account


class Tangent(AbstractForward):
    """The tangent-linear method: a gradient by one tangent for each of p unknowns.

    For a few unknowns and records of any length. Not for fields, because time grows with their number (`Checkpointed`).

        dJ/dtheta_k = J'(theta) e_k

    Tangents are stepped together with the trajectory. There is no reverse pass, and no state is stored. The gradient
    equals the discrete adjoint's to round-off, and costs about p forward runs.

    **Arguments:**

    - `at_once`: the number of tangents that run together; default all. Each group runs the trajectory again.
    """

    accuracy: ClassVar[float] = ROUND_OFF
    has_tangents: ClassVar[bool] = True

    at_once: int | None = None

    def __check_init__(self):
        if self.at_once is not None and self.at_once < 1:
            raise PdefitError(f"Tangent expects at_once of 1 or more, but got {self.at_once}")

    def gradient(self, function, theta, probes, size):
        def push(v: jax.Array) -> tuple[jax.Array, jax.Array]:
            return jax.jvp(lambda x: function(x, None), (theta,), (v,))

        seeds, group = jnp.eye(theta.size, dtype=theta.dtype), self._group(theta.size)
        if group == theta.size:
            value, slopes = jax.vmap(push, out_axes=(None, 0))(seeds)
        else:
            values, slopes = lax.map(push, seeds, batch_size=group)
            value = values[0]
        return value, slopes, jax.tree.map(jnp.zeros_like, probes)

    def account(self, grid, unknowns):
        group = self._group(unknowns)
        passes = float(-(-unknowns // group) + unknowns)
        return Account(f"{unknowns} tangents, {group} at once", 1 + group, grid.intervals * grid.length, passes, 0.0)

    def _group(self, unknowns: int) -> int:
        return min(self.at_once or unknowns, unknowns)


# relative steps that are tried: at the largest every map is curved, below the smallest only round-off is left
STEPS = 10.0 ** -np.arange(1.0, 12.0)


class FiniteDifference(AbstractForward):
    """The gradient by central differences of J along every unknown.

    For a check, and for equations that cannot be differentiated. Not for fields, because each unknown costs two runs,
    or if more than half of the digits are wanted.

        dJ/dtheta_k = (J(theta + h e_k) - J(theta - h e_k)) / 2h + O(h^2) + O(round-off / h)

    No derivative of the equations is needed.

    **Arguments:**

    - `step`: h relative to the size of the unknown's control. By default it is chosen for each unknown among
      10^-1 ... 10^-11, where the quotients change least: there truncation and round-off balance. That takes 22 p
      runs instead of 2 p, for p unknowns.
    """

    accuracy: ClassVar[float] = 1e-6
    has_tangents: ClassVar[bool] = True

    step: float | None = None

    def __check_init__(self):
        if self.step is not None and not 0 < self.step < 1:
            raise PdefitError(f"FiniteDifference expects a relative step between 0 and 1, but got {self.step}")

    def gradient(self, function, theta, probes, size):
        steps = STEPS if self.step is None else np.asarray([self.step])

        def slope(k: Array) -> Array:
            slopes = quotients(lambda x: function(x, None), theta, jnp.zeros_like(theta).at[k].set(size[k]), steps)
            return slopes[bottom(slopes)] / size[k]

        return function(theta, None), lax.map(slope, jnp.arange(theta.size)), jax.tree.map(jnp.zeros_like, probes)

    def account(self, grid, unknowns):
        passes = 1.0 + 2 * unknowns * (STEPS.size if self.step is None else 1)
        return Account("finite differences", 1, grid.intervals * grid.length, passes, 0.0)


def quotients(
    function: Callable[[Array], Array], theta: Float[Array, " p"], v: Float[Array, " p"], steps: Float[np.ndarray, " k"]
) -> Float[Array, " k"]:
    """Difference quotients (f(theta + h v) - f(theta - h v)) / 2h.

    **Arguments:**

    - `function`: f.
    - `theta`: the point, (p,).
    - `v`: the direction, (p,).
    - `steps`: the steps h, (k,).
    """

    def one(h: Array) -> Array:
        return (function(theta + h * v) - function(theta - h * v)) / (2 * h)

    return lax.map(one, jnp.asarray(steps))


def bottom(slopes: Float[Array, " k"]) -> Array:
    """Index of the best of several difference quotients with decreasing steps.

    It is the one that differs least from its neighbours: larger steps have more truncation, smaller ones more round-off.
    """
    if slopes.shape[0] < 3:
        return jnp.zeros((), int)
    change = jnp.abs(jnp.diff(slopes))
    change = jnp.where(jnp.isfinite(change), change, jnp.inf)
    return 1 + jnp.argmin(change[:-1] + change[1:])
