"""Creeping: a fit in small steps whose predicted decrease of J hardly shrinks."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

# the number of evaluations between two checks of whether the fit creeps
_WATCHED = 20
# the linear model cannot follow a bent valley where J falls by this many times the promise, and this part of it is
# promised again
_BLIND, _AGAIN = 5.0, 0.1
# steps gain nothing where J falls by less than this part of it, and the full step promises more than that
_NOTHING = 0.02
# promises below this part of J are those of a fit that is about to converge
_LITTLE = 1e-3


class Creep(NamedTuple):
    """J and the predicted decrease of the full step some evaluations ago, to detect a creeping fit.

    Recordings that share nothing have one entry each, (E,); otherwise (1,). The fit creeps if every recording creeps.

    **Arguments:**

    - `value`, `promise`: J and the predicted decrease at the last check, (E,).
    - `evaluations`: the number of evaluations since then.
    - `found`: whether the fit creeps.
    """

    value: Float[Array, " E"]
    promise: Float[Array, " E"]
    evaluations: Int[Array, ""]
    found: Bool[Array, ""]

    @staticmethod
    def begin(zeros: Float[Array, " E"]) -> "Creep":
        """The record before the first evaluation."""
        return Creep(zeros, zeros, jnp.zeros((), int), jnp.zeros((), bool))

    def after(self, value: Float[Array, " E"], promise: Float[Array, " E"], first: Bool[Array, ""]) -> "Creep":
        """The record after one more evaluation."""
        evaluations = jnp.where(first, 0, self.evaluations + 1)
        due = evaluations == _WATCHED
        fallen = self.value - value
        blind = (fallen > _BLIND * self.promise) & (promise > _AGAIN * self.promise) & (promise > _LITTLE * value)
        futile = (fallen < _NOTHING * self.value) & (promise > _NOTHING * value)
        creeps = jnp.any(blind | futile) & jnp.all(blind | futile | (promise <= _LITTLE * value))
        anew = first | due
        return Creep(
            value=jnp.where(anew, value, self.value),
            promise=jnp.where(anew, promise, self.promise),
            evaluations=jnp.where(due, 0, evaluations),
            found=self.found | (due & creeps),
        )

    def remark(self) -> str | None:
        """Sentence about a creeping fit, with its remedies; None for other fits."""
        if not bool(self.found):
            return None
        return (
            f"Levenberg-Marquardt creeps: after {_WATCHED} evaluations as much is still to be gained as before them; "
            "fit the numbers first, from a held initial state (a stage with held: true), or a part of the record "
            "(until), or start from a better guess"
        )
