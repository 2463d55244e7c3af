"""Small smooth systems: each is one line of physics, `rate(t, u, p, args)` of its state u and its parameters p."""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

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


def patterns(k, p):
    return p[0] - (1 - k**2) ** 2
