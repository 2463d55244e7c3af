"""Stages of a fit: an optimizer, its windows, and its weights."""

import dataclasses
from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pdefit.inverse.controls.priors import AbstractPrior
from pdefit.inverse.controls.theta import Controls
from pdefit.inverse.controls.transforms import Log, Log10
from pdefit.inverse.fit.amplitudes import choose_amplitudes
from pdefit.inverse.fit.reweight import AbstractReweight
from pdefit.inverse.fit.reweight import Reweight as Reweight
from pdefit.inverse.fit.smoothness import choose_smoothness
from pdefit.inverse.fit.stop import AbstractStop, Stopping
from pdefit.inverse.objective.abstract import AbstractObjective, Objective
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.optimizers.base import AbstractOptimizer
from pdefit.inverse.shooting.formulation import AbstractFormulation, Segments, Single

# a larger sigma, in parts of the spread of the data, does not make the prior of the beginning of a record heavier
_PART = 1 / 30


@dataclasses.dataclass(frozen=True)
class Stage:
    """One stage of a fit: an optimizer with its bound, windows and weights.

    **Arguments:**

    - `optimizer`: the method.
    - `max_iterations`: the largest number of its evaluations; default 100.
    - `formulation`: a cut of the record that differs from the fit's own, such as windows that grow stage by stage.
      `Single()` fits one trajectory. By default the previous stage decides.
    - `reweight`: repeats the stage with standard deviations from its residuals or predictions; by default there is no
      repetition.
    - `stop`: a rule that may end the stage before the optimizer converges; by default there is none.
    """

    optimizer: AbstractOptimizer
    max_iterations: int = 100
    formulation: AbstractFormulation | None = None
    reweight: AbstractReweight | None = None
    stop: AbstractStop | None = None

    def optimizer_for(self, objective: AbstractObjective) -> AbstractOptimizer:
        """The optimizer for this objective, with the stopping rule if there is one."""
        optimizer = self.optimizer.on(objective)
        return optimizer if self.stop is None else Stopping(optimizer, self.stop, objective)


def evaluation_cost(functional: AbstractObjective, stage: Stage) -> float:
    """Approximate cost of an evaluation in a stage, in forward runs: of all tangents together, or of a gradient."""
    return tangents_cost(functional) if stage.optimizer.tangents else 5.0


def tangents_cost(functional: AbstractObjective) -> float:
    """Approximate cost of all tangents together, in forward runs."""
    return 1 + functional.tangents / 2


def new_weights(
    functional: Objective,
    theta: Array,
    reweight: AbstractReweight | None,
    normal_equations: Callable,
    product: Callable | None = None,
) -> tuple[Objective, bool, list[str]]:
    """The objective with the smoothness of fields and the sigma that the data suggest at a point.

    **Arguments:**

    - `functional`: the objective.
    - `theta`: the point, (p,).
    - `reweight`: estimates sigma; None keeps it.
    - `normal_equations`: as in `choose_smoothness`.
    - `product`: as in `choose_amplitudes`, at a minimum; by default amplitudes are kept.

    **Returns:** the objective, whether its weights hardly changed, and sentences about the events.
    """
    smoothness, events, settled = choose_smoothness(functional, theta, normal_equations), [], True
    if smoothness is not None and not smoothness.settled:
        functional, settled = functional.with_roughness(smoothness.weights), False
        events.append(f"smoothness chosen by the data: {smoothness.description}")
    amplitudes = None if product is None else choose_amplitudes(functional, theta, product)
    if amplitudes is not None:
        functional, settled = functional.with_roughness(amplitudes.weights), settled and amplitudes.settled
        events += amplitudes.events
    if reweight is not None:
        functional, change, words = reweight.apply(functional, theta)
        settled = settled and change < reweight.tolerance
        events.append(f"sigma re-estimated from {', '.join(words)}, largest change {change:.1%}")
    return functional, settled, events


def prepares(own: AbstractObjective, formulation: AbstractFormulation | None) -> bool:
    """True if a formulation differs from the windows of the fit's own functional.

    If states are controls, such a stage only prepares. Windows that start from the data move only the other controls,
    and the states return to their guesses. A free initial state is fitted too if the stage uses fewer frames of one
    trajectory.

    **Arguments:**

    - `own`: the functional of the fit.
    - `formulation`: the formulation of the stage.
    """
    return formulation is not None and not (own.controls.states.items and formulation == own.formulation)


