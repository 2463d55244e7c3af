"""Two inverse problems with an unknown initial state, and how far an estimate of their numbers is from the truth.

Korteweg-de Vries as physics-informed networks are judged on it: 199 points at t = 0.2, 201 at t = 0.8. Fisher's front as in
`reaction/fisher_front`: all cells in 25 frames. Data are made with the system that is fitted.
"""

import dataclasses
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pdefit_reaction import FisherKPP
from small_systems import KdV, State

import pdefit

_EQUATIONS = eqx.filter_jit(lambda functional, theta: functional.normal_equations(theta)[2])


class Fine(pdefit.instruments.AbstractObservationOperator):
    """The Fourier series on a grid eight times as fine."""

    def __call__(self, t, y, args):
        u = jnp.fft.rfft(y.u)
        # the highest wave stands for two
        u = jnp.pad(u.at[-1].divide(2), (0, 3 * y.u.size + y.u.size // 2))
        return {"u": 8 * jnp.fft.irfft(u, 8 * y.u.size)}


@dataclasses.dataclass(frozen=True)
class Draw:
    """One fit to be made, and what is true: `theta` the numbers in search space, then the state; `fisher` the inverse of the
    smallest covariance that an unbiased estimate of the numbers can have, all values of the initial state being unknown."""

    functional: pdefit.Functional
    theta: np.ndarray
    start: tuple[float, float]

    @property
    def fisher(self):
        f = np.asarray(_EQUATIONS(self.functional, jnp.asarray(self.theta, jnp.float64)))
        return f[:2, :2] - f[:2, 2:] @ np.linalg.solve(f[2:, 2:], f[2:, :2])

    def error(self, theta):
        """(number) of the estimated logarithms."""
        return np.asarray(theta)[:2] - self.theta[:2]


@functools.cache
def _korteweg_de_vries():
    system = KdV(l1=jnp.asarray(1.0), l2=jnp.asarray(0.0025))
    return pdefit.simulate(system, system.init(None), np.array([0.0, 0.2, 0.8]), dt=0.0008).values["u"][1:]


def korteweg_de_vries(seed, noise=0.01):
    """l1 and l2 from 20 % off, each up or down by chance; noise relative to the standard deviation of the data.

    The guess of the initial state is the data of the first frame, linear between the points where there are none."""
    rng = np.random.default_rng(seed)
    first, last = states = np.asarray(_korteweg_de_vries())
    clean = (
        np.asarray(Fine()(0.0, State(jnp.asarray(first)), None)["u"]),
        np.asarray(Fine()(0.0, State(jnp.asarray(last)), None)["u"]),
    )
    sigma = noise * float(np.std(states))
    data = np.full((2, 512), np.nan)
    for frame, (u, count) in enumerate(zip(clean, (199, 201), strict=True)):
        at = np.sort(rng.choice(512, count, replace=False))
        data[frame, at] = u[at] + sigma * rng.normal(size=count)
    seen = np.flatnonzero(np.isfinite(data[0]))
    guess = np.interp(np.arange(64) * 8, seen, data[0, seen], period=512)
    factors = _start(rng)
    system = KdV(l1=jnp.asarray(factors[0]), l2=jnp.asarray(0.0025 * factors[1]))
    observations = pdefit.Observations.build([0.2, 0.8], {"u": data}, sigma)
    problem = pdefit.Problem(system, State(jnp.asarray(guess)), Fine())
    controls = {"l1": pdefit.transforms.Log(), "l2": pdefit.transforms.Log(), "y0": {"u": pdefit.transforms.Identity()}}
    functional = pdefit.Functional(problem, observations, controls, dt=0.0008)
    return Draw(functional, np.concatenate([[0.0, np.log(0.0025)], first]), factors)


def front(seed, noise=0.01, cells=160):
    """D and r from 20 % off, each up or down by chance; noise relative to the range of the data, which is 1. The guess of the
    initial state is the first frame."""
    grid = pdefit.CartesianGrid(shape=(cells,), extent=(80.0,), origin=(-40.0,), length_unit="mm")
    truth = FisherKPP(grid, D=jnp.asarray(1.0), r=jnp.asarray(1.0))
    y0, ts = truth.init(None), np.linspace(0.0, 6.0, 25)
    data = pdefit.add_noise(pdefit.simulate(truth, y0, ts, dt=0.08), noise, jax.random.key(seed))
    factors = _start(np.random.default_rng(seed))
    controls = {
        "D": pdefit.transforms.Log(),
        "r": pdefit.transforms.Log(),
        "y0": {"u": pdefit.Control(guess=pdefit.guesses.FromData())},
    }
    problem = pdefit.Problem(FisherKPP(grid, *map(jnp.asarray, factors)), y0)
    functional = pdefit.Functional(problem, data, controls, dt=0.08)
    return Draw(functional, np.concatenate([[0.0, 0.0], np.asarray(y0.u)]), factors)


def _start(rng):
    low, high = rng.choice([0.8, 1.2], size=2)
    return float(low), float(high)
