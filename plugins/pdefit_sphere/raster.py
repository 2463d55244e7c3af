"""Observation of a flow on a sphere at a raster of angles."""

import dataclasses
from typing import Any

import equinox as eqx
import numpy as np

import pdefit
from pdefit.instruments import AbstractObservationOperator
from pdefit_sphere.flow import AbstractSphereFlow
from pdefit_sphere.transforms import Sphere


def _angles(value: Any) -> tuple[float, ...]:
    return tuple(float(x) for x in np.asarray(value, float).reshape(-1))


class Raster(AbstractObservationOperator):
    """The operator that observes the velocity at all combinations of angles, exactly.

    Components at a pole are those that are met along each meridian.

    **Arguments:**

    - `theta`: the colatitudes, from 0 at the north pole to pi, (n_theta,), in radians.
    - `phi`: the longitudes, (n_phi,), in radians.
    - `sphere`: that of the system, by default.
    """

    theta: tuple[float, ...] = eqx.field(converter=_angles, static=True)
    phi: tuple[float, ...] = eqx.field(converter=_angles, static=True)
    sphere: Sphere | None = None

    def __check_init__(self):
        if not all(0 <= x <= np.pi for x in self.theta) or not np.all(np.isfinite(self.phi)):
            raise ValueError(
                "Raster expects theta from 0 to pi, from the north pole in radians, and finite phi; convert latitudes by "
                "theta = pi/2 - latitude"
            )

    def on(self, system):
        if not isinstance(system, AbstractSphereFlow):
            raise pdefit.PdefitError(f"Raster observes a flow on a sphere, not {type(system).__name__}")
        return dataclasses.replace(self, sphere=system.sphere)

    @property
    def relocates(self):
        return True

    def moved(self, coords):
        where = {"theta": np.asarray(self.theta), "phi": np.asarray(self.phi)}
        return {name: dataclasses.replace(found, coords=where) for name, found in coords.items()}

    def __call__(self, y):
        if self.sphere is None:
            raise pdefit.PdefitError("Raster takes the sphere of a system; call on(system) first")
        psi, chi = self.sphere.potentials(y.u_theta, y.u_phi)
        u_theta, u_phi = self.sphere.on_raster(psi, chi, self.theta, self.phi)
        return {"u_theta": u_theta, "u_phi": u_phi}
