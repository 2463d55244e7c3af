"""Checks of the residuals' derivatives, tangents and adjoint, against central differences."""

import dataclasses
import functools
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from pdefit._util.errors import with_space
from pdefit._util.round_off import round_off
from pdefit.integrate.loop.eigenvalues import not_finite
from pdefit.inverse.certify._record import Check, over
from pdefit.inverse.certify._sketch import SKETCH, Sketch, pull_sketch, push_sketch
from pdefit.inverse.certify._taylor import Differences, differences
from pdefit.inverse.certify.direction import direction
from pdefit.inverse.fit.unstable_steps import halved
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.objective.spread import at_points
from pdefit.inverse.objective.variants import with_tangents
from pdefit.systems.time_series import kinked

# The largest relative error of a tangent against differences. More passes only where measured round-off is larger, and
# never more than COARSE.
DIFFERENCES = 1e-6
COARSE = 1e-3
# Two derivatives of one map differ by its round-off, which the way back may amplify by this. Never more is allowed.
_AMPLIFIED, MOST_AMPLIFIED = 1e3, 1e-5
# residuals so many times as large as all residuals and predictions at theta belong to a model that blows up
_FAR = 1e3
# A step of first order errs by twice its change by half the step. A random product with it is rarely three times as large.
_BY_STEPS = 6.0
# a kink is left by so large a part of a direction, as by the largest difference
_ASIDE = 2.0**-4
# the tangents of a converged step agree much better than this factor
_EXPLODES = 10.0


