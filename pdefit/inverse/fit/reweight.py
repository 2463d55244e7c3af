"""Weights of a fit that follow its residuals or predictions, through repetitions of a stage."""

import abc
from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pdefit._util.errors import unknown
from pdefit.integrate.loop.batch import on_one_device
from pdefit.inverse.fit.likelihoods import PredictedVariance
from pdefit.inverse.linear.determined_inverse import determined_inverse
from pdefit.inverse.objective.abstract import AbstractObjective, Objective
from pdefit.inverse.objective.compiled import EQUATIONS, weighted
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.objective.variants import with_tangents

# tangents, and unknowns, beyond which the matrix of each variable takes longer than a fit by gradients
_MOST_TANGENTS, _MOST = 200, 2000


class AbstractReweight(eqx.Module):
    """A rule for the standard deviations at the end of a round, which the next round uses."""

    rounds: eqx.AbstractVar[int]
    tolerance: eqx.AbstractVar[float]

    @abc.abstractmethod
    def estimates(self, name: str) -> bool:
        """True if residuals determine the sigma of a variable, which then tells nothing about the model.

        **Arguments:** `name`: the variable.
        """

    @abc.abstractmethod
    def _one(self, functional: Functional, theta: Array, known: Any) -> tuple[Functional, float, list[str]]:
        """One recording with new sigma, the largest relative change, and the basis of sigma, in words.

        **Arguments:** `functional`, `theta`: this recording's; `known`: its entry of `_of_each`.
        """

    def _of_each(self, objective: AbstractObjective, theta: Array) -> Sequence[Any]:
        """For each recording the quantities that only all recordings determine; by default none."""
        return [None for _ in objective.parts(theta)]

    def apply(self, functional: Objective, theta: Array) -> tuple[Objective, float, list[str]]:
        """The objective with new sigma of each recording.

        **Arguments:**

        - `functional`: the objective.
        - `theta`: the point at which residuals are taken, (p,).

        **Returns:** the objective, the largest relative change, and the basis of sigma, in words.
        """
        changes, words, known = list[float](), dict[str, None](), iter(self._of_each(functional, theta))

        def one(part: Functional, own: Array) -> tuple[Functional, Array]:
            new, change, said = self._one(part, own, next(known))
            changes.append(change)
            words.update(dict.fromkeys(said))
            return new, own

        return functional.each(one, theta)[0], max(changes), [*words]


class Reweight(AbstractReweight):
    """Iteratively reweighted least squares: sigma is the root mean square residual, at least the measured sigma.

    An incomplete model misfits some observations by more than their noise. The rule keeps them from dominating.
    Residuals contain the noise, so the two are not added. Gaps between segments keep their standard deviation.

    **Arguments:**

    - `axes`: the axes of a variable, after time, with a separate residual level for each index (such as bodies). The
      level is shared along the other axes. By default there are no such axes.
    - `rounds`: the largest number of rounds; default 10.
    - `tolerance`: the rounds end when no sigma changes by more than this fraction; default 0.02.
    """

    axes: tuple[int, ...] = eqx.field(converter=tuple, default=())
    rounds: int = 10
    tolerance: float = 0.02

    def estimates(self, name):
        return True

    def _one(self, functional, theta, known):
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

    Fits at fixed weights alternate with new weights (iteratively reweighted least squares). They converge to the
    solution of the likelihood equations: for counts that is the maximum of the likelihood, and the Gauss-Newton matrix
    is the Fisher information. Members, which are many fits in one program, do not support it.

    **Arguments:**

    - `variables`: the variance of each variable.
    - `rounds`: the largest number of rounds; default 20.
    - `tolerance`: the rounds end when no sigma changes by more than this fraction; default 0.001.
    - `shared`: the variables whose estimated parts all recordings share. By default each recording has its own.

    An estimated part is corrected for the degrees of freedom that its values determine. A shared unknown counts once
    over all variables and recordings.
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
        return self._of_each(functional, theta)[0][1]

    def _of_each(self, objective, theta):
        parts = objective.parts(theta)
        each = [dict[str, PredictedVariance]() for _ in parts]
        used = unknowns_by_variable(objective, theta) if any(v.is_estimated for _, v in self.variables) else []
        predicted = [_predicted(*part) for part in parts]
        for name, variance in self.variables:
            if name not in predicted[0]:
                raise unknown("variable of the likelihood", name, predicted[0])
            fitted = [np.asarray(part.fitted(name)) for part, _ in parts]
            signal = [of[name][seen] for of, seen in zip(predicted, fitted, strict=True)]
            values = [np.asarray(part.observations.values[name])[part.layout.index] for part, _ in parts]
            left = [x - of[seen] for x, of, seen in zip(signal, values, fitted, strict=True)]
            every = range(len(parts))
            for some in [every] if name in self.shared else [[e] for e in every]:
                x, r = (np.concatenate([of[e] for e in some]) for of in (signal, left))
                found = variance.estimated(x, r, sum(used[e][name] for e in some) if used else 0)
                for e in some:
                    each[e][name] = found
        return list(zip(predicted, each, strict=True))

    def _one(self, functional, theta, known):
        data, layout, change, new = functional.observations, functional.layout, 0.0, {}
        predicted, variances = known
        for name, variance in variances.items():
            # frames that are kept out of the fit are weighed, too
            signal = np.array(data.values[name], float)
            signal[layout.index[layout.counts]] = predicted[name][layout.counts]
            signal = np.where(np.isfinite(signal), signal, data.values[name])
            fitted, old = np.asarray(data.mask[name]), np.broadcast_to(data.sigma[name], signal.shape)
            # one of many recordings may lack a variable, whose parts are then unknown
            new[name] = variance.sigma(signal) if fitted.any() else old
            change = max(change, float(np.max(np.abs(new[name] / old - 1)[fitted], initial=0.0)))
        return functional.reweighted(new), change, [f"the prediction of {n} ({v})" for n, v in variances.items()]


