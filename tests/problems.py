"""Small problems that the tests of this folder share."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pdefit_particles import Gravity
from pdefit_reaction import FisherKPP
from small_systems import Decay, Lines

import pdefit

VALUE = eqx.filter_jit(lambda objective, theta: objective.value(theta))
GRID = pdefit.CartesianGrid(shape=(64,), extent=(40.0,), origin=(-20.0,), length_unit="mm")


def fisher(D=1.0, r=1.0):
    return FisherKPP(grid=GRID, D=jnp.asarray(D), r=jnp.asarray(r), front=-5.0)


def fisher_functional(controls=None, noise=0.0, count=9, times=None, guess=(0.6, 1.5), **options):
    """D and r of a moving front from a wrong guess."""
    truth = fisher()
    y0, ts = truth.init(None), np.linspace(0.0, 4.0, count) if times is None else np.asarray(times)
    options = {"dt": 0.05, **options}
    data = pdefit.add_noise(pdefit.simulate(truth, y0, ts, dt=0.05), noise, jax.random.key(1))
    problem = pdefit.Problem(fisher(*guess), y0)
    return pdefit.Functional(
        problem, data, controls or {"D": pdefit.transforms.Log(), "r": pdefit.transforms.Log()}, **options
    )


def planets():
    """A sun with two planets in the plane, and a record of it."""
    gm = np.array([1.0, 1e-3, 3e-3])
    position = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.8]])
    velocity = np.array([[0.0, 0.0], [0.0, 1.0], [-0.75, 0.0]])
    system = Gravity(gm=gm, names=("sun", "inner", "outer"), position=position, velocity=velocity, length_unit="1")
    return system, pdefit.simulate(system, system.init(None), np.linspace(0.0, 6.0, 25), dt=0.02)


MASSES = pdefit.Control(pdefit.transforms.Log(), pdefit.guesses.Perturb(0.5, 3.0))


def planets_functional(controls=None, length=1.5, data=None, continuity=1e-6, **options):
    """The masses, from positions, by multiple shooting."""
    system, record = planets()
    data = record if data is None else data
    problem = pdefit.Problem(system, system.init(None), pdefit.instruments.Select("position"))
    return pdefit.Functional(
        problem,
        data,
        controls or {"gm": MASSES},
        formulation=pdefit.formulations.Segments(length, continuity),
        **{"dt": 0.02, **options},
    )


def positions_functional(sigma=1e-6, noise=None, controls=None, **options):
    """The masses and the velocities at the starts of all segments, from positions alone."""
    system, data = planets()
    seen = np.asarray(data.values["position"])
    if noise is not None:
        seen = seen + sigma * noise.normal(size=seen.shape)
    data = pdefit.Observations.build(data.ts, {"position": seen}, sigma)
    return planets_functional(
        controls=controls or {"gm": MASSES, "nodes": {"velocity": pdefit.transforms.Identity()}}, data=data, **options
    )


def central_difference(functional, theta, v, eps):
    """dJ along v by central differences of fourth order."""
    near = VALUE(functional, theta + eps * v) - VALUE(functional, theta - eps * v)
    far = VALUE(functional, theta + 2 * eps * v) - VALUE(functional, theta - 2 * eps * v)
    return float(8 * near - far) / (12 * eps)


def stable(system):
    """The stable step of a system at its own initial state."""
    return system.stable_step(system.init(None))


def observed(operator, y):
    """What an observation operator sees of a state, by one program."""
    return jax.jit(lambda y: operator(0.0, y, None))(y)


def lines(ts, seed=0, controls=None, sigma=(1.0, 1.0), instrument=None):
    """Two noisy lines that share their curvature, and the designs of u and v: columns of a, b and c, (T, 3)."""
    ts, random = np.asarray(ts, float), np.random.default_rng(seed)
    square, none = ts**2 / 2, np.zeros(ts.size)
    designs = np.stack([ts, none, square], 1), np.stack([none, ts, square], 1)
    values = {n: x @ [1.0, 2.0, 3.0] + random.standard_normal(ts.size) for n, x in zip("uv", designs, strict=True)}
    data = pdefit.Observations.build(ts, values, dict(zip("uv", sigma, strict=True)))
    system = Lines(a=jnp.asarray(0.5), b=jnp.asarray(2.5), c=jnp.asarray(3.1))
    problem = pdefit.Problem(system, system.init(None), instrument)
    plain = dict.fromkeys("abc", pdefit.transforms.Identity())
    return pdefit.Functional(problem, data, controls or plain, dt=0.25), designs


def decays(count=5, frames=6, sigma=0.01, noise=0.0, controls=None, start=1.0, **options):
    """Records of decay at different rates, each with its rate and its first value unknown."""
    random, ts, found = np.random.default_rng(0), np.linspace(0.0, 1.0, frames), []
    for rate in np.linspace(0.5, 2.0, count):
        values = np.exp(-rate * ts)[:, None] * Decay.start * (1 + noise * random.standard_normal((frames, 3)))
        data = pdefit.Observations.build(ts, {"u": values}, sigma)
        system = Decay(k=jnp.asarray(start))
        problem = pdefit.Problem(system, system.init(None))
        options = options or {"dt": 0.02}
        found.append(pdefit.Functional(problem, data, controls or {"k": pdefit.transforms.Log()}, **options))
    return found
