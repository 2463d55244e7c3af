"""The base class of flows on a sphere: states, transforms, inertia, diagnostics."""

import abc
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import pdefit
from pdefit.capabilities import (
    AbstractConstrained,
    AbstractDataState,
    AbstractDerived,
    AbstractDiagnosed,
    AbstractDiagonal,
    AbstractStable,
    FieldCoords,
)
from pdefit_sphere.harmonics import packed, vectors
from pdefit_sphere.transforms import Modes, Sphere

_AXES: tuple[str, ...] = ("theta", "phi")


class Velocity(NamedTuple):
    """The components of a tangent velocity at the points of a sphere."""

    u_theta: Float[Array, "theta phi"] = pdefit.field(doc="velocity along theta")
    u_phi: Float[Array, "theta phi"] = pdefit.field(doc="velocity along phi")


class AbstractSphereFlow(
    pdefit.AbstractSystem,
    AbstractDiagonal,
    AbstractConstrained,
    AbstractStable,
    AbstractDataState,
    AbstractDiagnosed,
    AbstractDerived,
):
    """Flow on a sphere: u_t + (u.grad) u + 2 Omega cos(theta) n x u = L u + f, by vector harmonics.

    The state has the two velocity components at the points of the sphere, like data, pictures and files. Equations are
    evaluated in coefficients: `to_modes` returns the coefficients of the potential psi in place of `u_theta`, and of
    chi in place of `u_phi`. A state has no part beyond the degree of the sphere; `project` removes it.

    **Arguments:**

    - `sphere`: the degree of the harmonics, and the radius.
    """

    time_unit: ClassVar[str] = "1"
    sphere: Sphere

    @property
    @abc.abstractmethod
    def has_pressure(self) -> bool:
        """True for a flow with a pressure, which keeps the divergence 0."""

    @abc.abstractmethod
    def spin(self) -> Array:
        """The rate Omega at which the frame of the velocity rotates about the poles."""

    @abc.abstractmethod
    def forcing(self, t: Array, dtype: jnp.dtype) -> tuple[Modes, Modes] | None:
        """The modes of the potentials of the force at a time; None without a force.

        **Arguments:**

        - `t`: the time.
        - `dtype`: the dtype of the result.
        """

    def to_modes(self, y):
        psi, chi = self.sphere.potentials(y.u_theta, y.u_phi)
        return Velocity(jnp.zeros_like(psi) if self.has_pressure else psi, chi)

    def from_modes(self, modes):
        return Velocity(*self.sphere.tangent(modes.u_theta, modes.u_phi))

    def project(self, y):
        return self.from_modes(self.to_modes(y))

    def vector_field(self, t, y, args):
        modes = self.to_modes(y)
        decay = jax.tree.map(lambda m, e: m * e.astype(m.dtype), modes, self.eigenvalues())
        return self.from_modes(jax.tree.map(jnp.add, decay, self._explicit_modes(t, y, modes)))

    def explicit(self, t, y, args):
        return self.from_modes(self.explicit_modes(t, y, args))

    def explicit_modes(self, t, y, args):
        return self._explicit_modes(t, y, self.to_modes(y))

    def _explicit_modes(self, t: Array, y: Velocity, modes: Velocity) -> Velocity:
        """The modes of the inertia, grad(|u|^2 / 2) + (zeta + 2 Omega cos theta) n x u, and of the force."""
        sphere, (u, v), dtype = self.sphere, y, y.u_theta.dtype
        tilt = jnp.broadcast_to(jnp.asarray(np.cos(sphere.theta)[:, None], dtype), u.shape)
        vorticity = sphere.vorticity(modes.u_phi) + 2 * self.spin().astype(dtype) * tilt
        psi, chi = sphere.potentials(vorticity * v, -vorticity * u)
        psi = jnp.zeros_like(psi) if self.has_pressure else psi - _no_mean(sphere.analysis((u**2 + v**2) / 2))
        force = self.forcing(t, dtype)
        if force is None:
            return Velocity(psi, chi)
        return Velocity(psi if self.has_pressure else psi + force[0], chi + force[1])

    def coords(self):
        return {f"u_{axis}": self._coords("velocity", 1, axis) for axis in _AXES}

    def derived(self, t, y):
        modes = self.to_modes(y)
        found = {"vorticity": self.sphere.vorticity(modes.u_phi)}
        if not self.has_pressure:
            found["divergence"] = self.sphere.divergence(modes.u_theta)
        force = self.forcing(t, y.u_theta.dtype)
        if force is not None:
            found["force_theta"], found["force_phi"] = self.sphere.tangent(*force)
        return found

    def derived_coords(self):
        found = {"vorticity": self._coords("vorticity", 0)}
        if not self.has_pressure:
            found["divergence"] = self._coords("divergence", 0)
        # its shape alone: a force may be costly
        if jax.eval_shape(lambda: self.forcing(jnp.zeros(()), jnp.dtype(float))) is not None:
            found |= {f"force_{axis}": self._coords("force", 2, axis) for axis in _AXES}
        return found

    def _coords(self, name: str, power: int, axis: str = "") -> FieldCoords:
        """The coordinates of a scalar, or of a component of a vector along an axis.

        The unit is derived from a velocity (power 1), a rate (0), or an acceleration (2).
        """
        length, time = self.sphere.length_unit, self.time_unit
        below = "" if time == "1" else f"/{time}^2" if power == 2 else f"/{time}"
        where = dict(zip(_AXES, (self.sphere.theta, self.sphere.phi), strict=True))
        return FieldCoords(
            dims=_AXES,
            coords=where,
            unit=(length if power else "1") + below,
            long_name=f"{name} along {axis}" if axis else name,
            coord_units=dict.fromkeys(_AXES, "rad"),
            vector=name if axis else "",
            component=axis,
            radius=self.sphere.radius,
            view="sphere",
        )

    def diagnostics(self, t, y):
        modes, mean = self.to_modes(y), self.sphere.mean
        rate = self.sphere.divergence(modes.u_theta)
        return {
            "energy_kinetic": mean(y.u_theta**2 + y.u_phi**2) / 2,
            "enstrophy": mean(self.sphere.vorticity(modes.u_phi) ** 2) / 2,
            "divergence_rms": pdefit.safe_sqrt(mean(rate**2)),
            # times the step it is the CFL number of the shortest wave
            "advection_rate": self._advection_rate(y),
        }

    def stable_step(self, y):
        decay = max(float(np.max(-np.asarray(e))) for e in jax.tree.leaves(self.eigenvalues()))
        force = self.forcing(jnp.zeros(()), y.u_theta.dtype)
        push = 0.0 if force is None else float(jnp.max(jnp.abs(jnp.stack(self.sphere.tangent(*force)))))
        # the speed that a force gives to a fluid at rest over a radius
        pushed = (push * self.sphere.radius) ** 0.5 * self.sphere.degree / self.sphere.radius
        carried = max(float(self._advection_rate(y)), pushed) + 2 * abs(float(self.spin()))
        rate = (max(decay, 0.0) ** 1.5 + carried**1.5) ** (2 / 3)
        return 2 / rate if rate > 0 else float("inf")

    def _advection_rate(self, y: Velocity) -> Array:
        speed = pdefit.safe_sqrt(jnp.max(y.u_theta**2 + y.u_phi**2))
        return speed * self.sphere.degree / self.sphere.radius

    def init_from_data(self, observations, index=0):
        """The smoothest velocity near the measurements at the points of the sphere or of a raster; at rest elsewhere.

        Coefficients of high degree are slightly regularised, so that they stay small if points are missing.

        **Arguments:**

        - `observations`: the record.
        - `index`: the index of the time in `observations.ts`; by default the start of the record.
        """
        sphere, dtype = self.sphere, jnp.result_type(float)
        size = sphere.degree * (sphere.degree + 2)
        degrees = packed(sphere.degree)[2]
        held = np.tile((degrees * (degrees + 1.0)) ** 3, 2)
        if self.has_pressure:
            held[:size] = 1e12
        normal, right = np.diag(_HELD * held), np.zeros(2 * size)
        mesh = np.stack(np.meshgrid(sphere.theta, sphere.phi, indexing="ij"), -1)
        for number, name in enumerate(("u_theta", "u_phi")):
            measured = observations.values.get(name)
            where = np.asarray(observations.positions_at(index).get(name, mesh), float)
            if measured is None or measured.shape[1:] != where.shape[:-1]:
                continue
            along, across = vectors(sphere.degree, *where.reshape(-1, 2).T)
            matrix = np.hstack([across, along] if number else [along, -across])
            seen = np.asarray(observations.mask[name][index], bool)
            # of a raster or of the points of the sphere, whose weights differ little from it
            area = np.sin(where[..., 0])
            area = (4 * np.pi / np.sum(area) * area * seen).reshape(-1)
            values = np.where(seen, np.asarray(measured[index], float), 0.0).reshape(-1)
            normal += matrix.T @ (area[:, None] * matrix)
            right += matrix.T @ (area * values)
        found = jnp.asarray(np.linalg.solve(normal, right), dtype) * sphere.radius
        return self.project(Velocity(*sphere.tangent(sphere.unpack(found[:size]), sphere.unpack(found[size:]))))


# the weight of the cube of l (l + 1) against that of the misfit
_HELD = 1e-6


def _no_mean(modes: Modes) -> Modes:
    """Modes without degree 0."""
    return modes.at[0, 0, 0].set(0.0)
