"""Smoothing of tangent vectors at knots in time and on a sphere."""

import dataclasses
import functools

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from pdefit.capabilities import Smoother
from pdefit_sphere.harmonics import packed, vectors
from pdefit_sphere.knots import places


@dataclasses.dataclass(frozen=True)
class KnotSmoother(Smoother):
    """The operator S from a search variable z to tangent vectors at knots: vector harmonics times cosines in time.

    Both have the same shape. The first elements of z at each time are the coefficients of gradients and of curls, by
    degree and order; all other elements have no effect. Harmonics of degree l are multiplied by (1 + length^2 l (l +
    1))^-order, and cosines of the frequency k by (1 + time^2 k^2)^-order. So the covariance S S^T is invariant under
    rotations.

    **Arguments:**

    - `knots`: the numbers of knots in time, along theta and along phi.
    - `times`: the knots in time.
    - `degree`: the largest degree of harmonics.
    - `length`: the smoothing length, in radians.
    - `time`: the smoothing time, in the unit of `times`.
    - `order`: the exponent of the decay.
    - `amplitude`: the standard deviation of a component of S z, over sphere and time, for a z of unit variance; with
      None the largest factor is 1.
    """

    knots: tuple[int, ...]
    times: tuple[float, ...]
    degree: int
    length: float
    time: float
    order: float
    amplitude: float | None

    def smooth(self, z: Float[Array, "t theta phi 2"]) -> Float[Array, "t theta phi 2"]:
        along, out = (jnp.asarray(x, z.dtype) for x in _matrices(self)[:2])
        return (along @ z.reshape(len(along), -1)[:, : out.shape[1]] @ out.T).reshape(z.shape)

    def unsmooth(self, x: Float[Array, "t theta phi 2"]) -> Float[Array, "t theta phi 2"]:
        # that of the nearest field
        along, _, back = (jnp.asarray(m, x.dtype) for m in _matrices(self))
        found = jnp.linalg.solve(along, x.reshape(len(along), -1)) @ back.T
        return jnp.pad(found, [(0, 0), (0, x[0].size - found.shape[1])]).reshape(x.shape)

    @property
    def variance(self) -> Float[np.ndarray, "t theta phi 2"]:
        along, out, _ = _matrices(self)
        return np.outer(np.sum(along**2, 1), np.sum(out**2, 1)).reshape(*self.knots, 2)

    @property
    def groups(self) -> Int[np.ndarray, "t theta phi 2"]:
        # by degree, and by octave in time
        found = np.zeros((self.knots[0], 2 * self.knots[1] * self.knots[2]), int)
        degrees = np.tile(packed(self.degree)[2], 2)
        octave = np.ceil(np.log2(np.arange(self.knots[0]) + 1)).astype(int)
        found[:, : degrees.size] = degrees + (self.degree + 1) * octave[:, None]
        return found.reshape(*self.knots, 2)


@functools.lru_cache
def _matrices(of: KnotSmoother) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The factor in time, the matrix from coefficients to vectors at knots, and the matrix back."""
    count, *knots = of.knots
    theta, phi = places((knots[0], knots[1]))
    a, b = vectors(of.degree, *(x.reshape(-1) for x in np.meshgrid(theta, phi, indexing="ij")))
    degrees = np.tile(packed(of.degree)[2], 2)
    number = degrees * (degrees + 1.0)
    # orthonormal vector harmonics at the knots, rows by place and component
    harmonics = np.stack([np.hstack([a, -b]), np.hstack([b, a])], 1).reshape(-1, 2 * a.shape[1]) / np.sqrt(number)
    root = np.sqrt(np.repeat(np.sin(theta), 2 * knots[1]))
    back = np.linalg.pinv(root[:, None] * harmonics) * root
    factor = (1 + of.length**2 * number) ** -of.order
    spacing = (of.times[-1] - of.times[0]) / (count - 1) if count > 1 else 1.0
    slow = (1 + (of.time * np.pi * np.arange(count) / (count * spacing)) ** 2) ** -of.order
    cosines = np.cos(np.pi * np.outer(np.arange(count) + 0.5, np.arange(count)) / count)
    cosines /= np.linalg.norm(cosines, axis=0)
    if of.amplitude is not None:
        # each component has half of the mean square of a tangent vector
        factor *= of.amplitude / np.sqrt(np.sum(factor**2) / (8 * np.pi))
        slow /= np.sqrt(np.mean(slow**2))
    return cosines * slow, harmonics * factor, back / factor[:, None]
