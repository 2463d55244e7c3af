"""Rules that end a stage before its optimizer converges, where going on would fit noise."""

import abc
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, PyTree

from pdefit._util.errors import PdefitError
from pdefit.data.observations import Observations
from pdefit.inverse.fit._compiled_loop import Carry
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.optimizers.base import AbstractOptimizer, Evaluation


class AbstractStop(eqx.Module):
    """A rule that ends a stage by a score of the data: the mean squared weighted residual, without regularizers, priors.

    Gaps between segments count as residuals of the data. The score is that of every point with the lowest J so far.
    """

    @abc.abstractmethod
    def judged(self, objective: AbstractObjective) -> AbstractObjective:
        """The objective whose data make the score.

        **Arguments:** `objective` is minimised.
        """

    @abc.abstractmethod
    def value(self, judged: AbstractObjective, theta: Float[Array, " p"], value: Float[Array, ""]) -> Float[Array, ""]:
        """J of the judged objective.

        **Arguments:**

        - `judged`: the objective.
        - `theta`: the point, (p,).
        - `value`: J of the objective that is minimised.
        """

    @abc.abstractmethod
    def takes(self, score: Array, best: Array) -> Array:
        """Whether the result moves on to a point with this score, where the one before had the score `best`."""

    @abc.abstractmethod
    def reached(self, score: Array, since: Array) -> Array:
        """Whether the stage ends, given the number of points with lower J since one was taken."""

    @abc.abstractmethod
    def remark(self, score: float) -> str:
        """What happened, as a sentence for the user."""


class Noise(AbstractStop):
    """The discrepancy principle: end as soon as residuals are as large as the noise.

    The stage ends at the first point whose mean squared weighted residual is at most `factor`. It needs a sigma that is
    the noise. So it is refused beside `reweight`. A configuration refuses it for a twin without noise, whose sigma is a
    range, and for data without a stated or estimated sigma.

    **Arguments:**

    - `factor`: the level, in units of sigma squared; default 1.

    Source: V. A. Morozov, Sov. Math. Dokl. 7:414 (1966).
    """

    factor: float = 1.0

    def __check_init__(self):
        if not self.factor > 0:
            raise PdefitError(f"Stopping at the noise level expects a factor above 0, but got {self.factor}")

    def judged(self, objective):
        return objective

    def value(self, judged, theta, value):
        return value

    def takes(self, score, best):
        return jnp.ones((), bool)

    def reached(self, score, since):
        return score <= self.factor

    def remark(self, score):
        return f"stopped at the noise level: the mean squared residual is {score:.3g} sigma^2"


class Holdout(AbstractStop):
    """The best score of held-out data: end when it has not fallen for a while, and return to where it was lowest.

    The lowest score is returned however the stage ends. It costs a forward run for each point with the lowest J so far.
    It has chosen the point, so it flatters the fit a little.

    **Arguments:**

    - `record`: the observations before anything was held out. Values that the fit masks are held out. None where a
      configuration says `holdout`, which gives them.
    - `patience`: the number of points with lower J but no lower score after which the stage ends; default 10.
    """

    record: Observations | None = None
    patience: int = 10

    def __check_init__(self):
        if not self.patience >= 1:
            raise PdefitError(f"Stopping at the best held-out score expects a patience >= 1, but got {self.patience}")

    def judged(self, objective):
        if not isinstance(objective, Functional):
            raise PdefitError("Stopping at the best held-out score expects one recording; use Noise() for many")
        seen = objective.observations.mask
        record = None if self.record is None else self.record.mask
        if record is None or {n: m.shape for n, m in record.items()} != {n: m.shape for n, m in seen.items()}:
            raise PdefitError(
                "Stopping at the best held-out score expects the record before anything was held out of it; set "
                "pdefit.stopping.Holdout(record), or holdout in a configuration"
            )
        held = {name: record[name] & ~mask for name, mask in seen.items()}
        return eqx.tree_at(lambda f: f.observations.mask, objective, held)

    def value(self, judged, theta, value):
        return judged.value(theta)

    def takes(self, score, best):
        return score < best

    def reached(self, score, since):
        return since >= self.patience

    def remark(self, score):
        return f"stopped at the best held-out score, a mean squared residual of {score:.3g} sigma^2"


class _State(NamedTuple):
    own: PyTree
    # the lowest J, and what the rule makes of the points with the lowest J so far
    lowest: Array
    theta: Array
    score: Array
    since: Array
    reached: Array


class Stopping(AbstractOptimizer):
    """An optimizer that a rule may end.

    The rule is part of its state, so it works inside compiled loops and is saved with a fit.
    """

    optimizer: AbstractOptimizer
    rule: AbstractStop
    judged: AbstractObjective
    values: Array

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

    def tell(self, state: _State, found: Evaluation):
        theta = self.ask(state)
        own, accepted = self.optimizer.tell(state.own, found)
        better = found.finite & (found.value < state.lowest)
        score = lax.cond(better, lambda: self._score(theta, found.value), lambda: jnp.asarray(jnp.inf, jnp.float64))
        taken = better & self.rule.takes(score, state.score)
        since = jnp.where(taken, 0, state.since + better)
        new = _State(
            own,
            jnp.where(better, found.value, state.lowest),
            jnp.where(taken, theta, state.theta),
            jnp.where(taken, score, state.score),
            since,
            state.reached | (better & self.rule.reached(score, since)),
        )
        return new, accepted

    def _score(self, theta: Array, value: Array) -> Array:
        return 2 * (self.rule.value(self.judged, theta, value) - self.judged.extra_value(theta)) / self.values

    def converged(self, state):
        return self.optimizer.converged(state.own) | state.reached

    def finished(self, state):
        return self.optimizer.finished(state.own) | state.reached

    def remark(self, state):
        return self.rule.remark(float(state.score)) if bool(state.reached) else self.optimizer.remark(state.own)


def stopping(optimizer: AbstractOptimizer, rule: AbstractStop | None, objective: AbstractObjective) -> AbstractOptimizer:
    """An optimizer with a rule that ends it, if there is one.

    **Arguments:**

    - `optimizer`, `rule`: those of a stage.
    - `objective`: is minimised.
    """
    if rule is None:
        return optimizer
    judged = rule.judged(objective)
    count = judged.observed_values
    if not count:
        raise PdefitError("A stopping rule expects data to judge by, but there are none; hold some out (holdout)")
    return Stopping(optimizer, rule, judged, jnp.asarray(float(count)))


def reached(carry: Carry | None) -> bool:
    """Whether a rule ended the stage."""
    return carry is not None and isinstance(carry.state, _State) and bool(carry.state.reached)


def best_point(carry: Carry) -> Array:
    """The point that a stage has reached, by its rule where there is one, (p,)."""
    taken = isinstance(carry.state, _State) and bool(jnp.isfinite(carry.state.score))
    return carry.state.theta if taken else carry.best_theta
