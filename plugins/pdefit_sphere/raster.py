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

    def returned(self, values, coords):
        """Observed vectors between the angles of the raster, by linear interpolation; NaN where one of them is missing."""
        if "u_theta" not in coords or not {"u_theta", "u_phi"} <= values.keys():
            return {}
        rows, columns = np.argsort(self.theta), np.argsort(np.asarray(self.phi) % (2 * np.pi))
        theta, phi = np.asarray(self.theta)[rows], np.asarray(self.phi)[columns] % (2 * np.pi)
        steps = [float(np.median(np.diff(x))) if x.size > 1 else 0.0 for x in (theta, phi)]
        # Cartesian components are smooth at the poles
        u = [np.asarray(values[name], float)[np.ix_(rows, columns)] for name in ("u_theta", "u_phi")]
        along, east = _directions(theta, phi)
        parts = u[0] * along + u[1] * east
        there = [coords["u_theta"].coords[axis] for axis in ("theta", "phi")]
        around = np.concatenate([phi[-1:] - 2 * np.pi, phi, phi[:1] + 2 * np.pi])
        parts = np.concatenate([parts[..., -1:], parts, parts[..., :1]], -1)
        for axis, (nodes, at, step) in enumerate(zip((theta, around), there, steps, strict=True), 1):
            parts = _between(parts, nodes, at, step, axis)
        return {name: (parts * e).sum(0) for name, e in zip(("u_theta", "u_phi"), _directions(*there), strict=True)}


def _directions(theta: np.ndarray, phi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The directions of theta and of phi at all combinations of angles, (3, n_theta, n_phi) each."""
    t, p = np.meshgrid(theta, phi, indexing="ij")
    along = np.stack([np.cos(t) * np.cos(p), np.cos(t) * np.sin(p), -np.sin(t)])
    return along, np.stack([-np.sin(p), np.cos(p), np.zeros_like(p)])


def _between(values: np.ndarray, nodes: np.ndarray, at: np.ndarray, step: float, axis: int) -> np.ndarray:
    """Values between nodes along an axis; NaN outside of them, and in gaps that are wider than their usual distance."""
    above = np.clip(np.searchsorted(nodes, at), 1, nodes.size - 1)
    low, high = nodes[above - 1], nodes[above]
    at_node = np.minimum(np.abs(at - low), np.abs(at - high)) < 1e-9
    inside = at_node | ((at > low) & (at < high) & (high - low <= 1.5 * step))
    part = np.where(inside, (at - low) / np.where(high > low, high - low, 1.0), np.nan)
    part = part.reshape([-1 if i == axis else 1 for i in range(values.ndim)])
    before, after = values.take(above - 1, axis), values.take(above, axis)
    # a point at a node needs no other
    found = np.where(part < 1e-6, before, np.where(part > 1 - 1e-6, after, before * (1 - part) + after * part))
    return np.where(np.isfinite(part), found, np.nan)
