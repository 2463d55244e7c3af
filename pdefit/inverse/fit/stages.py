"""Stages of a fit: an optimizer, its windows, and errors estimated from what the stage leaves over."""

import dataclasses

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pdefit.inverse.objective.abstract import AbstractObjective, Objective
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.optimizers.base import AbstractOptimizer
from pdefit.inverse.shooting.formulation import AbstractFormulation


class Reweight(eqx.Module):
    """Iteratively reweighted least squares: sigma is the root mean square residual of a group, at least the measured one.

    A model that leaves something out misfits some observations by more than their noise; this keeps them from dominating.
    Residuals contain the noise, so the two are not added. Jumps between segments keep their deviation.

    **Arguments:**

    - `axes`: axes of a variable, after time, whose entries have a residual level of their own (e.g. the bodies). One
      level is shared along all others.
    - `rounds`: how often at most.
    - `tolerance`: ends the rounds when no sigma changes by more than this part.
    """

    axes: tuple[int, ...] = eqx.field(converter=tuple, default=())
    rounds: int = 10
    tolerance: float = 0.02

    def apply(self, functional: Objective, theta: Array) -> tuple[Objective, float]:
        """The objective with new sigma, of each recording by itself, and the largest relative change."""
        changes = []

        def one(part: Functional, own: Array) -> tuple[Functional, Array]:
            new, change = self._one(part, own)
            changes.append(change)
            return new, own

        return functional.each(one, theta)[0], max(changes)

    def _one(self, functional: Functional, theta: Array) -> tuple[Functional, float]:
        data = functional.observations
        unit = functional.reweighted({n: np.ones(()) for n in data.sigma})
        sums = eqx.filter_jit(Functional.squared_residuals)(unit, theta)
        new, change = {}, 0.0
        for name, squares in sums.items():
            seen = np.asarray(functional.fitted(name))
            pooled = tuple(a for a in range(squares.ndim) if a < 2 or a - 2 not in self.axes)
            level = np.asarray(squares).sum(axis=pooled, keepdims=True) / np.maximum(
                seen.sum(axis=pooled, keepdims=True), 1
            )
            level = level.reshape(level.shape[1:])
            old = np.asarray(data.sigma[name])
            measured = np.asarray(functional.measured_sigma[name])
            sigma = np.sqrt(np.maximum(measured**2, level))
            change = max(change, float(np.max(np.abs(sigma / old - 1))))
            new[name] = sigma
        return functional.reweighted(new), change


@dataclasses.dataclass(frozen=True)
class Stage:
    """One optimizer at work.

    **Arguments:**

    - `optimizer`: the method.
    - `max_iterations`: bound on its evaluations.
    - `formulation`: cuts the record in another way than the fit's own, as windows that grow stage by stage.
    - `reweight`: repeats the stage with the errors that its residuals suggest.
    """

    optimizer: AbstractOptimizer
    max_iterations: int = 100
    formulation: AbstractFormulation | None = None
    reweight: Reweight | None = None


def prepares(own: AbstractObjective, formulation: AbstractFormulation | None) -> bool:
    """Whether a stage with this formulation leaves the windows of the fit's own functional.

    Where states are controls such a stage is an initialiser. Windows that start from the data move only the other controls,
    and the states come back at their guesses; a free initial state moves along where fewer frames of one trajectory are
    fitted.
    """
    return formulation is not None and not (own.controls.states.items and formulation == own.formulation)


def keeps(own: AbstractObjective, before: AbstractFormulation | None) -> bool:
    """Whether a stage without a formulation goes on with that of the stage before: not where states come back, nor where a
    part of the record was left out."""
    return not own.controls.states.items and not (before is not None and before.partial)


def with_windows(own: Objective, formulation: AbstractFormulation | None) -> Objective:
    """The fit's functional with other windows, or itself."""
    if formulation is None or not prepares(own, formulation):
        return own
    return own.reformulated(formulation, own.theta0)


def resized(own: AbstractObjective, functional: AbstractObjective, theta: Float[Array, " p"]) -> Float[Array, " q"]:
    """theta of the stage before as a point of this stage's functional: states, which come last, are dropped, or come
    back at their guesses."""
    size = functional.controls.size
    return jnp.concatenate([theta[:size], own.theta0[theta.size : size]])
