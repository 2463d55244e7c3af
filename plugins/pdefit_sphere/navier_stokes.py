"""The Navier-Stokes equations of a layer on a sphere."""

import dataclasses
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

import pdefit
from pdefit.capabilities import AbstractReduced, AbstractVerifiable, Example
from pdefit_sphere.flow import AbstractSphereFlow, Velocity
from pdefit_sphere.force import HarmonicForce
from pdefit_sphere.rotations import rotated
from pdefit_sphere.transforms import Sphere


class NavierStokes(AbstractSphereFlow, AbstractVerifiable, AbstractReduced):
    """A layer on a sphere of radius R with viscosity, drag and a force, such as the tissue of an embryo.

        u_t + (u.grad) u + 2 rotation cos(theta) n x u
            = viscosity (Lap u + 2 c u / R^2) + bulk_viscosity grad(div u) - drag u + f(R^-1 x, t - delay)

    Lap u = grad div u - curl curl u. Without a pressure, fluid may leave the layer, and the divergence measures this
    exchange. With `incompressible` a pressure keeps the divergence 0, and balances the gradient part of the force.

    The viscous stress of a layer follows its deformation, c = 1: a rigid rotation has none. With `hodge`, c = 0, as
    in some programs: a rigid rotation then decays at the rate 2 viscosity / R^2.

    The force is one field that many recordings may share. Each recording sees it rotated by the matrix R of
    `orientation` and delayed by `delay`. Both can be unknown.

    The state is the velocity along theta and phi at the points of the sphere, without poles. Its initial value has
    random waves with a root mean square speed of 1. Linear terms are diagonal in vector harmonics, as `ETDRK4`
    requires.

    **Arguments:**

    - `sphere`: the degree of the harmonics, and the radius R.
    - `viscosity`: the kinematic viscosity.
    - `bulk_viscosity`: the viscosity of expansion; default 0.
    - `drag`: the rate at which friction slows the fluid down; default 0.
    - `rotation`: the rate at which the frame of the velocities rotates about the poles; default 0. Its centrifugal
      force is neglected, as if gravity balanced it.
    - `force`: the force per mass, a `HarmonicForce` or a `KnotForce`; default none.
    - `orientation`: the rotation of the force: its axis times the angle in radians, (3,), or an angle about the poles, ();
      default none.
    - `delay`: the time delay of the force; default none.
    - `incompressible`: whether a pressure keeps the divergence 0; default False.
    - `hodge`: whether the viscous term omits the curvature; default False.
    - `unit_of_time`: the unit of time; default "1". With the unit of length it gives the unit of velocities.

    Sources: M. Samavaki, J. Tuomela, J. Geom. Phys. 148:103543 (2020), doi:10.1016/j.geomphys.2019.103543, for the
    viscous term; J. P. Boyd, Chebyshev and Fourier Spectral Methods (2001), chapter 18, for vector harmonics.
    """

    viscosity: Array = pdefit.parameter(unit="length^2/time", positive=True, doc="kinematic viscosity")
    bulk_viscosity: Array = pdefit.parameter(
        unit="length^2/time", positive=True, doc="viscosity of expansion", default=0.0
    )
    drag: Array = pdefit.parameter(unit="1/time", positive=True, doc="rate of linear drag", default=0.0)
    rotation: Array = pdefit.parameter(unit="1/time", doc="rate of rotation of the frame", default=0.0)
    force: Any = pdefit.parameter(unit="length/time^2", doc="force per mass", default=None)
    orientation: Any = pdefit.parameter(unit="rad", doc="rotation of the force", default=None)
    delay: Any = pdefit.parameter(unit="time", doc="time by which the force is later", default=None)
    incompressible: bool = eqx.field(default=False, static=True)
    hodge: bool = eqx.field(default=False, static=True)
    unit_of_time: str = eqx.field(default="1", static=True)

    def __check_init__(self):
        if self.orientation is not None and np.shape(self.orientation)[-1:] not in ((), (3,)):
            raise ValueError(
                f"NavierStokes expects an orientation of an angle about the poles, or of an axis times an angle (3 numbers), "
                f"but got shape {np.shape(self.orientation)}"
            )
        if self.force is None and (self.orientation is not None or self.delay is not None):
            raise ValueError("NavierStokes turns and delays a force; give it one, or leave out orientation and delay")

    @property
    def time_unit(self):
        return self.unit_of_time

    @property
    def has_pressure(self):
        return self.incompressible

    def spin(self):
        return self.rotation

    def forcing(self, t, dtype):
        if self.force is None:
            return None
        found = self.force.potentials(t if self.delay is None else t - self.delay)
        if self.orientation is not None:
            found = rotated(found, self.orientation)
        # the flow's potentials have the gradient of a sphere of radius R
        found = self.sphere.radius * found.astype(dtype)
        return self.sphere.unpack(found[:, 0]), self.sphere.unpack(found[:, 1])

    def reduced(self):
        if self.force is None:
            return self
        # turned once for all times, in place of at every stage
        found = self.force.coefficients
        if self.orientation is not None:
            columns = jnp.moveaxis(found, 0, 1).reshape(found.shape[1], -1)
            found = jnp.moveaxis(rotated(columns, self.orientation).reshape(found.shape[1], -1, 2), 1, 0)
        degree = math.isqrt(found.shape[1])
        force = HarmonicForce(degree, len(self.force.times), self.force.times, found)
        return dataclasses.replace(self, force=force, orientation=None)

    def eigenvalues(self):
        number, square = jnp.asarray(self.sphere.number, self.viscosity.dtype), self.sphere.radius**2
        curved = 0.0 if self.hodge else 2.0
        shear = -self.viscosity * (number - curved) / square - self.drag
        bulk = shear - self.bulk_viscosity * number / square
        # there is no mode of degree 0
        psi, chi = (jnp.where(number > 0, e, 0.0)[None, None, :] for e in (bulk, shear))
        return Velocity(chi if self.incompressible else psi, chi)

    def init(self, key):
        degree = min(self.sphere.degree, 4)
        waves = jax.random.normal(key, (2, degree * (degree + 2)))
        y = self.project(Velocity(*self.sphere.tangent(*map(self.sphere.unpack, waves))))
        speed = jnp.sqrt(self.sphere.mean(y.u_theta**2 + y.u_phi**2))
        return jax.tree.map(lambda u: u / speed, y)

    @classmethod
    def example(cls, resolution):
        viscosity, bulk, drag, rotation = map(jnp.asarray, (0.05, 0.03, 0.2, 0.7))
        system = cls(Sphere(resolution // 2, 1.5), viscosity, bulk, drag, rotation)
        return Example(
            system, system.init(jax.random.key(0)), np.linspace(0.0, 1.0, 5), 0.05, space_order=None, time_order=4
        )
