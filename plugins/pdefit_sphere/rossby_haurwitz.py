"""Rossby-Haurwitz waves, exact solutions of the equations on a sphere."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import pdefit
from pdefit.capabilities import AbstractExact, AbstractVerifiable, Example
from pdefit_sphere.flow import AbstractSphereFlow, Velocity
from pdefit_sphere.navier_stokes import NavierStokes
from pdefit_sphere.rotations import rotated
from pdefit_sphere.transforms import Sphere


def damped_wave(
    coefficients: Float[Array, " P"], degree: int, radius: Any, viscosity: Any, turned: Any, t: Any
) -> Array:
    """Coefficients at a time of the potential chi of a wave of one degree, (P,).

    The pattern rotates about the poles, and viscosity damps it without changing its shape.

    **Arguments:**

    - `coefficients`: the coefficients at time 0, packed as in `Sphere.pack`, of one degree l.
    - `degree`: the degree l.
    - `radius`, `viscosity`: the radius of the sphere, and the viscosity of the fluid.
    - `turned`: the angle by which the pattern has rotated.
    - `t`: the time.

    Source: B. Haurwitz, J. Marine Res. 3:254 (1940).
    """
    number = degree * (degree + 1)
    amplitude = jnp.exp(-viscosity * (number - 2) * t / radius**2)
    return amplitude * rotated(coefficients[:, None], jnp.asarray(turned, coefficients.dtype))[:, 0]


class RossbyHaurwitz(AbstractSphereFlow, AbstractExact, AbstractVerifiable):
    """A wave of one degree l in an incompressible fluid on a rotating sphere, with a known solution.

    Relative to the rotating frame the pattern rotates at the rate -2 rotation / (l (l + 1)); in a fixed frame the rate
    is rotation (1 - 2 / (l (l + 1))). Its amplitude falls as exp(-viscosity (l (l + 1) - 2) t / R^2).

    **Arguments:**

    - `sphere`: the degree of the harmonics, l or more, and the radius R.
    - `viscosity`: the kinematic viscosity.
    - `rotation`: the rate of rotation of the frame.
    - `wave`: the degree l; default 4. The wave has random coefficients of all orders, and a root mean square speed of 1.
    - `seed`: the seed of the coefficients; default 0.

    The damping follows from the deformation form of the viscous term; harmonics are its eigenfunctions.

    Source of the wave: B. Haurwitz, J. Marine Res. 3:254 (1940).
    """

    viscosity: Array = pdefit.parameter(unit="length^2/time", positive=True, doc="kinematic viscosity")
    rotation: Array = pdefit.parameter(unit="1/time", doc="rate of rotation of the frame")
    wave: int = eqx.field(default=4, converter=int, static=True)
    seed: int = eqx.field(default=0, converter=int, static=True)

    @property
    def has_pressure(self):
        return True

    def spin(self):
        return self.rotation

    def forcing(self, t, dtype):
        return None

    def eigenvalues(self):
        # zeros in the precision of the viscosity, which defaults do not have
        zero = jnp.zeros_like(self.viscosity)
        return NavierStokes(self.sphere, self.viscosity, zero, zero, incompressible=True).eigenvalues()

    def init(self, key):
        return self.exact(jnp.zeros(()))

    def exact(self, t):
        number = self.wave * (self.wave + 1)
        turned = -2 * self.rotation * t / number
        chi = damped_wave(self._coefficients(), self.wave, self.sphere.radius, self.viscosity, turned, t)
        modes = self.sphere.unpack(chi)
        return Velocity(*self.sphere.tangent(jnp.zeros_like(modes), modes))

    def _coefficients(self) -> Array:
        """The coefficients at time 0, packed, with a root mean square speed of 1."""
        number = self.wave * (self.wave + 1)
        drawn = np.random.default_rng(self.seed).normal(size=2 * self.wave + 1)
        # the mean over the sphere of |grad Y|^2 is l (l + 1) / (4 pi R^2)
        drawn *= self.sphere.radius * np.sqrt(4 * np.pi / number) / np.linalg.norm(drawn)
        return jnp.asarray(np.concatenate([np.zeros(self.wave**2 - 1), drawn]))

    @classmethod
    def example(cls, resolution):
        system = cls(Sphere(resolution // 2), *map(jnp.asarray, (0.05, 3.0)))
        return Example(
            system, system.init(jax.random.key(0)), np.linspace(0.0, 1.0, 5), 0.05, space_order=None, time_order=4
        )
