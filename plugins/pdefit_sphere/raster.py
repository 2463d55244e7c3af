"""Observation of a flow on a sphere at a raster of angles."""

import dataclasses
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

import pdefit
from pdefit.instruments import AbstractObservationOperator
from pdefit_sphere.flow import AbstractSphereFlow
from pdefit_sphere.poles import check_poles
from pdefit_sphere.transforms import Sphere

NAMES = ("u_theta", "u_phi")
_ROUND_OFF = 1e-5


def _angles(value: Any) -> tuple[float, ...] | None:
    return None if value is None else tuple(float(x) for x in np.asarray(value, float).reshape(-1))


class Raster(AbstractObservationOperator):
    """The operator that observes the velocity at all combinations of angles, exactly.

    Components at a pole are their limits along each meridian.

    **Arguments:**

    - `theta`: the colatitudes, from 0 at the north pole to pi, (n_theta,), in radians; by default as in the data file.
    - `phi`: the longitudes, increasing by less than 2 pi, (n_phi,), in radians; by default as in the data file.
    - `sphere`: the sphere; by default the system's.
    """

    theta: tuple[float, ...] | None = eqx.field(default=None, converter=_angles, static=True)
    phi: tuple[float, ...] | None = eqx.field(default=None, converter=_angles, static=True)
    sphere: Sphere | None = None

    def __check_init__(self):
        theta, phi = self.theta, self.phi
        if (theta is None) != (phi is None):
            raise ValueError("Raster expects theta and phi, or neither for those of the data file; give both")
        if theta is None or phi is None:
            return
        if not all(0 <= x <= np.pi for x in theta) or not np.all(np.isfinite(phi)):
            raise ValueError(
                "Raster expects theta from 0 to pi, from the north pole in radians, and finite phi; convert latitudes by "
                f"theta = pi/2 - latitude, and state the unit of degrees (theta is {min(theta):.4g} to {max(theta):.4g})"
            )
        if np.any(np.diff(phi) <= 0) or phi[-1] - phi[0] > 2 * np.pi * (1 - 1e-9):
            raise ValueError(
                f"Raster expects phi that increases by less than 2 pi, but got {phi[0]:.4g} to {phi[-1]:.4g}; sort the "
                f"longitudes, and leave out the last one where it repeats the first"
            )

    def on(self, system):
        if not isinstance(system, AbstractSphereFlow):
            raise pdefit.PdefitError(f"Raster observes a flow on a sphere, not {type(system).__name__}")
        return dataclasses.replace(self, sphere=system.sphere)

    @property
    def relocates(self):
        return True

    @property
    def lacks_points(self):
        return self.theta is None

    def along(self, axes):
        if not self.lacks_points:
            return self
        # round-off of single precision at the south pole
        theta = np.where(np.abs(axes["theta"] - np.pi) < _ROUND_OFF, np.pi, axes["theta"])
        try:
            return dataclasses.replace(self, theta=theta, phi=axes["phi"])
        except ValueError as error:
            raise pdefit.PdefitError(str(error)) from None

    def located(self, observations):
        if self.lacks_points:
            return observations
        theta, phi = np.asarray(self.theta), np.asarray(self.phi)
        shape = (theta.size, phi.size)
        names = [n for n in NAMES if n in observations.values and observations.values[n].shape[1:] == shape]
        if len(names) == len(NAMES):
            u, v = (np.where(observations.mask[n], np.asarray(observations.values[n], float), np.nan) for n in NAMES)
            check_poles(u, v, theta, phi, max(float(np.mean(observations.sigma[n])) for n in NAMES))
        where = np.stack(np.meshgrid(theta, phi, indexing="ij"), -1)[None]
        return dataclasses.replace(
            observations, positions={**observations.positions, **dict.fromkeys(names, jnp.asarray(where))}
        )

    def moved(self, coords):
        where = {"theta": np.asarray(self.theta), "phi": np.asarray(self.phi)}
        return {name: dataclasses.replace(found, coords=where) for name, found in coords.items()}

    def __call__(self, t, y, args):
        if self.theta is None or self.phi is None:
            raise pdefit.PdefitError("Raster has no angles, and no file states them; give it theta and phi")
        if self.sphere is None:
            raise pdefit.PdefitError("Raster takes the sphere of a system; call on(system) first")
        psi, chi = self.sphere.potentials(y.u_theta, y.u_phi)
        u_theta, u_phi = self.sphere.on_raster(psi, chi, self.theta, self.phi)
        return {"u_theta": u_theta, "u_phi": u_phi}

    def returned(self, values, coords):
        """Observed vectors at other angles, by linear interpolation on the raster; NaN next to missing vectors."""
        if (
            self.theta is None
            or self.phi is None
            or "u_theta" not in coords
            or not {"u_theta", "u_phi"} <= values.keys()
        ):
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
    """Values between nodes along an axis, interpolated; NaN outside of them, and in gaps wider than 1.5 `step`."""
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
