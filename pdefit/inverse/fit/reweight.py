"""Weights of a fit that follow its residuals or its predictions, by which a stage is repeated."""

import abc
from collections.abc import Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from pdefit._util.errors import unknown
from pdefit.inverse.fit.likelihoods import PredictedVariance
from pdefit.inverse.objective.abstract import Objective
from pdefit.inverse.objective.compiled import weighted
from pdefit.inverse.objective.functional import Functional


class AbstractReweight(eqx.Module):
    """A rule for standard deviations at the end of a round, with which the next one begins."""

    rounds: eqx.AbstractVar[int]
    tolerance: eqx.AbstractVar[float]

    @property
    @abc.abstractmethod
    def is_estimated(self) -> bool:
        """A test for weights that residuals decide, which then say nothing about the model any more."""

    @abc.abstractmethod
    def _one(self, functional: Functional, theta: Array) -> tuple[Functional, float, list[str]]:
        """One recording with new sigma, the largest relative change, and what sigma follows, in words."""

    def apply(self, functional: Objective, theta: Array) -> tuple[Objective, float, list[str]]:
        """The objective with new sigma, of each recording by itself.

        **Arguments:**

        - `functional`: the objective.
        - `theta`: the point at which residuals are taken, (p,).

        **Returns:** the objective, the largest relative change, and what sigma follows, in words.
        """
        changes, words = list[float](), dict[str, None]()

        def one(part: Functional, own: Array) -> tuple[Functional, Array]:
            new, change, said = self._one(part, own)
            changes.append(change)
            words.update(dict.fromkeys(said))
            return new, own

        return functional.each(one, theta)[0], max(changes), [*words]


class Reweight(AbstractReweight):
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

    @property
    def is_estimated(self):
        return True

    def _one(self, functional, theta):
        data = functional.observations
        new, change = {}, 0.0
        for name, residuals in _unweighted(functional, theta).items():
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
        return functional.reweighted(new), change, ["residuals"]


class ByPrediction(AbstractReweight):
    """Standard deviations of some variables that follow the prediction, as for counts.

    A fit with weights that are held, and new weights, by turns. They settle at the solution of the likelihood equations: for
    counts that is the maximum of the likelihood, and the Gauss-Newton matrix is the Fisher information. Not for many fits
    in one program.

    **Arguments:**

    - `variables`: the variance of each variable.
    - `rounds`: the most rounds; default 20.
    - `tolerance`: ends the rounds when no sigma changes by more than this part; default 0.001.
    """

    variables: tuple[tuple[str, PredictedVariance], ...] = eqx.field(
        converter=lambda v: tuple(sorted(v.items())) if isinstance(v, Mapping) else tuple(v), static=True
    )
    rounds: int = 20
    tolerance: float = 1e-3

    @property
    def is_estimated(self):
        return any(variance.is_estimated for _, variance in self.variables)

    def known(self, functional: Functional, theta: Array) -> dict[str, PredictedVariance]:
        """The variance of each variable with all its parts known.

        **Arguments:** `functional`, `theta`: one recording, and the point at which residuals are taken, (p,).
        """
        return self._known(functional, _predicted(functional, theta), theta.size)

    def _known(
        self, functional: Functional, predicted: Mapping[str, np.ndarray], unknowns: int
    ) -> dict[str, PredictedVariance]:
        found, data = {}, functional.observations
        for name, variance in self.variables:
            if name not in predicted:
                raise unknown("variable of the likelihood", name, predicted)
            fitted = np.asarray(functional.fitted(name))
            signal, observed = predicted[name][fitted], np.asarray(data.values[name])[functional.layout.index][fitted]
            found[name] = variance.estimated(signal, signal - observed, unknowns)
        return found

    def _one(self, functional, theta):
        data, layout, change, new = functional.observations, functional.layout, 0.0, {}
        predicted = _predicted(functional, theta)
        known = self._known(functional, predicted, theta.size)
        for name, variance in known.items():
            # frames that are kept out of the fit are weighed, too
            signal = np.array(data.values[name], float)
            signal[layout.index[layout.counts]] = predicted[name][layout.counts]
            signal = np.where(np.isfinite(signal), signal, data.values[name])
            new[name] = variance.sigma(signal)
            fitted, old = np.asarray(data.mask[name]), np.broadcast_to(data.sigma[name], signal.shape)
            change = max(change, float(np.max(np.abs(new[name] / old - 1)[fitted], initial=0.0)))
        return functional.reweighted(new), change, [f"the prediction of {n} ({v})" for n, v in known.items()]


def _predicted(functional: Functional, theta: Array) -> dict[str, np.ndarray]:
    """Predictions of every variable, also of values that were not measured, (S, I, ...)."""
    data = functional.observations
    nothing = {n: jnp.zeros_like(x) for n, x in data.values.items()}
    everywhere = {n: jnp.ones_like(x) for n, x in data.mask.items()}
    return _unweighted(
        eqx.tree_at(lambda f: (f.observations.values, f.observations.mask), functional, (nothing, everywhere)), theta
    )


def _unweighted(functional: Functional, theta: Array) -> dict[str, np.ndarray]:
    """Predictions minus data of every variable, (S, I, ...)."""
    unit = functional.reweighted({n: np.ones(()) for n in functional.observations.sigma})
    return jax.tree.map(np.asarray, weighted(unit, theta))
