"""Equations of `scripts/situations.py`, each with a term that a model may leave out: its number is then zero."""

from typing import ClassVar, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array

import pdefit
from pdefit.systems.operators import grad


class State(NamedTuple):
    u: Array = pdefit.field(doc="density", diffusivity="D")


class Front(pdefit.ReactionDiffusion):
    """u_t = D lap u + r u (1 - u) + r (growth u - cubic u^3) - drift u_x, from a plane front, a step or a constant."""

    time_unit: ClassVar[str] = "s"
    D: Array = pdefit.parameter(default=1.0, unit="mm^2/s", positive=True)
    r: Array = pdefit.parameter(default=1.0, unit="1/s", positive=True)
    growth: Array = pdefit.parameter(default=0.0)
    cubic: Array = pdefit.parameter(default=0.0)
    drift: Array = pdefit.parameter(default=0.0, unit="mm/s")
    front: float = -4.0
    uniform: bool = False

    def vector_field(self, t, y, args):
        diffused = super().vector_field(t, y, args).u
        return State(diffused - self.drift * grad(self.grid, y.u)[0])

    def reaction(self, t, y, args):
        return State(self.r * y.u * (1 + self.growth - y.u - self.cubic * y.u**2))

    def init(self, key):
        mesh = self.grid.mesh()
        if self.uniform:
            return State(jnp.full(self.grid.shape, 0.1))
        bend = sum((0.4 * (1 - jnp.cos(x)) for x in mesh[1:]), start=jnp.zeros(()))
        return State((1 + jnp.exp((mesh[0] - self.front + bend) / jnp.sqrt(6.0))) ** -2)


class Plume(pdefit.ReactionDiffusion):
    """u_t = D lap u - speed u_x - decay u + source g, with g a spot of width 1.5 at 6 mm, from two spots."""

    time_unit: ClassVar[str] = "s"
    D: Array = pdefit.parameter(default=0.5, unit="mm^2/s", positive=True)
    speed: Array = pdefit.parameter(default=1.0, unit="mm/s")
    decay: Array = pdefit.parameter(default=0.1, unit="1/s", positive=True)
    source: Array = pdefit.parameter(default=0.0, unit="1/s")

    def vector_field(self, t, y, args):
        diffused = super().vector_field(t, y, args).u
        return State(diffused - self.speed * grad(self.grid, y.u)[0])

    def reaction(self, t, y, args):
        return State(self.source * self._spot(6.0, 1.5) - self.decay * y.u)

    def init(self, key):
        return State(self._spot(5.0, 1.5) + 0.6 * self._spot(12.0, 2.0))

    def _spot(self, place, width):
        x = self.grid.mesh()
        return jnp.exp(-((x[0] - place) ** 2 + sum((y - 5.0) ** 2 for y in x[1:])) / (2 * width**2))


class Pulse(NamedTuple):
    v: Array = pdefit.field(doc="voltage", diffusivity=0.5)
    w: Array = pdefit.field(doc="recovery")


class Nerve(pdefit.ReactionDiffusion):
    """FitzHugh and Nagumo's pulses along a fibre: of voltage and recovery only the first is observed."""

    eps: Array = pdefit.parameter(default=0.08, positive=True)
    beta: Array = pdefit.parameter(default=0.7, positive=True)

    def reaction(self, t, y, args):
        return Pulse(y.v - y.v**3 / 3 - y.w, self.eps * (y.v + self.beta - 0.8 * y.w))

    def init(self, key):
        x = self.grid.mesh()[0]
        pulses = jnp.exp(-((x - 4) ** 2) / 8) + jnp.exp(-((x - 40) ** 2) / 8)
        return Pulse(-1.2 + 3.0 * pulses, -0.6 + 0.3 * jnp.cos(x / 6))


class Modes(NamedTuple):
    x: Array
    y: Array
    z: Array


class Convection(pdefit.AbstractSystem):
    """Lorenz's equations with a constant in the first."""

    time_unit: ClassVar[str] = "1"
    sigma: Array = pdefit.parameter(default=10.0, positive=True)
    rho: Array = pdefit.parameter(default=28.0, positive=True)
    beta: Array = pdefit.parameter(default=8 / 3, positive=True)
    constant: Array = pdefit.parameter(default=0.0)

    def vector_field(self, t, y, args):
        x = self.sigma * (y.y - y.x) + self.constant
        return Modes(x, y.x * (self.rho - y.z) - y.y, y.x * y.y - self.beta * y.z)

    def init(self, key):
        return Modes(*(jnp.asarray(x) for x in (-8.0, 7.0, 27.0)))


class Wave(NamedTuple):
    p: Array = pdefit.field(doc="real part")
    q: Array = pdefit.field(doc="imaginary part")


class Schroedinger(pdefit.AbstractFieldSystem):
    """i h_t + a h_xx + b |h|^2 h = 0 with h = p + i q, periodic, by Fourier series; two waves at the start."""

    time_unit: ClassVar[str] = "1"
    grid: pdefit.FourierGrid
    a: Array = pdefit.parameter(default=0.5, positive=True)
    b: Array = pdefit.parameter(default=1.0, positive=True)

    def vector_field(self, t, y, args):
        def bent(u):
            return self.grid.from_modes(jnp.asarray(self.grid.symbol(2)) * self.grid.to_modes(u))

        force = self.b * (y.p**2 + y.q**2)
        return Wave(-self.a * bent(y.q) - force * y.q, self.a * bent(y.p) + force * y.p)

    def init(self, key):
        x = self.grid.mesh()[0]
        wave = 1.5 / jnp.cosh(1.5 * x)
        return Wave(wave * jnp.cos(0.8 * x), wave * jnp.sin(0.8 * x))
