"""Early stopping: rules that end a stage before its optimizer converges and fits noise."""

import abc
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, PyTree

from pdefit._util.errors import PdefitError
from pdefit._util.expected import Count, Positive, check_fields
from pdefit.data.observations import Observations
from pdefit.inverse.fit.compiled_loop import Carry
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.optimizers.base import AbstractOptimizer, Evaluation


class AbstractStop(eqx.Module):
    """A rule that ends a stage by a score: the mean squared weighted residual, without regularizers and priors.

    Gaps between segments count as residuals of the data. The score is evaluated at every point with the lowest J so far.
    `elsewhere` is whether the data of the score differ from the fitted data. Then the stage returns to the point with the
    best score, and each score costs a forward run.
    """

    elsewhere: eqx.AbstractClassVar[bool]

    def __check_init__(self):
        check_fields(self)

    def judged(self, objective: AbstractObjective) -> AbstractObjective:
        """The objective whose data define the score.

        **Arguments:** `objective`: the minimised objective.
        """
        return objective

    @abc.abstractmethod
    def reached(self, score: Array, since: Array) -> Array:
        """True at the end of the stage.

        **Arguments:**

        - `score`: the score of the newest point.
        - `since`: the number of points with lower J since the best score.
        """

    @abc.abstractmethod
    def remark(self, score: float) -> str:
        """A sentence for the user about the end of the stage."""


class Noise(AbstractStop):
    """The discrepancy principle: a stage ends as soon as residuals are as large as the noise.

    For unknown fields if sigma is the noise. Not with a prior, which already limits fine structure.

    The stage ends at the first point whose mean squared weighted residual is at most `factor`. Sigma must be the noise.
    So the rule is refused with `reweight`, and by a configuration in which sigma is the range of the data: for a
    noiseless twin, and for measured data without sigma.

    **Arguments:**

    - `factor`: the level, in units of sigma squared; default 1.

    Source: V. A. Morozov, Sov. Math. Dokl. 7:414 (1966).
    """

    elsewhere: ClassVar[bool] = False

    factor: Positive = 1.0

    def reached(self, score, since):
        return score <= self.factor

    def remark(self, score):
        return f"stopped at the noise level: the mean squared residual is {score:.3g} sigma^2"


class Holdout(AbstractStop):
    """Early stopping by held-out data: a stage ends when their score has stopped falling, and returns to the best point.

    For fields without a trusted sigma. Not for few frames or chaotic records, whose held-out data cannot be predicted.

    The stage returns to the lowest score however it ends. Since the score chose the point, it is slightly optimistic.

    **Arguments:**

    - `record`: the observations before any were held out; a tuple for many recordings. Values that the fit masks are
      held out. None if a configuration sets it by `holdout`.
    - `patience`: the number of points with lower J but no lower score after which the stage ends; default 10.
    """

    elsewhere: ClassVar[bool] = True

    record: Observations | tuple[Observations, ...] | None = None
    patience: Count = 10

    def judged(self, objective):
        records = iter(self.record if isinstance(self.record, tuple) else (self.record,))

        def masked(part: Functional, own: Array) -> tuple[Functional, Array]:
            observations = next(records, None)
            own_mask, record = part.observations.mask, {} if observations is None else observations.mask
            if {n: m.shape for n, m in record.items()} != {n: m.shape for n, m in own_mask.items()}:
                raise PdefitError("Stopping by held-out data expects the record with these data; set Holdout(record)")
            masks = {name: record[name] & ~mask for name, mask in own_mask.items()}
            return eqx.tree_at(lambda f: f.observations.mask, part, masks), own

        return objective.each(masked, objective.theta0)[0]

    def reached(self, score, since):
        return since >= self.patience

    def remark(self, score):
        return f"stopped at the best held-out score, a mean squared residual of {score:.3g} sigma^2"


class _State(NamedTuple):
    own: PyTree
    # the lowest J, and the point that the stage returns with its score
    lowest: Array
    theta: Array
    score: Array
    since: Array
    reached: Array


class Stopping(AbstractOptimizer):
    """An optimizer that a stopping rule may end.

    The rule is part of its state, so it works inside compiled loops and is saved with a fit.

    **Arguments:**

    - `optimizer`, `rule`: the optimizer and the rule of a stage.
    - `objective`: the minimised objective.
    """

    optimizer: AbstractOptimizer
    rule: AbstractStop
    judged: AbstractObjective
    values: Array

    def __init__(self, optimizer: AbstractOptimizer, rule: AbstractStop, objective: AbstractObjective):
        self.optimizer, self.rule, self.judged = optimizer, rule, rule.judged(objective)
        self.values = jnp.asarray(float(self.judged.observed_values))
        if not self.values:
            raise PdefitError("A stopping rule expects data to judge by, but there are none; hold some out (holdout)")

    @property
    def tangents(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.optimizer.tangents

    @property
    def most_products(self):
        return self.optimizer.most_products

    def evaluate(self, functional, state):
        return self.optimizer.evaluate(functional, state.own)

    def init(self, theta, box):
        own, far = self.optimizer.init(theta, box), jnp.asarray(jnp.inf, jnp.float64)
        return _State(own, far, theta, far, jnp.zeros((), int), jnp.zeros((), bool))

    def ask(self, state):
        return self.optimizer.ask(state.own)

    def tell(self, state: _State, evaluation: Evaluation):
        theta = self.ask(state)
        own, accepted = self.optimizer.tell(state.own, evaluation)
        better = evaluation.finite & (evaluation.value < state.lowest)
        score = lax.cond(
            better, lambda: self._score(theta, evaluation.value), lambda: jnp.asarray(jnp.inf, jnp.float64)
        )
        taken = better & (score < state.score) if self.rule.elsewhere else better
        since = jnp.where(taken, 0, state.since + better)
        point = jnp.where(taken, theta, state.theta), jnp.where(taken, score, state.score)
        ends = state.reached | (better & self.rule.reached(score, since))
        return _State(own, jnp.where(better, evaluation.value, state.lowest), *point, since, ends), accepted

    def _score(self, theta: Array, value: Array) -> Array:
        value = self.judged.value(theta) if self.rule.elsewhere else value
        return 2 * (value - self.judged.extra_value(theta)) / self.values

    def converged(self, state):
        return self.optimizer.converged(state.own) | state.reached

    def finished(self, state):
        return self.optimizer.finished(state.own) | state.reached

    def remark(self, state):
        return self.rule.remark(float(state.score)) if bool(state.reached) else self.optimizer.remark(state.own)


def reached(carry: Carry | None) -> bool:
    """True if the stopping rule ended a stage."""
    return carry is not None and isinstance(carry.state, _State) and bool(carry.state.reached)


def best_point(carry: Carry) -> Array:
    """The final point of a stage, by its stopping rule if there is one, (p,)."""
    taken = isinstance(carry.state, _State) and bool(jnp.isfinite(carry.state.score))
    return carry.state.theta if taken else carry.best_theta