def keeps(own: AbstractObjective, before: AbstractFormulation | None) -> bool:
    """True if a stage keeps the formulation of the previous stage.

    It does not if states return to their guess, or if a part of the record was left out.

    **Arguments:**

    - `own`: the functional of the fit.
    - `before`: the previous formulation.
    """
    return not own.controls.states.items and not (before is not None and before.partial)


def prepared(own: AbstractObjective, before: AbstractFormulation | None, now: AbstractFormulation | None) -> bool:
    """True if a stage uses the fit's own formulation after a stage that prepared it with another one.

    A step that lowers J in windows may raise it on the whole record, so the guess may be the better start.

    **Arguments:**

    - `own`: the functional of the fit.
    - `before`, `now`: the formulations in use; None for the fit's own.
    """
    return now in (None, own.formulation) and before not in (None, own.formulation)


def same_windows(stages: Sequence[Stage], stage: int, before: int) -> tuple[str, ...]:
    """Sentence about a stage that keeps the windows of stage `before`; empty if those are one trajectory."""
    if before < 0 or not isinstance(stages[before].formulation, Segments):
        return ()
    whole = "give it `window: whole` (`Single()` in Python) to fit the record as one trajectory"
    return (f"stage {stage + 1} goes on with the windows of stage {before + 1}; {whole}",)


def with_windows(own: Objective, formulation: AbstractFormulation | None) -> Objective:
    """The fit's functional with other windows, or itself."""
    if formulation is None or not prepares(own, formulation):
        return own
    other = own.reformulated(formulation, own.theta0)
    beginning = isinstance(formulation, Single) and formulation.until is not None
    return _near_guess(other) if beginning else other


class _Near(AbstractPrior):
    """A `LogNormal` with a median for each element, and a weight instead of the deviation."""

    guess: Array
    weight: Array

    def residual(self, x):
        return self.weight * jnp.log(x / self.guess)


def _near_guess(objective: Objective) -> Objective:
    """The objective with a weak logarithmic prior for each scalar without a prior.

    The beginning of a record may not determine a scalar, such as a diffusivity before fronts are sharp. Without a prior
    its logarithm drifts, until the scalar is so small that no later stage is sensitive to it. The prior weighs as much
    as one measurement with the stated sigma. If sigma exceeds a fraction of the data's variation, that fraction
    replaces it: a sigma left at 1 would make the prior heavier than the data.
    """
    if not isinstance(objective, Functional):
        return objective
    data, squares, count = objective.observations, jnp.zeros(()), jnp.zeros(())
    for name, mask in data.mask.items():
        x, seen = data.values[name], jnp.maximum(jnp.sum(mask), 1)
        far = (x - jnp.sum(jnp.where(mask, x, 0)) / seen) / data.sigma[name]
        squares, count = squares + jnp.sum(jnp.where(mask, far, 0) ** 2), count + seen
    weight = jnp.minimum(_PART * jnp.sqrt(squares / count), 1.0)
    items, values = [], objective.controls.split(objective.theta0)
    for c, theta in zip(objective.controls.items, values, strict=True):
        free = c.prior is None and c.is_number and not c.is_state and isinstance(c.transform, Log | Log10)
        items.append(dataclasses.replace(c, prior=_Near(c.to_physical(theta), weight)) if free else c)
    return eqx.tree_at(lambda o: o.controls, objective, Controls(tuple(items)))


def resized(own: AbstractObjective, functional: AbstractObjective, theta: Float[Array, " p"]) -> Float[Array, " q"]:
    """theta of the previous stage, converted to this stage's functional.

    States, which come last, are dropped, or return to their guesses.

    **Arguments:**

    - `own`: the functional of the fit.
    - `functional`: the functional of this stage.
    - `theta`: the final point of the previous stage.
    """
    size = functional.controls.size
    return jax.device_put(np.concatenate([np.asarray(theta)[:size], np.asarray(own.theta0)[theta.size : size]]))