class Residuals:
    """The residuals of an objective near theta, sketched, and scaled so that every kind changes alike along v.

    `here` is their sketch. Where it is `finite`, `moved` is its derivative along v, or None where a reverse rule hides
    it, and `change` is the same, or about the same by a difference.

    **Arguments:**

    - `objective`: the objective.
    - `theta`: the point, (p,).
    - `v`: the direction, (p,).
    - `few`: whether few differences decide where they fit.
    """

    def __init__(self, objective: AbstractObjective, theta: Array, v: Array, few: bool):
        self.objective, self.theta, self.v, self._few = objective, theta, v, few
        self._pushed = with_tangents(objective)
        self._noise: float | None = None
        self.here, self.moved = self._push(v) or (jax.device_get(SKETCH(objective, theta)), None)
        self.finite = all(bool(np.all(np.isfinite(k))) for k in self.here.kinds)
        if self.finite:
            self.change = self.moved or self._difference(1e-4)
            self.sizes = self.change.sizes()

    def __call__(self, theta: Array | np.ndarray) -> np.ndarray:
        return SKETCH(self.objective, jnp.asarray(theta)).scaled(self.sizes)

    def each(self, points: list[Array | np.ndarray]) -> list[np.ndarray]:
        """The residuals at several points, on cores that the trajectories leave idle."""
        found = at_points(SKETCH, self.objective, [jnp.asarray(x) for x in points])
        return [one.scaled(self.sizes) for one in found]

    def noise(self) -> float:
        """The norm of the round-off of the residuals."""
        if self._noise is None:
            self._noise = round_off(self, np.asarray(self.theta), np.asarray(self.v))
        return self._noise

    def inside(self, values: np.ndarray) -> bool:
        """Test for residuals near theta of a size at which a Taylor series about theta can hold.

        All are at most 1000 times the largest residual or prediction at theta, or the change over a step of 1, which is
        1. A hard switch leads to values that the model takes elsewhere. Larger ones are those of a model that blows up.
        """
        largest = float(np.max(np.abs(values)))
        if not np.isfinite(largest):
            return False
        # predictions take a forward run, which the residuals usually save
        return largest <= _FAR * self._residual or largest <= _FAR * self._prediction

    @functools.cached_property
    def _residual(self) -> float:
        return max(1.0, float(np.max(np.abs(self.here.scaled(self.sizes)))))

    @functools.cached_property
    def _prediction(self) -> float:
        """The largest residual at theta of data that vanish."""
        zeros = jax.tree.map(jnp.zeros_like, self.objective.observations.values)
        empty = eqx.tree_at(lambda f: f.observations.values, self.objective, zeros)
        return float(np.max(np.abs(SKETCH(empty, self.theta).scaled(self.sizes))))

    def limit(self, accuracy: float) -> float:
        """The largest difference between two derivatives that passes.

        It is the accuracy of the algorithm, or what a sensitive trajectory makes of round-off where that is more.
        """
        size = self._size(self.v) if self.moved is None else _norm(self.moved.scaled(self.sizes))
        amplified = min(_AMPLIFIED * over(self.noise(), size), MOST_AMPLIFIED)
        return max(accuracy, amplified)

    def _difference(self, step: float) -> Sketch:
        """The derivative of the sketch along v, about, by a difference."""
        ahead, behind = (SKETCH(self.objective, self.theta + s * self.v) for s in (step, -step))
        return jax.tree.map(lambda a, b: (a - b) / (2 * step), ahead, behind)

    def tangent(self, v: Array) -> Sketch | None:
        """The derivative along v; None where a reverse rule hides it."""
        pair = self._push(v)
        return None if pair is None else pair[1]

    def _push(self, v: Array) -> tuple[Sketch, Sketch] | None:
        """The sketch and its derivative along v; None where a reverse rule hides it."""
        try:
            # numbers, because each operation of JAX on an own shape would be a program
            return jax.device_get(push_sketch(self._pushed, self.theta, v))
        except TypeError:
            # an adjoint, or equations, with a reverse rule of their own
            return None

    def differences(
        self, path: str, v: Array, moved: Sketch | None, pulled: tuple[np.ndarray, Array] | None = None
    ) -> Check:
        """The check of a tangent against differences along v; beside theta where an input may have a kink at theta.

        **Arguments:**

        - `path`: the control that moves, for the name of the check.
        - `v`: the direction, (p,).
        - `moved`: the tangent, or None where there is none.
        - `pulled`: random w and J_r^T w, which stand in for a tangent.
        """
        found = self._against(path, v, moved, pulled)
        series = kinked(self.objective.problem) if found.detail["finding"] == "wrong" else {}
        if not series:
            return found
        # a wrong rule is wrong beside the kink as well
        aside = self.theta + _ASIDE * direction(self.objective.controls, self.theta, jax.random.key(1))
        near = Residuals(self.objective, aside, v, self._few)
        beside = near._against(path, v, near.tangent(v)) if near.finite else found
        if beside.limit > COARSE or beside.detail["finding"] not in ("right", "kink"):
            return found
        names = ", ".join(name for name in series if f".{name}." in path) or ", ".join(series)
        note = f"right beside a kink of the input {names}, at which this point lies; method: smooth has no kinks"
        return dataclasses.replace(beside, note=note)

    def _against(
        self, path: str, v: Array, moved: Sketch | None, pulled: tuple[np.ndarray, Array] | None = None
    ) -> Check:
        """The check of `differences` at theta itself."""
        if moved is not None:
            tangent = moved.scaled(self.sizes)
            size = _norm(tangent)
            found = self._compared(v, lambda q: q - tangent, size)
            if self._noise is None:
                self._noise = found.noise
            return self._judged(f"{path}: tangent against differences", found, size, v)
        w, gradient = pulled or self.random_pull(jax.random.key(0))
        slope = float(np.vdot(gradient, v))
        found = self._compared(v, lambda q: np.atleast_1d(np.vdot(w, q) - slope), self._size(v))
        return self._judged(f"{path}: gradient against differences", found, 0.0, v)

    def _compared(self, v: Array, gap: Callable[[np.ndarray], np.ndarray], size: float) -> Differences:
        x, along = np.asarray(self.theta), np.asarray(v)
        return differences(self, x, along, gap, size, self.noise, DIFFERENCES, self.inside, self._few, self.each)

    def _size(self, v: Array) -> float:
        """About the norm of the derivative along v, by a difference."""
        return _norm((self(self.theta + 1e-5 * v) - self(self.theta - 1e-5 * v)) / 2e-5)

    def random_pull(self, key: PRNGKeyArray) -> tuple[np.ndarray, Array]:
        """A random vector w in the space of the residuals, and J_r^T w by the adjoint."""
        w = np.asarray(jax.random.normal(key, (sum(k.size for k in self.here.kinds),)))
        return w, pull_sketch(self.objective, self.theta, self.here.cotangent(w, self.sizes))

    def _judged(self, name: str, found: Differences, size: float, v: Array) -> Check:
        limit = max(DIFFERENCES, found.limit)
        detail = dataclasses.asdict(found)
        if found.finding == "unseen" or (found.limit > COARSE and found.finding == "right"):
            note = "less than round-off: the data do not see it, and neither do differences"
            return Check(name, found.constant, limit, True, _REMEDIES["wrong"], note, detail)
        if found.finding == "kink":
            note = "right between kinks (abs, max, clip), which differences cross"
            return Check(name, min(found.errors), limit, True, "", note, detail)
        if found.finding == "right":
            return Check(name, found.constant, limit, True, "", "", detail)
        remedy = self._infinite(size) or self._exploding(size, v) or _REMEDIES[found.finding]
        if found.finding == "switch":
            note = "errors jump from step to step"
            return Check(name, max(found.errors), DIFFERENCES, False, remedy, note, detail)
        return Check(name, found.constant, limit, False, remedy, "", detail)

    def _infinite(self, size: float) -> str | None:
        """A sentence that names the cause of a tangent that is not finite; None if it is finite."""
        if np.isfinite(size):
            return None
        problems = (part.at(theta) for part, theta in self.objective.parts(self.theta))
        causes = (not_finite(problem.system, problem.y0, problem.args) for problem in problems)
        return next(
            filter(None, causes), "it is not finite: pdefit.doctor(J, theta) names the time, the field and the line"
        )

    def _exploding(self, size: float, v: Array) -> str | None:
        """A sentence that names dt, where half the step makes the tangent much smaller; None otherwise.

        No switch does so.
        """
        part, unit = self.objective, with_space(self.objective.problem.system.time_unit)
        # the remedy names dt, which adaptive steps do not have
        if part.steps is not None or size == 0:
            return None
        times = over(size, _norm(self._at_half_the_step(v)))
        if np.isfinite(times) and times < _EXPLODES:
            return None
        return (
            f"the tangent is {times:.0e} times that of half the step: dt = {part.dt:.3g}{unit} is too large for the "
            f"linearised equations, though the forward run survives it; set dt={part.dt / 2:.2g} or less"
        )

    def of_steps(self, v: Array, tangent: Sketch) -> float:
        """The largest relative error of a product with the tangent that the steps of the trajectory explain.

        A continuous adjoint is right but for their error, which half the step measures. A discrete one has none.
        """
        if not self.objective.runner.adjoint.other_steps:
            return 0.0
        whole = tangent.scaled(self.sizes)
        return min(_BY_STEPS * over(_norm(whole - self._at_half_the_step(v)), _norm(whole)), COARSE)

    def _at_half_the_step(self, v: Array) -> np.ndarray:
        """The scaled tangent along v of the objective with half the steps."""
        finer, theta = self.objective.each(halved, self.theta)
        return push_sketch(with_tangents(finer), theta, v)[1].scaled(self.sizes)


def _norm(x: np.ndarray) -> float:
    return float(np.linalg.norm(x))


_REMEDIES = {
    "wrong": (
        "the derivative is wrong at every step: a stop_gradient, a round or a custom derivative rule in the equations hides "
        "part of it, or a hard switch acts all along the trajectory; correct the derivative, or use a smooth switch"
    ),
    "switch": (
        "a hard switch (a comparison, where, round, floor) in the equations makes the trajectory jump, which no derivative "
        "sees; use a smooth switch, or smooth_tangents=true where the system has a smooth twin"
    ),
}
