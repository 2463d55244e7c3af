"""Stages of a fit: an optimizer, its windows, and standard deviations estimated from residuals."""

import dataclasses
from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pdefit.inverse.fit.smoothness import choose_smoothness
from pdefit.inverse.fit.stop import AbstractStop, Stopping
from pdefit.inverse.objective.abstract import AbstractObjective, Objective
from pdefit.inverse.objective.compiled import weighted
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.optimizers.base import AbstractOptimizer
from pdefit.inverse.shooting.formulation import AbstractFormulation


class Reweight(eqx.Module):
    """Iteratively reweighted least squares: sigma is the root mean square residual, at least the measured one.

    A model that leaves something out misfits some observations by more than their noise. This keeps them from
    dominating. Residuals contain the noise, so the two are not added. Gaps between segments keep their standard
    deviation.

    **Arguments:**

    - `axes`: the axes of a variable, after time, whose entries have a residual level of their own (such as the bodies).
      One level is shared along all others. By default there are none.
    - `rounds`: the most rounds; default 10.
    - `tolerance`: ends the rounds when no sigma changes by more than this part; default 0.02.
    """

    axes: tuple[int, ...] = eqx.field(converter=tuple, default=())
    rounds: int = 10
    tolerance: float = 0.02

    def apply(self, functional: Objective, theta: Array) -> tuple[Objective, float]:
        """The objective with new sigma, of each recording by itself, and the largest relative change.

        **Arguments:**

        - `functional`: the objective.
        - `theta`: the point at which residuals are taken, (p,).
        """
        changes = []

        def one(part: Functional, own: Array) -> tuple[Functional, Array]:
            new, change = self._one(part, own)
            changes.append(change)
            return new, own

        return functional.each(one, theta)[0], max(changes)

    def _one(self, functional: Functional, theta: Array) -> tuple[Functional, float]:
        data = functional.observations
        unit = functional.reweighted({n: np.ones(()) for n in data.sigma})
        new, change = {}, 0.0
        for name, residuals in weighted(unit, theta).items():
            squares = np.square(residuals)
            mask = np.asarray(functional.fitted(name))
            pooled = tuple(a for a in range(squares.ndim) if a < 2 or a - 2 not in self.axes)
            level = squares.sum(axis=pooled, keepdims=True) / np.maximum(mask.sum(axis=pooled, keepdims=True), 1)
            level = level.reshape(level.shape[1:])
            old = np.asarray(data.sigma[name])
            measured = np.asarray(functional.measured_sigma[name])
            sigma = np.sqrt(np.maximum(measured**2, level))
            change = max(change, float(np.max(np.abs(sigma / old - 1))))
            new[name] = sigma
        return functional.reweighted(new), change


@dataclasses.dataclass(frozen=True)
class Stage:
    """One stage of a fit: an optimizer with its bound, windows and weights.

    **Arguments:**

    - `optimizer`: the method.
    - `max_iterations`: a bound on its evaluations; default 100.
    - `formulation`: cuts the record in another way than the fit's own, such as windows that grow stage by stage. By
      default the stage before decides.
    - `reweight`: repeats the stage with the standard deviations that its residuals suggest; by default it is not
      repeated.
    - `stop`: a rule that may end the stage before the optimizer converges; by default there is none.
    """

    optimizer: AbstractOptimizer
    max_iterations: int = 100
    formulation: AbstractFormulation | None = None
    reweight: Reweight | None = None
    stop: AbstractStop | None = None

    def optimizer_for(self, objective: AbstractObjective) -> AbstractOptimizer:
        """The optimizer on its objective, which the stopping rule may end."""
        optimizer = self.optimizer.on(objective)
        return optimizer if self.stop is None else Stopping(optimizer, self.stop, objective)


def new_weights(
    functional: Objective, theta: Array, reweight: Reweight | None, normal_equations: Callable
) -> tuple[Objective, bool, list[str]]:
    """The objective with the smoothness of fields and the sigma that the data suggest at a point.

    **Arguments:**

    - `functional`: the objective.
    - `theta`: the point, (p,).
    - `reweight`: estimates sigma anew; None keeps it.
    - `normal_equations`: as of `choose_smoothness`.

    **Returns:** the objective, whether its weights are hardly others, and what happened, in sentences.
    """
    smoothness, events, settled = choose_smoothness(functional, theta, normal_equations), [], True
    if smoothness is not None and not smoothness.settled:
        functional, settled = functional.with_roughness(smoothness.weights), False
        events.append(f"smoothness chosen by the data: {smoothness.description}")
    if reweight is not None:
        functional, change = reweight.apply(functional, theta)
        settled = settled and change < reweight.tolerance
        events.append(f"sigma re-estimated from residuals, largest change {change:.1%}")
    return functional, settled, events


def prepares(own: AbstractObjective, formulation: AbstractFormulation | None) -> bool:
    """Whether a stage with this formulation leaves the windows of the fit's own functional.

    Where states are controls such a stage only prepares. Windows that start from the data move only the other controls,
    and the states come back at their guesses. A free initial state moves along where fewer frames of one trajectory are
    fitted.

    **Arguments:**

    - `own`: the functional of the fit.
    - `formulation`: that of the stage.
    """
    return formulation is not None and not (own.controls.states.items and formulation == own.formulation)


def keeps(own: AbstractObjective, before: AbstractFormulation | None) -> bool:
    """Whether a stage without a formulation goes on with that of the stage before.

    It does not where states come back, nor where a part of the record was left out.

    **Arguments:**

    - `own`: the functional of the fit.
    - `before`: the formulation in force before.
    """
    return not own.controls.states.items and not (before is not None and before.partial)


def with_windows(own: Objective, formulation: AbstractFormulation | None) -> Objective:
    """The fit's functional with other windows, or itself."""
    if formulation is None or not prepares(own, formulation):
        return own
    return own.reformulated(formulation, own.theta0)


def resized(own: AbstractObjective, functional: AbstractObjective, theta: Float[Array, " p"]) -> Float[Array, " q"]:
    """theta of the stage before as a point of this stage's functional.

    States, which come last, are dropped, or come back at their guesses.

    **Arguments:**

    - `own`: the functional of the fit.
    - `functional`: that of this stage.
    - `theta`: the point that the stage before reached.
    """
    size = functional.controls.size
    return jnp.concatenate([theta[:size], own.theta0[theta.size : size]])