def _predicted(functional: Functional, theta: Array) -> dict[str, np.ndarray]:
    """Predictions of every variable, including values that were not measured, (S, I, ...)."""
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


def unknowns_by_variable(objective: AbstractObjective, theta: Float[Array, " p"]) -> list[dict[str, float]]:
    """Trace of the hat matrix over the values of each variable, for each recording.

        t_v = tr(A^-1 J_v^T J_v),    A = J_r^T J_r

    J_v is the Jacobian of the weighted residuals of variable v, and A the Gauss-Newton matrix of all residuals, priors
    included. Elements at a bound are left out of both. So all t_v sum to the number of unknowns that the data
    determine: a shared unknown counts once, and an unknown that affects one variable only counts there. With more than
    200 tangents the matrices are too expensive, and each variable gets a share of the unknowns in proportion to its
    values.

    **Arguments:**

    - `objective`, `theta`: the objective, and the point, (p,).

    Source: H. D. Patterson, R. Thompson, Biometrika 58:545 (1971), doi:10.1093/biomet/58.3.545: the residuals of v have
    the expected sum of squares sigma_v^2 (n_v - t_v).
    """
    parts, free = [part for part, _ in objective.parts(theta)], objective.controls.bounds.free(theta)
    names = [*parts[0].observed]
    if objective.tangents > _MOST_TANGENTS or theta.size > _MOST:
        rate = free.sum() / max(objective.observed_values, 1)
        return [{n: rate * int(np.sum(part.fitted(n))) for n in names} for part in parts]
    objective = with_tangents(objective)
    found, (_, _, matrix) = on_one_device(EQUATIONS(objective, theta))
    groups, matrix = found.joined(), np.asarray(matrix)
    inverse = jnp.asarray(determined_inverse(matrix, free).matrix)
    # what a gauge holds lies beyond theta
    inside = inverse.at[groups.columns[:, :, None], groups.columns[:, None, :]].get(mode="fill", fill_value=0.0)
    traces = {}
    for name in names:
        # an infinite sigma leaves the variable out
        sigma = {name: np.full_like(objective.observations.sigma[name], np.inf)}
        without = on_one_device(EQUATIONS(objective.reweighted(sigma), theta))[0].joined()
        traces[name] = jnp.sum(inside * (groups.matrix - without.matrix), axis=(1, 2)).reshape(len(parts), -1)
    return [{n: float(jnp.sum(trace[e])) for n, trace in traces.items()} for e in range(len(parts))]
