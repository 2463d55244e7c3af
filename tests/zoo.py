"""Thirty-seven small smooth systems, each with a fit of its own, on which the certificate must not raise a false alarm.

A system is one line of physics: `rate(t, u, p, args)` of its state u and its parameters p. `CASES[name].draw(seed, off)`
makes data from parameters that the seed draws, and a functional that starts from others. Only arrays change from seed to
seed, so that the programs of a case are compiled once.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pdefit_cardiac import BOCF, EPI, AlievPanfilov
from pdefit_cardiac.parameter_sets import ALIEV_PANFILOV
from pdefit_particles import Gravity
from pdefit_reaction import FisherKPP

import pdefit


class State(NamedTuple):
    u: jax.Array


class Flow(pdefit.AbstractSystem):
    """u' = rate(t, u, (a, b, c), args)."""

    time_unit: ClassVar[str] = "1"
    rate: Callable = eqx.field(static=True)
    a: Any = pdefit.parameter(default=1.0)
    b: Any = pdefit.parameter(default=1.0)
    c: Any = pdefit.parameter(default=1.0)

    def vector_field(self, t, y, args):
        return State(self.rate(t, y.u, (self.a, self.b, self.c), args))

    def init(self, key):
        raise NotImplementedError


class SplitFlow(Flow, pdefit.capabilities.AbstractSplit):
    """u' = rate(t, u, p, args) + L u on a periodic line of the given length, with L = symbol(k, p) in Fourier space."""

    symbol: Callable = eqx.field(static=True, default=None)
    length: float = eqx.field(static=True, default=1.0)

    def _symbol(self, n):
        return self.symbol(2 * np.pi / self.length * np.arange(n // 2 + 1), (self.a, self.b, self.c))

    def vector_field(self, t, y, args):
        return jax.tree.map(jnp.add, self.explicit(t, y, args), self.linear(y))

    def explicit(self, t, y, args):
        return State(self.rate(t, y.u, (self.a, self.b, self.c), args))

    def linear(self, y):
        n = y.u.size
        return State(jnp.fft.irfft(self._symbol(n) * jnp.fft.rfft(y.u), n))

    def linear_solve(self, y, h):
        n = y.u.size
        return State(jnp.fft.irfft(jnp.fft.rfft(y.u) / (1 - h * self._symbol(n)), n))


class Drive(eqx.Module):
    """strength cos(rate t)."""

    strength: jax.Array = eqx.field(converter=lambda x: jnp.asarray(x, float))
    rate: jax.Array = eqx.field(converter=lambda x: jnp.asarray(x, float))

    def __call__(self, t):
        return self.strength * jnp.cos(self.rate * t)


# --- rates of change -----------------------------------------------------------------------------------------------------


def lorenz(t, u, p, args):
    x, y, z = u
    return jnp.stack([p[0] * (y - x), x * (p[1] - z) - y, x * y - p[2] * z])


def lorenz96(t, u, p, args):
    return (p[1] * jnp.roll(u, -1) - jnp.roll(u, 2)) * jnp.roll(u, 1) - u + p[0]


def roessler(t, u, p, args):
    x, y, z = u
    return jnp.stack([-y - z, x + p[0] * y, p[1] + z * (x - p[2])])


def van_der_pol(t, u, p, args):
    x, v = u
    return jnp.stack([v, p[0] * (1 - x**2) * v - p[1] * x])


def duffing(t, u, p, args):
    x, v = u
    return jnp.stack([v, -p[0] * v - p[1] * x - p[2] * x**3 + args(t)])


def pendulum(t, u, p, args):
    x, v = u
    return jnp.stack([v, -p[0] * jnp.sin(x) - p[1] * v])


def double_pendulum(t, u, p, args):
    one, two, v, w = u
    d, (g, mass, _) = one - two, p
    below = 2 * mass + 1 - jnp.cos(2 * d)
    first = -g * (2 * mass + 1) * jnp.sin(one) - g * jnp.sin(one - 2 * two)
    first = first - 2 * jnp.sin(d) * (w**2 + v**2 * jnp.cos(d))
    second = 2 * jnp.sin(d) * (v**2 * (mass + 1) + g * (mass + 1) * jnp.cos(one) + w**2 * jnp.cos(d))
    return jnp.stack([v, w, first / below, second / below])


def lotka_volterra(t, u, p, args):
    x, y = u
    return jnp.stack([x * (p[0] - p[1] * y), y * (p[1] * x - p[2])])


def fitzhugh_nagumo(t, u, p, args):
    v, w = u
    return jnp.stack([v - v**3 / 3 - w + 0.5, p[0] * (v + p[1] - p[2] * w)])


def morris_lecar(t, u, p, args):
    v, w = u
    m, rest = 0.5 * (1 + jnp.tanh((v + 0.01) / 0.15)), 0.5 * (1 + jnp.tanh((v - 0.1) / 0.145))
    dv = 0.4 - p[0] * m * (v - 1) - p[1] * w * (v + 0.7) - 0.5 * (v + 0.5)
    return jnp.stack([dv, p[2] * (rest - w) * jnp.cosh((v - 0.1) / 0.29)])


def brusselator(t, u, p, args):
    x, y = u
    return jnp.stack([p[0] + x**2 * y - (p[1] + 1) * x, p[1] * x - x**2 * y])


def oregonator(t, u, p, args):
    x, y, z = u
    return jnp.stack([p[0] * (y + x * (1 - 8.375e-6 * x - y)), (z - (1 + x) * y) / p[0], p[1] * (x - z)])


def robertson(t, u, p, args):
    x, y, z = u
    slow, fast, fastest = p[0] * x, 1e4 * p[1] * y * z, 3e7 * p[2] * y**2
    return jnp.stack([fast - slow, slow - fast - fastest, fastest])


NATURAL = np.linspace(-1.0, 1.5, 8)


def kuramoto(t, u, p, args):
    pulls = jnp.sin(u[None, :] - u[:, None] - p[2])
    return p[1] * jnp.asarray(NATURAL, u.dtype) + p[0] * jnp.mean(pulls, axis=1)


def wave_numbers(n, length):
    return 2 * np.pi / length * np.arange(n // 2 + 1)


def spectral(u, length, order):
    return jnp.fft.irfft((1j * wave_numbers(u.size, length)) ** order * jnp.fft.rfft(u), u.size)


def kdv(t, u, p, args):
    return -p[0] * u * spectral(u, 20.0, 1) - p[1] * spectral(u, 20.0, 3)


def neighbours(u, length):
    h = length / u.size
    left, right = jnp.roll(u, 1), jnp.roll(u, -1)
    return (right - left) / (2 * h), (right - 2 * u + left) / h**2


def burgers(t, u, p, args):
    slope, bend = neighbours(u, 1.0)
    return -p[0] * u * slope + p[1] * bend


def kuramoto_sivashinsky(t, u, p, args):
    return -p[0] * 0.5 * spectral(u**2, 22.0, 1)


def swift_hohenberg(t, u, p, args):
    return p[1] * u**2 - u**3


def allen_cahn(t, u, p, args):
    return p[1] * (u - u**3)


def gray_scott(t, u, p, args):
    x, y = u
    eaten = x * y**2
    return jnp.stack(
        [
            2e-2 * neighbours(x, 4.0)[1] - eaten + p[0] * (1 - x),
            1e-2 * neighbours(y, 4.0)[1] + eaten - (p[0] + p[1]) * y,
        ]
    )


def schroedinger(t, u, p, args):
    x, y = u
    dense = p[0] * (x**2 + y**2)
    lap = [neighbours(z, 16.0)[1] for z in u]
    return jnp.stack([-p[1] * lap[1] - dense * y, p[1] * lap[0] + dense * x])


def toda(t, u, p, args):
    x, v = u
    pull = jnp.exp(-p[0] * (x - jnp.roll(x, 1))) - jnp.exp(-p[0] * (jnp.roll(x, -1) - x))
    return jnp.stack([v, p[1] * pull])


def fermi_pasta_ulam(t, u, p, args):
    x, v = u
    d = jnp.roll(x, -1) - x
    force = p[2] * d + p[0] * d**2 + p[1] * d**3
    return jnp.stack([v, force - jnp.roll(force, 1)])


def lennard_jones(t, u, p, args):
    x, v = u
    apart = x[:, None] - x[None, :]
    squared = jnp.sum(apart**2, axis=-1)
    inverse = p[1] ** 2 / jnp.where(squared > 0, squared, 1e9)
    force = jnp.sum((p[0] * (48 * inverse**7 - 24 * inverse**4))[..., None] * apart, axis=1)
    return jnp.stack([v, force])


def logistic(t, u, p, args):
    return p[0] * u * (1 - u / p[1])


def epidemic(t, u, p, args):
    s, i, r = u
    return jnp.stack([-p[0] * s * i + p[2] * r, p[0] * s * i - p[1] * i, p[1] * i - p[2] * r])


def network(t, u, p, args):
    return p[0](u) - p[1] * u


def chua(t, u, p, args):
    x, y, z = u
    return jnp.stack([p[0] * (y - x + 7 / 6 * x - x**3 / 16), x - y + z, -p[1] * y])


# --- fits of them --------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Case:
    """A fit: `build` makes the problem at parameters, or (`make`) a flow of a rate is the problem.

    `at` are the nominal values of parameters a, b, c (None: a parameter of the class by name), `free` those that are estimated;
    `spread` how far a guess is drawn from the truth.
    """

    rate: Callable | None
    at: tuple[Any, ...]
    u0: Any
    ts: np.ndarray
    dt: float
    free: dict[str, Any] = dataclasses.field(
        default_factory=lambda: {"a": pdefit.transforms.Log(), "b": pdefit.transforms.Log()}
    )
    spread: float = 0.2
    noise: float = 0.01
    solver: Any = None
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    args: Any = None
    observe: Any = pdefit.instruments.ObserveAll()  # noqa: RUF009
    symbol: Callable | None = None
    length: float = 1.0
    recordings: int = 1
    driver: Any = None
    # of a plugin: from parameters by name to a system, in place of a flow
    system: Callable | None = None

    def _system(self, values: dict[str, Any]) -> Any:
        if self.system is not None:
            return self.system(**values)
        if self.symbol is not None:
            return SplitFlow(self.rate, **values, symbol=self.symbol, length=self.length)
        return Flow(self.rate, **values)

    @property
    def _names(self) -> tuple[str, ...]:
        if self.system is None:
            return ("a", "b", "c")[: len(self.at)]
        return tuple(n for n in self.free if n not in ("y0", "nodes", "args"))

    def _one(self, rng: np.random.Generator, values: dict[str, Any], guess: dict[str, Any], key: Any) -> Any:
        truth, wrong = self._system(values), self._system(guess)
        y0 = truth.init(None) if self.u0 is None else State(jnp.asarray(self.u0))
        factor = 1 + 0.02 * rng.normal()
        # fields of a plugin keep their meaning; numbers move a little
        y0 = y0 if self.u0 is None else jax.tree.map(lambda x: factor * x, y0)
        solver = {} if self.solver is None else {"solver": self.solver}
        steps = {} if "steps" in self.options else {"dt": self.dt}
        data = pdefit.simulate(truth, y0, self.ts, dt=self.dt, observe=self.observe, args=self.args, **solver)
        data = pdefit.add_noise(data, self.noise, key)
        problem = pdefit.Problem(wrong, y0, self.observe, args=self.args)
        return pdefit.Functional(problem, data, self.free, **steps, **solver, **self.options)

    def draw(self, seed: int, off: float = 1.0) -> Any:
        """The objective of a seed: data of drawn parameters, and a guess off by `spread`, or this part of it."""
        rng = np.random.default_rng(seed)
        values, guess = {}, {}
        for name, value in zip(self._names, self.at, strict=True):
            values[name] = _moved(value, 0.1 * self.spread * rng.normal(), rng)
            guess[name] = _moved(values[name], off * self.spread * rng.normal(), rng)
            if name not in self.free:
                guess[name] = values[name]
        parts = [self._one(rng, values, guess, jax.random.key(97 * seed + k)) for k in range(self.recordings)]
        return parts[0] if self.recordings == 1 else pdefit.Recordings(parts)


def _moved(value: Any, by: float, rng: np.random.Generator) -> Any:
    """A number times e^by; the weights of a network with as much noise."""
    if not isinstance(value, eqx.Module):
        return value * np.exp(by)
    arrays, rest = eqx.partition(value, eqx.is_inexact_array)
    moved = jax.tree.map(lambda x: x * (1 + by * jnp.asarray(rng.normal(size=x.shape))), arrays)
    return eqx.combine(moved, rest)


def line(n: int, length: float) -> np.ndarray:
    return np.arange(n) * length / n


def two(n: int = 33, stop: float = 4.0) -> np.ndarray:
    return np.linspace(0.0, stop, n)


LOG = pdefit.transforms.Log()
FREE_3 = {"a": LOG, "b": LOG, "c": LOG}
X32 = line(32, 2 * np.pi)
SOLITON = 2.0 / np.cosh(line(64, 20.0) - 7.0) ** 2
PACKET = np.stack([np.cos(line(32, 16.0) * np.pi / 4), np.sin(line(32, 16.0) * np.pi / 4)]) / np.cosh(
    line(32, 16.0) - 8
)
BODIES = np.array(
    [[[0.0, 0.0], [1.15, 0.1], [0.5, 1.1], [1.7, 1.05]], [[0.1, 0.0], [-0.2, 0.3], [0.0, -0.3], [0.1, 0.0]]]
)
THREE = {
    "names": ("one", "two", "three"),
    # a light body falls past a heavy one at a twentieth of their first distance
    "position": [[0.0, 0.0], [1.0, 0.0], [-0.9, 2.0]],
    "velocity": [[0.0, 0.0], [0.0, 0.3], [0.4, 0.0]],
    "length_unit": "1",
}
CABLE = pdefit.CartesianGrid(shape=(24,), extent=(0.6,), length_unit="cm")
FRONT = pdefit.CartesianGrid(shape=(48,), extent=(40.0,), origin=(-20.0,))
SIR = np.array([0.98, 0.02, 0.0])
KVAERNO = diffrax.Kvaerno3()
MLP = eqx.nn.MLP(2, 2, 6, 1, activation=jnp.tanh, key=jax.random.key(5))
SEGMENTS = {"formulation": pdefit.formulations.Segments(0.5)}


def patterns(k, p):
    return p[0] - (1 - k**2) ** 2


CASES: dict[str, Case] = {
    "lorenz": Case(lorenz, (10.0, 28.0, 8 / 3), [1.0, 1.0, 20.0], two(41, 2.0), 0.01, FREE_3),
    "lorenz_long": Case(lorenz, (10.0, 28.0, 8 / 3), [1.0, 1.0, 20.0], two(81, 8.0), 0.01, spread=0.02),
    "lorenz_segments": Case(
        lorenz, (10.0, 28.0, 8 / 3), [1.0, 1.0, 20.0], two(41, 4.0), 0.01, FREE_3, options=SEGMENTS
    ),
    "lorenz96": Case(lorenz96, (8.0, 1.0), 1 + np.sin(np.arange(12.0)), two(41, 3.0), 0.02),
    "roessler": Case(roessler, (0.2, 0.2, 5.7), [1.0, 2.0, 0.1], two(41, 20.0), 0.05, FREE_3, spread=0.1),
    "chua": Case(chua, (10.0, 14.87), [0.4, -0.1, 0.2], two(41, 10.0), 0.02, spread=0.05),
    "van_der_pol": Case(van_der_pol, (1.0, 1.0), [2.0, 0.0], two(41, 20.0), 0.05),
    "van_der_pol_stiff": Case(van_der_pol, (10.0, 1.0), [2.0, 0.0], two(33, 20.0), 0.02, solver=KVAERNO, spread=0.1),
    "duffing": Case(
        duffing,
        (0.2, 0.5, 1.0),
        [1.0, 0.0],
        two(41, 20.0),
        0.05,
        {"a": LOG, "c": LOG, "args": {"strength": LOG, "rate": pdefit.transforms.Identity()}},
        args=Drive(0.4, 1.2),
        spread=0.1,
    ),
    "pendulum": Case(
        pendulum,
        (1.0, 0.05),
        [2.5, 0.0],
        two(41, 20.0),
        0.05,
        {"a": LOG, "b": LOG, "y0": {"u": pdefit.transforms.Identity()}},
    ),
    "double_pendulum": Case(double_pendulum, (9.8, 1.5), [2.0, 2.2, 0.0, 0.0], two(33, 3.0), 0.01, spread=0.05),
    "lotka_volterra": Case(lotka_volterra, (1.0, 0.5, 1.2), [1.0, 2.0], two(41, 15.0), 0.05, FREE_3),
    "fitzhugh_nagumo": Case(fitzhugh_nagumo, (0.08, 0.7, 0.8), [-1.0, 1.0], two(41, 60.0), 0.1, FREE_3),
    "morris_lecar": Case(morris_lecar, (1.0, 2.0, 0.4), [-0.3, 0.1], two(41, 30.0), 0.05, FREE_3, spread=0.1),
    "brusselator": Case(brusselator, (1.0, 3.0), [1.0, 1.0], two(41, 15.0), 0.02),
    "oregonator": Case(oregonator, (77.27, 0.161), [4.0, 1.1, 4.0], two(25, 2.0), 0.01, solver=KVAERNO, spread=0.05),
    "robertson": Case(
        robertson,
        (0.04, 1.0, 1.0),
        [0.98, 3.25e-5, 0.02],
        two(21, 2.0),
        0.01,
        FREE_3,
        solver=KVAERNO,
        noise=0.0,
        spread=0.02,
    ),
    "kuramoto": Case(kuramoto, (2.0, 1.0, 0.1), np.cos(3 * np.arange(8.0)), two(33, 10.0), 0.05, FREE_3),
    "kdv": Case(
        kdv, (6.0, 1.0), SOLITON, two(21, 0.5), 0.002, {"a": LOG, "b": LOG, "y0": {"u": pdefit.transforms.Identity()}}
    ),
    "burgers": Case(burgers, (1.0, 0.02), 1 + np.sin(2 * np.pi * line(48, 1.0)), two(21, 0.6), 0.005),
    "kuramoto_sivashinsky": Case(
        kuramoto_sivashinsky,
        (1.0, 1.0),
        np.cos(line(48, 22.0) * 4 * np.pi / 22) + 0.3,
        two(31, 30.0),
        0.05,
        {"a": LOG, "b": LOG},
        solver=pdefit.solvers.IMEX(),
        symbol=lambda k, p: k**2 - p[1] * k**4,
        length=22.0,
        spread=0.05,
    ),
    "swift_hohenberg": Case(
        swift_hohenberg,
        (0.3, 0.5),
        0.3 * np.cos(X32 * 4) + 0.1 * np.cos(X32),
        two(21, 10.0),
        0.1,
        solver=pdefit.solvers.IMEX(),
        symbol=patterns,
        length=8 * np.pi,
        options={"adjoint": pdefit.adjoints.StoreAll()},
    ),
    "allen_cahn": Case(
        allen_cahn,
        (0.01, 1.0),
        np.sin(X32) + 0.3 * np.cos(3 * X32),
        two(21, 5.0),
        0.05,
        solver=pdefit.solvers.IMEX(),
        symbol=lambda k, p: -p[0] * k**2,
        length=2 * np.pi,
        observe=pdefit.instruments.Subsample((3,)),
    ),
    "gray_scott": Case(
        gray_scott,
        (0.035, 0.06),
        np.stack([1 - 0.5 * np.exp(-20 * (line(32, 4.0) - 2) ** 2), 0.25 * np.exp(-20 * (line(32, 4.0) - 2) ** 2)]),
        two(21, 60.0),
        0.3,
        options={"adjoint": pdefit.adjoints.Checkpointed(3)},
    ),
    "schroedinger": Case(schroedinger, (1.0, 0.5), PACKET, two(21, 3.0), 0.02),
    "fisher": Case(
        None,
        (1.0, 1.0),
        None,
        two(17, 4.0),
        0.1,
        {"D": LOG, "r": LOG},
        spread=0.4,
        system=lambda **p: FisherKPP(grid=FRONT, front=-5.0, **p),
    ),
    "fisher_recordings": Case(
        None,
        (1.0, 1.0),
        None,
        two(9, 2.0),
        0.1,
        {"D": LOG, "r": pdefit.Control(LOG, scope="experiment")},
        recordings=3,
        system=lambda **p: FisherKPP(grid=FRONT, front=-5.0, **p),
    ),
    "bocf": Case(
        None,
        (EPI["D"], EPI["k_so"], EPI["tau_si"], EPI["theta_v"]),
        None,
        two(21, 10.0),
        0.05,
        {n: LOG for n in ("D", "k_so", "tau_si", "theta_v")},
        system=lambda **p: BOCF(grid=CABLE, **{**EPI, **p}),
    ),
    "aliev_panfilov": Case(
        None,
        (ALIEV_PANFILOV["D"], ALIEV_PANFILOV["k"], ALIEV_PANFILOV["mu1"]),
        None,
        two(21, 40.0),
        0.2,
        {n: LOG for n in ("D", "k", "mu1")},
        system=lambda **p: AlievPanfilov(grid=CABLE, **{**ALIEV_PANFILOV, **p}),
    ),
    "three_bodies": Case(
        None,
        (np.array([1.0, 0.01, 0.02]),),
        None,
        two(41, 6.0),
        0.005,
        {"gm": LOG},
        spread=0.1,
        observe=pdefit.instruments.Select("position"),
        solver=pdefit.solvers.Yoshida4(),
        system=lambda gm: Gravity(gm=gm, **THREE),
    ),
    "three_bodies_nodes": Case(
        None,
        (np.array([1.0, 0.01, 0.02]),),
        None,
        two(41, 4.0),
        0.01,
        {"gm": LOG, "nodes": {"velocity": pdefit.transforms.Identity()}},
        spread=0.1,
        system=lambda gm: Gravity(gm=gm, **THREE),
        options={"formulation": pdefit.formulations.Segments(1.0, 1e-3)},
        noise=1e-4,
    ),
    "toda": Case(
        toda, (1.0, 1.0), np.stack([np.exp(-((np.arange(12.0) - 6) ** 2)), np.zeros(12)]), two(33, 15.0), 0.05
    ),
    "fermi_pasta_ulam": Case(
        fermi_pasta_ulam,
        (0.25, 0.5, 1.0),
        np.stack([np.sin(2 * np.pi * np.arange(16) / 16), np.zeros(16)]),
        two(33, 30.0),
        0.1,
        FREE_3,
        options={"adjoint": pdefit.adjoints.Tangent()},
    ),
    "lennard_jones": Case(lennard_jones, (1.0, 1.0), BODIES, two(33, 2.0), 0.005, spread=0.02),
    "logistic": Case(
        logistic,
        (1.0, 2.0),
        np.array([0.1, 0.2, 0.4]),
        two(17, 8.0),
        0.1,
        {"a": pdefit.Control(LOG, prior=pdefit.priors.LogNormal(1.0, 0.5)), "b": LOG},
    ),
    "epidemic": Case(
        epidemic, (0.8, 0.2, 0.02), SIR, two(33, 40.0), 0.25, FREE_3, driver=lambda: pdefit.drivers.Hosted("4 kB", 600)
    ),
    "network": Case(
        network, (MLP, 1.0), [0.5, -0.3], two(33, 6.0), 0.05, {"a": pdefit.transforms.Identity(), "b": LOG}, spread=0.3
    ),
}
