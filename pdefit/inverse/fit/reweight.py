"""Weights of a fit that follow its residuals or its predictions, by which a stage is repeated."""

import abc
from collections.abc import Mapping, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from pdefit._util.errors import unknown
from pdefit.inverse.fit._unknowns import unknowns_by_variable
from pdefit.inverse.fit.likelihoods import PredictedVariance
from pdefit.inverse.objective.abstract import AbstractObjective, Objective
from pdefit.inverse.objective.compiled import weighted
from pdefit.inverse.objective.functional import Functional


class AbstractReweight(eqx.Module):
    """A rule for standard deviations at the end of a round, with which the next one begins."""

    rounds: eqx.AbstractVar[int]
    tolerance: eqx.AbstractVar[float]

    @abc.abstractmethod
    def estimates(self, name: str) -> bool:
        """A test for a variable whose sigma residuals decide. It then says nothing about the model any more.

        **Arguments:** `name`: the variable.
        """

    @abc.abstractmethod
    def _each(self, objective: AbstractObjective, theta: Array) -> list[tuple[dict[str, np.ndarray], list[str]]]:
        """For each recording the new sigma by variable, and what it follows, in words."""

    def apply(self, functional: Objective, theta: Array) -> tuple[Objective, float, list[str]]:
        """The objective with new sigma of each recording.

        **Arguments:**

        - `functional`: the objective.
        - `theta`: the point at which residuals are taken, (p,).

        **Returns:** the objective, the largest relative change, and what sigma follows, in words.
        """
        changes, words, new = [0.0], dict[str, None](), iter(self._each(functional, theta))

        def one(part: Functional, own: Array) -> tuple[Functional, Array]:
            sigma, said = next(new)
            words.update(dict.fromkeys(said))
            for name, x in sigma.items():
                old, fitted = part.observations.sigma[name], np.asarray(part.observations.mask[name])
                change = np.broadcast_to(np.abs(x / np.asarray(old) - 1), fitted.shape)
                changes.append(float(np.max(change, where=fitted, initial=0.0)))
            return part.reweighted(sigma), own

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

    def estimates(self, name):
        return True

    def _each(self, objective, theta):
        return [(self._levels(part, own), ["residuals"]) for part, own in objective.parts(theta)]

    def _levels(self, functional: Functional, theta: Array) -> dict[str, np.ndarray]:
        """The new sigma of one recording."""
        new = {}
        for name, residuals in _unweighted(functional, theta).items():
            squares = np.square(residuals)
            mask = np.asarray(functional.fitted(name))
            pooled = tuple(a for a in range(squares.ndim) if a < 2 or a - 2 not in self.axes)
            level = squares.sum(axis=pooled, keepdims=True) / np.maximum(mask.sum(axis=pooled, keepdims=True), 1)
            level = level.reshape(level.shape[1:])
            new[name] = np.sqrt(np.maximum(np.asarray(functional.measured_sigma[name]) ** 2, level))
        return new


class ByPrediction(AbstractReweight):
    """Standard deviations of some variables that follow the prediction, as for counts.

    A fit with weights that are held, and new weights, by turns. They settle at the solution of the likelihood equations: for
    counts that is the maximum of the likelihood, and the Gauss-Newton matrix is the Fisher information. Not for many fits
    in one program.

    **Arguments:**

    - `variables`: the variance of each variable.
    - `rounds`: the most rounds; default 20.
    - `tolerance`: ends the rounds when no sigma changes by more than this part; default 0.001.
    - `shared`: the variables whose estimated parts all recordings share. By default each recording has its own.

    An estimated part counts the unknowns that its values determine, so that a shared unknown counts once over all variables
    and recordings.
    """

    variables: tuple[tuple[str, PredictedVariance], ...] = eqx.field(
        converter=lambda v: tuple(sorted(v.items())) if isinstance(v, Mapping) else tuple(v), static=True
    )
    rounds: int = 20
    tolerance: float = 1e-3
    shared: tuple[str, ...] = eqx.field(converter=tuple, default=(), static=True)

    def estimates(self, name):
        return any(n == name and variance.is_estimated for n, variance in self.variables)

    def known(self, functional: Functional, theta: Array) -> dict[str, PredictedVariance]:
        """The variance of each variable with all its parts known.

        **Arguments:** `functional`, `theta`: one recording, and the point at which residuals are taken, (p,).
        """
        return self._known(functional, theta, [_predicted(functional, theta)])[0]

    def _known(
        self, objective: AbstractObjective, theta: Array, predicted: Sequence[Mapping[str, np.ndarray]]
    ) -> list[dict[str, PredictedVariance]]:
        """The variance of each variable in each recording, by predictions as of `_predicted`."""
        parts = [part for part, _ in objective.parts(theta)]
        each: list[dict[str, PredictedVariance]] = [{} for _ in parts]
        estimated = any(variance.is_estimated for _, variance in self.variables)
        used = unknowns_by_variable(objective, theta) if estimated else []
        for name, variance in self.variables:
            if name not in predicted[0]:
                raise unknown("variable of the likelihood", name, predicted[0])
            fitted = [np.asarray(part.fitted(name)) for part in parts]
            signal = [of[name][seen] for of, seen in zip(predicted, fitted, strict=True)]
            value = [
                np.asarray(part.observations.values[name])[part.layout.index][seen]
                for part, seen in zip(parts, fitted, strict=True)
            ]
            together = [range(len(parts))] if name in self.shared else [[e] for e in range(len(parts))]
            for some in together:
                x, y = (np.concatenate([of[e] for e in some]) for of in (signal, value))
                found = variance.estimated(x, x - y, sum(used[e][name] for e in some) if used else 0.0)
                for e in some:
                    each[e][name] = found
        return each

    def _each(self, objective, theta):
        parts = objective.parts(theta)
        predicted, each = [_predicted(*part) for part in parts], []
        for (part, _), seen, known in zip(parts, predicted, self._known(objective, theta, predicted), strict=True):
            data, layout, new = part.observations, part.layout, {}
            for name, variance in known.items():
                # frames that are kept out of the fit are weighed, too
                signal = np.array(data.values[name], float)
                signal[layout.index[layout.counts]] = seen[name][layout.counts]
                signal = np.where(np.isfinite(signal), signal, data.values[name])
                new[name] = variance.sigma(signal)
            each.append((new, [f"the prediction of {n} ({v})" for n, v in known.items()]))
        return each


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
