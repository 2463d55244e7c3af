"""Residuals near a point, sketched and scaled, with their tangents, adjoint and round-off."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from pdefit._util.round_off import round_off
from pdefit.inverse.certify._by_jacobian import ByJacobian
from pdefit.inverse.certify._record import over
from pdefit.inverse.certify._sketch import Sketch, Sketched, pull_sketch
from pdefit.inverse.objective.abstract import AbstractObjective

# Two derivatives of one map differ by its round-off, which the way back may amplify by this. Never more is allowed.
_AMPLIFIED, MOST_AMPLIFIED = 1e3, 1e-5
# residuals so many times as large as all residuals and predictions at theta belong to a model that blows up
_FAR = 1e3


class Residuals:
    """Residuals of an objective near theta, sketched, and scaled so that every kind changes by a similar amount along v.

    `here` is their sketch. If it is `finite`, `moved` is its derivative along v (None if a reverse rule hides it), and
    `change` is the same, or an approximation by a difference.

    **Arguments:**

    - `objective`: the objective.
    - `theta`: the point, (p,).
    - `v`: the direction, (p,).
    - `few`: whether few differences decide if they fit.
    - `source`: evaluates the sketches.

    If differences measure the round-off, they set `measured_noise`.
    """

    def __init__(self, objective: AbstractObjective, theta: Array, v: Array, few: bool, source: Sketched | ByJacobian):
        self.objective, self.theta, self.v, self.few, self.source = objective, theta, v, few, source
        self.measured_noise: float | None = None
        self.here, self.moved = self._push(v) or (source.at(objective, theta), None)
        self.finite = all(bool(np.all(np.isfinite(k))) for k in self.here.kinds)
        if self.finite:
            self.change = self.moved or self._difference(1e-4)
            self.sizes = self.change.sizes()
            self._largest = max(1.0, float(np.max(np.abs(self.here.scaled(self.sizes)))))

    def __call__(self, theta: Array | np.ndarray) -> np.ndarray:
        return self.source.at(self.objective, jax.device_put(theta)).scaled(self.sizes)

    def each(self, points: list[Array | np.ndarray]) -> list[np.ndarray]:
        """Residuals at several points, on cores that trajectories leave idle."""
        found = self.source.each(self.objective, [jax.device_put(x) for x in points])
        return [one.scaled(self.sizes) for one in found]

    def noise(self) -> float:
        """Norm of the round-off of the residuals."""
        if self.measured_noise is None:
            self.measured_noise = round_off(self, np.asarray(self.theta), np.asarray(self.v))
        return self.measured_noise

    def inside(self, values: np.ndarray) -> bool:
        """True if residuals near theta are small enough for a Taylor series about theta.

        The bound is 1000 times the largest residual or prediction at theta, or times the change over a step of 1, which
        is 1. Hard switches stay below it, since they lead to ordinary values of the model. A model that blows up does
        not.
        """
        largest = float(np.max(np.abs(values)))
        if not np.isfinite(largest):
            return False
        # predictions take a forward run, which the residuals usually save
        return largest <= _FAR * self._largest or largest <= _FAR * self._prediction

    @functools.cached_property
    def _prediction(self) -> float:
        """Largest residual at theta for zero data."""
        zeros = jax.tree.map(jnp.zeros_like, self.objective.observations.values)
        empty = eqx.tree_at(lambda f: f.observations.values, self.objective, zeros)
        return float(np.max(np.abs(self.source.at(empty, self.theta).scaled(self.sizes))))

    def limit(self, accuracy: float) -> float:
        """Largest accepted difference between two derivatives.

        It is the accuracy of the algorithm, or round-off amplified by a sensitive trajectory, if that is larger.
        """
        size = self.size(self.v) if self.moved is None else norm(self.moved.scaled(self.sizes))
        amplified = min(_AMPLIFIED * over(self.noise(), size), MOST_AMPLIFIED)
        return max(accuracy, amplified)

    def _difference(self, step: float) -> Sketch:
        """Approximate derivative of the sketch along v, by a difference."""
        ahead, behind = (self.source.at(self.objective, self.theta + s * self.v) for s in (step, -step))
        return jax.tree.map(lambda a, b: (a - b) / (2 * step), ahead, behind)

    def tangent(self, v: Array) -> Sketch | None:
        """Derivative along v; None if a reverse rule hides it."""
        pair = self._push(v)
        return None if pair is None else pair[1]

    def _push(self, v: Array) -> tuple[Sketch, Sketch] | None:
        """Sketch and its derivative along v; None if a reverse rule hides it."""
        return self.source.push(self.objective, self.theta, v)

    def size(self, v: Array) -> float:
        """Approximate norm of the derivative along v, by a difference."""
        return norm((self(self.theta + 1e-5 * v) - self(self.theta - 1e-5 * v)) / 2e-5)

    def random_pull(self, key: PRNGKeyArray) -> tuple[np.ndarray, Array]:
        """A random vector w in the space of the residuals, and J_r^T w by the adjoint."""
        w = np.asarray(jax.random.normal(key, (sum(k.size for k in self.here.kinds),)))
        return w, pull_sketch(self.objective, self.theta, self.here.cotangent(w, self.sizes))


def norm(x: np.ndarray) -> float:
    return float(np.linalg.norm(x))
