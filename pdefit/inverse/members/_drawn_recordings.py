"""Resampled recordings: the refits of a bootstrap whose units are whole recordings."""

from collections.abc import Callable

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, Int

from pdefit._util.errors import PdefitError
from pdefit.inverse.fit.compiled_loop import first_carry
from pdefit.inverse.fit.traced import Traced
from pdefit.inverse.objective.recordings import Recordings
from pdefit.inverse.optimizers.base import AbstractOptimizer


def refits(
    functional: Recordings,
    theta: Float[Array, " p"],
    draws: Int[np.ndarray, "n E"],
    optimizer: AbstractOptimizer,
    most: int,
    callback: Callable[[int, int], None],
) -> tuple[Float[np.ndarray, "n p"], Float[np.ndarray, " n"], np.ndarray]:
    """Estimates from resampled recordings, all fitted from one point; J of each, and whether it is a minimum.

    **Arguments:**

    - `functional`, `theta`: the fit and its estimate, (p,).
    - `draws`: the number of times that each recording is drawn in each repetition, (n, E).
    - `optimizer`, `most`: the method, and the largest number of evaluations of a repetition.
    - `callback`: called with the number of finished repetitions and of all evaluations so far.
    """
    _check(functional)
    # all begin with one state of the optimizer, and take the programs of the fit
    begun, driver, ends, evaluations = first_carry(functional, optimizer, theta), Traced(), [], 0
    for k, times in enumerate(draws):
        taken, carry, _ = driver.advance(drawn(functional, times), optimizer, begun, most)
        ends.append((np.asarray(carry.best_theta), float(carry.best_value), bool(optimizer.converged(carry.state))))
        evaluations += taken
        callback(k + 1, evaluations)
    points, losses, converged = zip(*ends, strict=True)
    return np.stack(points), np.array(losses), np.array(converged)


def drawn(functional: Recordings, times: Int[np.ndarray, " E"]) -> Recordings:
    """The objective with every recording weighted, through its standard deviations, by its number of draws.

    Only arrays differ, so that all draws share one program. The own unknowns of a recording that was not drawn are kept
    in theta.

    **Arguments:** `times`: the number of draws of each recording, (E,).
    """

    def each(factors: np.ndarray, x: Array) -> np.ndarray:
        return factors.reshape(-1, *[1] * (x.ndim - 1))

    data = functional.observations
    mask = {n: x & each(times > 0, x) for n, x in data.mask.items()}
    sigma = {n: x / each(np.sqrt(np.maximum(times, 1.0)), x) for n, x in data.sigma.items()}
    return eqx.tree_at(lambda r: (r.observations.mask, r.observations.sigma), functional, (mask, sigma))


def _check(functional: Recordings) -> None:
    """Refuse recordings that cannot be weighted through their data alone."""
    if all(c.own for c in functional.controls.items):
        raise PdefitError("A bootstrap of recordings expects controls that all share, but each has only its own")
    own = [c.name for c in functional.controls.items if c.own and c.prior is not None]
    own += [r.control for r in functional.stack.common.regularizers]
    if own:
        raise PdefitError(
            f"A bootstrap of recordings expects own controls without prior and regularizer, but {own[0]} has one; "
            "give it bounds instead, or leave uncertainty out"
        )
