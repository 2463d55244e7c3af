"""Small systems for tests: the first of them pass verification, and its tests plant defects in them."""

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import pdefit


class State(NamedTuple):
    u: jax.Array


class Motion(NamedTuple):
    x: jax.Array
    v: jax.Array


def short_run(system, stop=1.0, count=3):
    """An example of a system without a grid."""
    ts = np.linspace(0.0, stop, count)
    return pdefit.capabilities.Example(system, system.init(None), ts, 0.1, space_order=None, time_order=4)


class Pair(NamedTuple):
    u: jax.Array
    v: jax.Array


class Lines(pdefit.AbstractSystem):
    """u' = a + c t and v' = b + c t from zero: u = a t + c t^2 / 2, exact with steps of second order, and linear in a, b, c."""

    time_unit: ClassVar[str] = "s"
    a: jax.Array = pdefit.parameter(positive=False)
    b: jax.Array = pdefit.parameter(positive=False)
    c: jax.Array = pdefit.parameter(positive=False)

    def vector_field(self, t, y, args):
        return Pair(self.a + self.c * t, self.b + self.c * t)

    def init(self, key):
        return Pair(jnp.zeros(()), jnp.zeros(()))


class Decay(
    pdefit.AbstractSystem,
    pdefit.capabilities.AbstractVerifiable,
    pdefit.capabilities.AbstractExact,
):
    """u' = -k u from (1, 2, 3)."""

    time_unit: ClassVar[str] = "s"
    start: ClassVar[np.ndarray] = np.array([1.0, 2.0, 3.0])
    k: jax.Array = pdefit.parameter(positive=True)

    def vector_field(self, t, y, args):
        return State(-self.k * y.u)

    def init(self, key):
        return State(jnp.asarray(self.start))

    def exact(self, t):
        return State(jnp.exp(-self.k * t) * self.start)

    def coords(self):
        return {"u": pdefit.capabilities.FieldCoords(("cell",), {"cell": np.arange(3)})}

    @classmethod
    def example(cls, resolution):
        return short_run(cls(k=1.0))


class Driven(pdefit.AbstractSystem):
    """u' = -k u + args(t) from (1, 2)."""

    time_unit: ClassVar[str] = "s"
    k: jax.Array = pdefit.parameter(positive=True)

    def vector_field(self, t, y, args):
        return State(-self.k * y.u + args(t).astype(y.u.dtype))

    def init(self, key):
        return State(jnp.array([1.0, 2.0]))


class Level(pdefit.AbstractSystem, pdefit.capabilities.AbstractVerifiable, pdefit.capabilities.AbstractConstrained):
    """u' = -k sin u, minus its mean: the sum of u stays zero."""

    time_unit: ClassVar[str] = "s"
    k: jax.Array = pdefit.parameter(positive=True)

    def vector_field(self, t, y, args):
        return self.project(State(-self.k * jnp.sin(y.u)))

    def project(self, y):
        return State(y.u - jnp.mean(y.u))

    def init(self, key):
        return State(jnp.asarray([1.0, -1.5, 0.5]))

    @classmethod
    def example(cls, resolution):
        return short_run(cls(k=2.0))


class Relay(pdefit.AbstractSystem, pdefit.capabilities.AbstractVerifiable, pdefit.capabilities.AbstractSwitched):
    """u' = k while u is below 1, then 2 k: at once, or over a width."""

    time_unit: ClassVar[str] = "s"
    k: jax.Array = pdefit.parameter(positive=True)
    width: float | None = None

    @property
    def is_smooth(self):
        return self.width is not None

    def smoothed(self):
        return type(self)(self.k, width=0.3)

    def vector_field(self, t, y, args):
        if self.width is None:
            above = jnp.where(y.u < 1, 0.0, 1.0).astype(y.u.dtype)
        else:
            above = jax.nn.sigmoid((y.u - 1) / self.width)
        return State(self.k * (1 + above))

    def init(self, key):
        return State(jnp.linspace(0.0, 0.9, 40))

    @classmethod
    def example(cls, resolution):
        return short_run(cls(k=1.0), 1.2)


class Swing(
    pdefit.AbstractSystem,
    pdefit.capabilities.AbstractVerifiable,
    pdefit.capabilities.AbstractMechanical,
    pdefit.capabilities.AbstractConservative,
):
    """x'' = -k x."""

    time_unit: ClassVar[str] = "s"
    k: jax.Array = pdefit.parameter(positive=True)

    def acceleration(self, t, x, args):
        return -self.k * x

    def vector_field(self, t, y, args):
        return Motion(y.v, self.acceleration(t, y.x, args))

    def positions(self, y):
        return y.x

    def velocities(self, y):
        return y.v

    def assemble(self, x, v):
        return Motion(x, v)

    def invariants(self, y):
        return {"energy": jnp.sum(y.v**2 + self.k * y.x**2) / 2}

    def init(self, key):
        return Motion(jnp.asarray([1.0, 0.5]), jnp.asarray([0.0, 1.0]))

    @classmethod
    def example(cls, resolution):
        return short_run(cls(k=2.0), 2.0, 5)


class Lorenz(pdefit.AbstractSystem):
    """E. N. Lorenz, J. Atmos. Sci. 20 (1963) 130-141, with sigma 10, beta 8/3: exponent 0.906 at rho 28."""

    time_unit: ClassVar[str] = "1"
    rho: jax.Array = pdefit.parameter(default=28.0)

    def vector_field(self, t, y, args):
        u, v, w = y.u
        return State(jnp.stack([10 * (v - u), u * (self.rho - w) - v, u * v - 8 / 3 * w]))

    def init(self, key):
        return State(jnp.array([1.0, 1.0, 20.0]))


class KdV(pdefit.AbstractSystem):
    """u_t + l1 u u_x + l2 u_xxx = 0 on [-1, 1), periodic, by Fourier series; u = cos(pi x) at the start.

    Source: M. Raissi, P. Perdikaris, G. E. Karniadakis, J. Comput. Phys. 378:686 (2019), doi:10.1016/j.jcp.2018.10.045.
    """

    time_unit: ClassVar[str] = "1"
    l1: jax.Array = pdefit.parameter(default=1.0)
    l2: jax.Array = pdefit.parameter(default=0.0025)
    points: int = 64

    def vector_field(self, t, y, args):
        count = self.points // 2 + 1
        k = jnp.pi * jnp.arange(count)
        # the highest wave has no odd derivative on the grid
        slope = jnp.where(jnp.arange(count) < count - 1, 1j * k, 0)
        u = jnp.fft.rfft(y.u)
        return State(jnp.fft.irfft(-slope * (self.l1 * jnp.fft.rfft(y.u**2 / 2) - self.l2 * k**2 * u), self.points))

    def init(self, key):
        return State(jnp.cos(jnp.pi * (2 * jnp.arange(self.points) / self.points - 1)))


class Late(NamedTuple):
    x: jax.Array
    y: jax.Array


class Hastening(pdefit.AbstractSystem):
    """Slow at first, then ever faster: y = exp(-t / 2 - k t^5 / 5)."""

    time_unit: ClassVar[str] = "s"
    k: jax.Array = pdefit.parameter(positive=True)

    def vector_field(self, t, y, args):
        return Late(jnp.ones(()), -(0.5 + self.k * y.x**4) * y.y)

    def init(self, key):
        return Late(jnp.zeros(()), jnp.ones(()))
