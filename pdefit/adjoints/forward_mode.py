"""The gradient by forward mode: one tangent for each unknown."""

from typing import ClassVar

import jax
import jax.numpy as jnp
from jax import lax

from pdefit._util.errors import PdefitError
from pdefit.adjoints.base import ROUND_OFF, AbstractForward, Account


class Tangent(AbstractForward):
    """The gradient by one tangent for each of p unknowns.

    For a few unknowns and records of any length. Not for fields, because time grows with their number (`Checkpointed`).

        dJ/dtheta_k = J'(theta) e_k

    Tangents are stepped beside the trajectory. There is no reverse pass, and no state is stored. The gradient is as exact
    as that of the discrete adjoint, and takes about p forward runs.

    **Arguments:**

    - `at_once`: how many tangents run together; all by default. Each group runs the trajectory again.
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
        return value, slopes, jnp.zeros(())

    def account(self, grid, unknowns):
        group = self._group(unknowns)
        passes = float(-(-unknowns // group) + unknowns)
        return Account(f"{unknowns} tangents, {group} at once", 1 + group, grid.intervals * grid.length, passes, 0.0)

    def _group(self, unknowns: int) -> int:
        return min(self.at_once or unknowns, unknowns)
