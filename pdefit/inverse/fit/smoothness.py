"""Smoothness of unknown fields, estimated from the data: the prior of their modes with maximum evidence.

The coefficient of a mode with wave number k has mean zero and standard deviation

    amplitude * exp(-length * k)

The mean of the field has no prior. Amplitude, length and the size of the noise maximise the evidence, the probability
of the data with all unknowns integrated out, of the model linearised at a point. The noise is a free parameter, so that
a wrong stated sigma does not distort the prior.

Source: D. J. C. MacKay, Neural Comput. 4:415 (1992), doi:10.1162/neco.1992.4.3.415.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import scipy
from jaxtyping import Array, Float

from pdefit.inverse.controls.parametrization.modes import Modes
from pdefit.inverse.controls.theta import Controls
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.objective.variants import with_tangents

# first values of the decay from the smallest to the largest wave number, and the most of it that counts
_DECAYS, _MOST = (2.0, 8.0, 20.0), 18.0
# the bounds of the logarithms of the noise and of the amplitude, around their first values
_NOISE, _AMPLITUDE = (-30.0, 3.0), (-12.0, 12.0)
# a smoothness that would move the estimate by less, in standard errors of any combination of unknowns, is the old one
_SETTLED = 0.1
# the most rounds of a stage, each with another smoothness
SMOOTHINGS = 4

Equations = tuple[Float[np.ndarray, ""], Float[np.ndarray, " p"], Float[np.ndarray, "p p"]]


class Smoothness(NamedTuple):
    """Smoothness with maximum evidence.

    **Arguments:**

    - `weights`: the weight of every coefficient in the prior by path, in units of the noise.
    - `settled`: whether the estimate would hardly move.
    - `description`: amplitudes, lengths and noise in words.
    """

    weights: Mapping[str, Array]
    settled: bool
    description: str


def choose_smoothness(
    functional: AbstractObjective, theta: Float[Array, " p"], normal_equations: Callable
) -> Smoothness | None:
    """Smoothness with maximum evidence at a point; None without modes, or if the model blows up.

    **Arguments:**

    - `functional`: the objective.
    - `theta`: the point, (p,).
    - `normal_equations`: computes J, J_r^T r and J_r^T J_r of an objective at a point.
    """
    old = {c.path: c.parametrization.weights for c in functional.controls.items if c.has_modes}
    if not old:
        return None
    without = functional.with_roughness({path: jnp.zeros_like(x) for path, x in old.items()})
    equations: Equations = tuple(np.asarray(x) for x in normal_equations(with_tangents(without), theta))  # pyright: ignore
    if not all(np.all(np.isfinite(x)) for x in equations):
        return None
    evidence = _Evidence(functional.controls, np.asarray(theta), equations, functional.observed_values)
    logarithms, weights = evidence.best()
    parts = {c.path: jnp.asarray(weights[span]) for c, span in evidence.fields}
    moved = evidence.moved(weights) if any(np.any(x > 0) for x in old.values()) else np.inf
    return Smoothness(parts, moved < _SETTLED, evidence.in_words(logarithms))


class _Evidence:
    """Evidence of a linearised model as a function of the logarithms of noise, amplitudes and decays."""

    def __init__(self, controls: Controls, theta: np.ndarray, equations: Equations, values: int):
        (self.value, gradient, matrix), self.theta, held = equations, theta, controls.bounds.at(theta)
        # what is at a bound neither moves nor counts
        self.gradient = np.where(held, 0.0, gradient)
        self.matrix = np.where(held[:, None] | held, np.diag(held.astype(float)), matrix)
        self.values, self.degrees = values, values - int(np.count_nonzero(~held))
        self.fields = [(c, span) for c, span in controls.spans if c.has_modes]
        waves = [c.parametrization.waves for c, _ in self.fields if isinstance(c.parametrization, Modes)]
        self.largest = [max(x.max(), 1e-300) for x in waves]
        # in units of the largest one
        self.waves = [x / most for x, most in zip(waves, self.largest, strict=True)]

    def best(self) -> tuple[np.ndarray, np.ndarray]:
        """Logarithms at maximum evidence, and the weights (p,) in units of the noise."""
        noise, first = 0.5 * np.log(max(2 * self.value / self.values, np.finfo(float).tiny)), self._amplitudes()
        bounds = [tuple(noise + np.array(_NOISE)), *(tuple(a + np.array(_AMPLITUDE)) for a in first)]
        bounds += [(0.0, 3 * _MOST)] * len(first)
        starts = [np.concatenate([[noise], first, np.full(len(first), decay)]) for decay in _DECAYS]
        tries = [scipy.optimize.minimize(self._cost, x, method="L-BFGS-B", bounds=bounds) for x in starts]
        logarithms = min(tries, key=lambda t: t.fun).x
        return logarithms, self._precisions(logarithms) * np.exp(logarithms[0])

    def _amplitudes(self) -> list[float]:
        """Logarithm of a first amplitude of each field, from its coefficients after a step of each field alone."""
        felt = np.diag(self.matrix)
        at = self.theta - self.gradient / np.where(felt > 0, felt, np.inf)
        sizes = [np.sum(felt[s] * at[s] ** 2) / max(np.sum(felt[s]), np.finfo(float).tiny) for _, s in self.fields]
        return [0.5 * np.log(x) if x > 0 else 0.0 for x in sizes]

    def _precisions(self, x: np.ndarray) -> np.ndarray:
        """Reciprocal of the prior's standard deviation for every element of theta; 0 without a prior."""
        precisions, n = np.zeros(self.theta.size), len(self.fields)
        for (_, span), waves, amplitude, decay in zip(self.fields, self.waves, x[1 : n + 1], x[n + 1 :], strict=True):
            precisions[span] = np.where(waves > 0, np.exp(np.minimum(decay * waves, _MOST) - amplitude), 0.0)
        return precisions

    def _minimum(self, weights: np.ndarray) -> tuple[float, np.ndarray, float, np.ndarray]:
        """J with a prior at its minimum, the step to it, ln det A of A = J_r^T J_r + prior, and A."""
        matrix, gradient = self.matrix + np.diag(weights**2), self.gradient + weights**2 * self.theta
        size = np.sqrt(np.where(np.diag(matrix) > 0, np.diag(matrix), 1.0))
        # a little more on the diagonal, for what neither data nor prior determine
        scaled = matrix / np.outer(size, size) + 1e-13 * np.eye(size.size)
        factor = scipy.linalg.cho_factor(scaled, lower=True)
        step = -scipy.linalg.cho_solve(factor, gradient / size) / size
        value = self.value + np.sum((weights * self.theta) ** 2) / 2 + gradient @ step / 2
        return value, step, 2 * float(np.sum(np.log(np.diag(factor[0]) * size))), matrix

    def _cost(self, x: np.ndarray) -> float:
        """Minus the logarithm of the evidence, up to a constant."""
        precisions = self._precisions(x)
        try:
            value, _, determinant, _ = self._minimum(precisions * np.exp(x[0]))
        except scipy.linalg.LinAlgError:
            return 1e300
        prior = np.sum(np.log(precisions[precisions > 0]))
        return self.degrees * x[0] + max(value, 0.0) * np.exp(-2 * x[0]) + determinant / 2 - prior

    def moved(self, weights: np.ndarray) -> float:
        """Distance of the estimate from the minimum with these weights, in its standard errors."""
        _, step, _, matrix = self._minimum(weights)
        noise = 2 * self.value / max(self.values, 1)
        return float(np.sqrt(max(step @ matrix @ step, 0.0) / max(noise, np.finfo(float).tiny)))

    def in_words(self, x: np.ndarray) -> str:
        """Amplitudes, lengths and noise for given logarithms, as text."""
        n = len(self.fields)
        each = zip(self.fields, self.largest, x[1 : n + 1], x[n + 1 :], strict=True)
        parts = [
            f"{c.path} of amplitude {np.exp(a) * c.scale:.3g} and length {d / largest:.3g}"
            for (c, _), largest, a, d in each
        ]
        return f"{', '.join(parts)}, noise {np.exp(x[0]):.3g} sigma"
