"""Hard switches of every size, and how far each moves an estimate; kinks beside them, whose derivatives are right.

A switch is a jump of a right-hand side. No derivative of the equations sees that the time of a crossing moves with the
parameters.
`shift` says what the missing derivative does to a fit, in halves of its 95 % intervals.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from zoo.equations import Flow, State, neighbours

import pdefit

SIGMA = 0.05
LOG = pdefit.transforms.Log()
X = np.linspace(0.0, 20.0, 40, endpoint=False)
BUMP = 1 / (1 + np.exp(2 * (np.abs(X - 10.0) - 2.0)))


def above(u, threshold):
    return jnp.where(u > threshold, 1.0, 0.0)


# --- switches: a and b are estimated, c is the size ----------------------------------------------------------------------


def relay(t, u, p, args):
    """Forty cells, each of which crosses once."""
    return p[0] * (1 + p[2] * above(u, 1.0)) + 0.3 * p[1] * jnp.sin(u)


def spring(t, u, p, args):
    """A force that jumps at a place: few crossings."""
    x, v = u
    return jnp.stack([v, -p[0] * x - 0.1 * p[1] * v + p[2] * above(x, 0.5)])


def friction(t, u, p, args):
    """A force that turns with the velocity."""
    x, v = u
    return jnp.stack([v, -p[0] * x - 0.05 * p[1] * v - 0.1 * p[2] * jnp.sign(v)])


def front(t, u, p, args):
    """Growth that jumps at a density: a front that carries its switch along."""
    return p[0] * neighbours(u, 20.0)[1] + p[1] * u * (1 - u) * (1 + p[2] * above(u, 0.3))


def gate(t, u, p, args):
    """A rate that jumps with the voltage, as in models of heart cells."""
    v, w = u
    return jnp.stack([v - v**3 / 3 - w + 0.5 * p[1], 0.1 * p[0] * (1 + p[2] * above(v, 0.0)) * (v + 0.7 - 0.8 * w)])


def threshold(t, u, p, args):
    """A threshold that is estimated."""
    return p[0] * (1 - 0.5 * p[2] * above(u, p[1])) + 0.3 * jnp.sin(p[1] * u)


def clock(t, u, p, args):
    """A time of switching that is estimated: one crossing."""
    return -p[0] * u + jnp.cos(p[1] * t) + p[2] * above(t, 2 * p[1])


def stairs(t, u, p, args):
    """A rounded value: crossings everywhere."""
    return p[0] - p[1] * ((1 - p[2]) * u + p[2] * jnp.round(4 * u) / 4)


# --- kinks: the same with what is continuous -----------------------------------------------------------------------------


def relu(t, u, p, args):
    return p[0] + p[2] * jnp.maximum(u - 1.0, 0.0) + 0.3 * p[1] * jnp.sin(u)


def absolute(t, u, p, args):
    x, v = u
    return jnp.stack([v, -p[0] * x - 0.1 * p[1] * v - p[2] * x * jnp.abs(x)])


def clipped(t, u, p, args):
    return p[0] * neighbours(u, 20.0)[1] + p[1] * u * (1 - u) * (1 + p[2] * jnp.clip(u, 0.2, 0.6))


def spring_kink(t, u, p, args):
    x, v = u
    return jnp.stack([v, -p[0] * x - 0.1 * p[1] * v + p[2] * jnp.maximum(x - 0.5, 0.0)])


MANY = np.linspace(0.0, 0.9, 40)
ONE = np.array([1.0, 0.0])


@dataclasses.dataclass(frozen=True)
class Kind:
    """A right-hand side with where it starts and for how long it runs; `sizes` from which c is taken."""

    rate: Callable
    u0: Any
    stop: float
    sizes: tuple[float, float]
    dt: float = 0.02
    frames: int = 21

    def draw(self, size: float, seed: int, wrong: float = 0.0, off: float = 0.1) -> pdefit.Functional:
        """The fit of a and b: data of the same equations with noise and, where the equations are `wrong`, so many sigma of a
        smooth error; a guess off by `off`."""
        rng = np.random.default_rng(seed)
        a, b = np.exp(0.1 * rng.normal(size=2))
        y0, ts = State(jnp.asarray(self.u0)), np.linspace(0.0, self.stop, self.frames)
        data = pdefit.simulate(Flow(self.rate, a, b, size), y0, ts, dt=self.dt)
        values = np.asarray(data.values["u"])
        phase = np.arange(values[0].size).reshape(values[0].shape)
        smooth = np.cos(3 * ts / self.stop).reshape(-1, *(1,) * phase.ndim) * np.cos(0.3 * phase)
        values = values + SIGMA * (rng.normal(size=values.shape) + wrong * smooth)
        guess = (x * np.exp(off * rng.choice([-1.0, 1.0]) * (0.5 + rng.random())) for x in (a, b))
        problem = pdefit.Problem(Flow(self.rate, *guess, size), y0)
        data = pdefit.Observations.build(ts, {"u": values}, SIGMA)
        return pdefit.Functional(problem, data, {"a": LOG, "b": LOG}, dt=self.dt)


SWITCHES: dict[str, Kind] = {
    "relay": Kind(relay, MANY, 1.5, (5e-2, 2.0)),
    "spring": Kind(spring, ONE, 10.0, (5e-2, 0.65)),
    "friction": Kind(friction, ONE, 10.0, (3e-1, 3.0)),
    "front": Kind(front, BUMP, 3.0, (5e-2, 2.0)),
    "gate": Kind(gate, np.array([-1.0, 1.0]), 40.0, (5e-1, 8.0), dt=0.05),
    "threshold": Kind(threshold, MANY, 1.5, (2e-2, 1.0)),
    "clock": Kind(clock, np.array([0.0, 1.0, 2.0]), 4.0, (5e-2, 1.0)),
    "stairs": Kind(stairs, np.linspace(0.0, 2.0, 12), 3.0, (2e-2, 1.0)),
}
KINKS: dict[str, Kind] = {
    "relu": Kind(relu, MANY, 1.5, (1e-2, 1.0)),
    "absolute": Kind(absolute, ONE, 10.0, (1e-2, 1.0)),
    "clipped": Kind(clipped, BUMP, 3.0, (1e-2, 1.0)),
    "spring_kink": Kind(spring_kink, ONE, 10.0, (1e-2, 1.0)),
}


class Moved(NamedTuple):
    """The minimum of J by differences, by how many half intervals the gradient's root is away from it, and whether the minimum
    was found."""

    theta: jax.Array
    shift: float
    found: bool


def moved(functional: pdefit.Functional, residuals: Callable, jacobian: Callable) -> Moved:
    """How far the missing derivative moves an estimate: Gauss-Newton by differences over standard errors, in which crossings
    average out, finds the minimum; there -(J^T J)^-1 of the gradient that the equations' derivative gives is the shift."""
    theta, p = np.asarray(functional.theta0), functional.controls.size
    deviation, found = np.full(p, 1e-2), False
    for _ in range(12):
        r, slope = np.asarray(residuals(functional, jnp.asarray(theta))), []
        for k in range(p):
            quotients = []
            for part in (0.5, 1.0):
                e = np.eye(p)[k] * deviation[k] * part
                up, down = (np.asarray(residuals(functional, jnp.asarray(theta + s * e))) for s in (1, -1))
                quotients.append((up - down) / (2 * part * deviation[k]))
            slope.append(np.mean(quotients, axis=0))
        jac = np.stack(slope, axis=1)
        covariance = np.linalg.inv(jac.T @ jac)
        step = -covariance @ jac.T @ r
        deviation = np.clip(np.sqrt(np.diag(covariance)), 1e-6, 0.1)
        theta = theta + np.clip(step, -0.2, 0.2)
        found = bool(np.all(np.abs(step) < 0.5 * deviation) and np.all(deviation < 0.1))
        if found and np.all(np.abs(step) < 0.05 * deviation):
            break
    r = np.asarray(residuals(functional, jnp.asarray(theta)))
    wrong = np.asarray(jacobian(functional, jnp.asarray(theta)))
    shift = covariance @ ((wrong - jac).T @ r)
    return Moved(jnp.asarray(theta), float(np.max(np.abs(shift) / (1.96 * np.sqrt(np.diag(covariance))))), found)
