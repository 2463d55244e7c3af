"""Transforms between tangent fields on a sphere and their coefficients in vector harmonics."""

import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import pdefit
from pdefit_sphere.harmonics import legendre, packed, quadrature, vectors, waves

_einsum = functools.partial(jnp.einsum, precision=jax.lax.Precision.HIGHEST)
# modes of a scalar: cosines and sines, order m, degree l; 0 where l < m, and for sines of order 0
Modes = Float[Array, "2 m l"]
Values = Float[Array, "theta phi"]


class Matrices(NamedTuple):
    """The constant matrices of the transforms of one grid, as NumPy or JAX arrays."""

    p: Any  # (m, theta, l)
    slope: Any
    over: Any  # m P / sin(theta)
    weights: Any  # (theta,)
    waves: Any  # (phi, 2, m)
    number: Any  # l (l + 1), (l,)


class Sphere(eqx.Module):
    """A sphere with a grid of points for tangent fields of bounded degree.

    Points lie at the zeros of a Legendre polynomial in cos(theta), and at equal distances in phi. No point is a pole.
    Products of three fields of the degree are integrated exactly, so that quadratic terms have no aliasing error.
    The angle theta is 0 at the north pole and pi at the south pole, and phi runs from 0 to 2 pi.

    A tangent field is u = grad psi + n x grad chi. Its potentials have degrees 1 to `degree`. The coefficients belong
    to psi and chi in real harmonics, orthonormal on the unit sphere.

    **Arguments:**

    - `degree`: the largest degree L of harmonics; the smallest wavelength is about 2 pi radius / L.
    - `radius`: in `length_unit`; default 1.
    - `length_unit`: the unit of lengths; default "1".
    """

    degree: int = eqx.field(converter=int, static=True)
    # no static field: recordings of spheres of several radii are evaluated together
    radius: Any = eqx.field(default=1.0, converter=float)
    length_unit: str = eqx.field(default="1", static=True)

    def __check_init__(self):
        if self.degree < 1 or not 0 < self.radius < np.inf:
            raise ValueError(
                f"Sphere expects a degree of 1 or more and a radius above 0, but got {self.degree} and {self.radius}"
            )

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of points along theta and phi."""
        return (3 * self.degree + 2) // 2 + 1, 3 * self.degree + 1 + (self.degree + 1) % 2

    @property
    def theta(self) -> np.ndarray:
        """The colatitudes of the points, from north to south, in radians."""
        return quadrature(*self.shape)[0]

    @property
    def phi(self) -> np.ndarray:
        """The longitudes of the points, from 0, in radians."""
        return quadrature(*self.shape)[1]

    @property
    def weights(self) -> np.ndarray:
        """The area of each point as a fraction of the unit sphere's, (n_theta, 1); over all points their sum is 4 pi."""
        return _matrices(self.degree, self.shape).weights[:, None]

    @property
    def number(self) -> np.ndarray:
        """l (l + 1) for degrees from 0, (L + 1,)."""
        return _matrices(self.degree, self.shape).number

    # --- scalars ---------------------------------------------------------------------------------------------------

    def analysis(self, f: Values) -> Modes:
        """Modes of a scalar field at the points.

        **Arguments:**

        - `f`: the field, (n_theta, n_phi).
        """
        k = self._like(f.dtype)
        return _einsum("mtl,cmt->cml", k.p, self._along(f, k))

    def synthesis(self, modes: Modes) -> Values:
        """The scalar field of given modes, at the points.

        **Arguments:**

        - `modes`: the modes, (2, L + 1, L + 1).
        """
        k = self._like(modes.dtype)
        return self._around(_einsum("mtl,cml->cmt", k.p, modes), k)

    # --- tangent fields ----------------------------------------------------------------------------------------------

    def potentials(self, u_theta: Values, u_phi: Values) -> tuple[Modes, Modes]:
        """Modes of the potentials psi and chi of a tangent field; modes of degree 0 are 0.

        Parts of the field beyond the degree are discarded.

        **Arguments:**

        - `u_theta`, `u_phi`: the components at the points, (n_theta, n_phi).
        """
        k = self._like(u_theta.dtype)
        both = self._along(jnp.stack([u_theta, u_phi]), k)
        slope = _einsum("mtl,vcmt->vcml", k.slope, both)
        over = _turned(_einsum("mtl,vcmt->vcml", k.over, both))
        scale = self.radius * jnp.where(k.number > 0, 1 / jnp.maximum(k.number, 1), 0)[None, None, :]
        # the transpose of _turned is its negative
        return scale * (slope[0] - over[1]), scale * (slope[1] + over[0])

    def tangent(self, psi: Modes, chi: Modes) -> tuple[Values, Values]:
        """The components u_theta and u_phi of a tangent field at the points.

        **Arguments:**

        - `psi`, `chi`: the modes of the potentials, (2, L + 1, L + 1).
        """
        return self._tangent(psi, chi, self._like(psi.dtype))

    def on_raster(
        self, psi: Modes, chi: Modes, theta: tuple[float, ...], phi: tuple[float, ...]
    ) -> tuple[Values, Values]:
        """The components of a tangent field at all combinations of angles, (n_theta, n_phi) each.

        At a pole they are the limits along each meridian.

        **Arguments:**

        - `psi`, `chi`: the modes of the potentials.
        - `theta`, `phi`: the angles in radians.
        """
        known = Matrices(*(jnp.asarray(x, psi.dtype) for x in _raster(self.degree, theta, phi)))
        return self._tangent(psi, chi, known)

    def _tangent(self, psi: Modes, chi: Modes, k: Matrices) -> tuple[Values, Values]:
        both = jnp.stack([psi, chi]) / self.radius
        slope = _einsum("mtl,vcml->vcmt", k.slope, both)
        over = _einsum("mtl,vcml->vcmt", k.over, jnp.stack([_turned(both[0]), _turned(both[1])]))
        u = self._around(jnp.stack([slope[0] - over[1], slope[1] + over[0]]), k)
        return u[0], u[1]

    def divergence(self, psi: Modes) -> Values:
        """The divergence of a tangent field at the points.

        **Arguments:**

        - `psi`: the modes of its first potential.
        """
        return self.synthesis(self.laplacian(psi))

    def vorticity(self, chi: Modes) -> Values:
        """The vorticity of a tangent field at the points, positive for anticlockwise rotation seen from outside.

        **Arguments:**

        - `chi`: the modes of its second potential.
        """
        return self.synthesis(self.laplacian(chi))

    def laplacian(self, modes: Modes) -> Modes:
        """The modes of the Laplacian of a scalar field.

        **Arguments:**

        - `modes`: the modes of the field.
        """
        return modes * jnp.asarray(-self.number / self.radius**2, modes.dtype)[None, None, :]

    def mean(self, f: Values) -> Array:
        """The mean of a scalar field over the sphere.

        **Arguments:**

        - `f`: the field at the points.
        """
        return jnp.sum(jnp.asarray(self.weights / (4 * np.pi), f.dtype) * f)

    # --- lists of coefficients and points --------------------------------------------------------------------------------

    def pack(self, modes: Modes) -> Float[Array, " P"]:
        """Modes as a vector of L (L + 2) coefficients, by degree from 1 and then by order from -l to l.

        Negative orders belong to sines.

        **Arguments:**

        - `modes`: the modes, (2, L + 1, L + 1).
        """
        return modes[packed(self.degree)]

    def unpack(self, coefficients: Float[Array, " P"]) -> Modes:
        """Modes of a vector of coefficients of any length; degrees beyond the sphere's are discarded.

        **Arguments:**

        - `coefficients`: as in `pack`, of any degree.
        """
        found = min(coefficients.shape[0], self.degree * (self.degree + 2))
        kind, m, n = (index[:found] for index in packed(self.degree))
        zeros = jnp.zeros((2, self.degree + 1, self.degree + 1), coefficients.dtype)
        return zeros.at[kind, m, n].set(coefficients[:found])

    def at(self, psi: Modes, chi: Modes, theta: Any, phi: Any) -> Float[Array, "n 2"]:
        """The components of a tangent field at points, (n, 2).

        At a pole they are the limits along the meridian phi.

        **Arguments:**

        - `psi`, `chi`: the modes of the potentials.
        - `theta`, `phi`: the points in radians, (n,) each, not differentiated.
        """
        theta, phi = (np.asarray(x, float).reshape(-1) for x in np.broadcast_arrays(theta, phi))
        if not (np.all(np.isfinite(phi)) and np.all((theta >= 0) & (theta <= np.pi))):
            raise pdefit.PdefitError(
                "Points on a sphere have theta from 0 to pi, from the north pole in radians, and finite phi; convert "
                "latitudes by theta = pi/2 - latitude"
            )
        along, across = (jnp.asarray(x / self.radius, psi.dtype) for x in vectors(self.degree, theta, phi))
        a, b = self.pack(psi), self.pack(chi)
        dot = functools.partial(jnp.matmul, precision=jax.lax.Precision.HIGHEST)
        return jnp.stack([dot(along, a) - dot(across, b), dot(across, a) + dot(along, b)], -1)

    def _like(self, dtype: Any) -> Any:
        return jax.tree.map(lambda x: jnp.asarray(x, dtype), _matrices(self.degree, self.shape))

    def _along(self, f: Array, k: Matrices) -> Array:
        """Weighted sums of values over longitudes, (..., 2, m, theta)."""
        return _einsum("...tp,pcm->...cmt", f * jnp.broadcast_to(k.weights[:, None], f.shape), k.waves)

    def _around(self, sums: Array, k: Matrices) -> Array:
        return _einsum("...cmt,pcm->...tp", sums, k.waves)


def _turned(modes: Array) -> Array:
    """The derivative in phi divided by m, of modes or sums with cosines and sines along the axis -3."""
    return jnp.stack([modes[..., 1, :, :], -modes[..., 0, :, :]], -3)


@functools.lru_cache
def _matrices(degree: int, shape: tuple[int, int]) -> Matrices:
    theta, phi, weights = quadrature(*shape)
    return _raster(degree, tuple(theta), tuple(phi))._replace(weights=weights)


@functools.lru_cache
def _raster(degree: int, theta: tuple[float, ...], phi: tuple[float, ...]) -> Matrices:
    m, there, around = np.arange(degree + 1), np.asarray(theta, float), np.asarray(phi, float)
    # no sum over these points is an integral
    weights = np.full(len(theta), np.nan)
    return Matrices(*legendre(degree, there), weights, np.stack(waves(degree, around), 1), m * (m + 1.0))
