"""Rotations of scalar fields, and so of the potentials of tangent fields, as maps of coefficients."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pdefit_sphere.harmonics import packed, quadrature, scalars

# a quarter turn about y: angles of a rotation times this are regular where the rotation keeps the poles
_ASIDE = np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]])
# and a quarter turn about x, which makes a turn about z one about y
_TILT = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]])


def matrix(vector: Float[Array, " 3"]) -> Float[Array, "3 3"]:
    """Rotation matrix from an axis times an angle; smooth at 0.

    **Arguments:**

    - `vector`: the axis times the angle in radians, (3,).
    """
    square = jnp.sum(vector**2)
    small = square < 1e-3
    safe = jnp.sqrt(jnp.where(small, 1.0, square))
    a = jnp.where(small, 1 - square / 6 * (1 - square / 20 * (1 - square / 42)), jnp.sin(safe) / safe)
    b = jnp.where(small, 0.5 - square / 24 * (1 - square / 30 * (1 - square / 56)), (1 - jnp.cos(safe)) / safe**2)
    x, y, z = vector
    zero = jnp.zeros_like(x)
    k = jnp.stack([zero, -z, y, z, zero, -x, -y, x, zero]).reshape(3, 3)
    return jnp.eye(3, dtype=vector.dtype) + a * k + b * jnp.matmul(k, k, precision=jax.lax.Precision.HIGHEST)


def rotated(coefficients: Float[Array, "P c"], rotation: Array) -> Float[Array, "P c"]:
    """Coefficients of f(R^-1 x), for a scalar field f in each column.

    The Euler angles have no gradient if R maps the x axis exactly to a pole.

    **Arguments:**

    - `coefficients`: packed as in `Sphere.pack`, (P, c).
    - `rotation`: the rotation R: an axis times an angle, (3,), or an angle about the polar axis, (), in radians.
    """
    degree = round(np.sqrt(coefficients.shape[0] + 1)) - 1
    if rotation.ndim == 0:
        return _turned(coefficients, rotation, degree)
    constants = _constants(degree)
    aside, tilt, back = (jnp.asarray(x, coefficients.dtype) for x in constants)
    # R = (turn by a about z) (turn by b about y) (turn by c about z) (quarter turn back)
    product = jnp.matmul(matrix(rotation), jnp.asarray(_ASIDE, rotation.dtype), precision=jax.lax.Precision.HIGHEST)
    first = jnp.arctan2(product[1, 2], product[0, 2])
    second = jnp.arctan2(jnp.hypot(product[0, 2], product[1, 2]), product[2, 2])
    last = jnp.arctan2(product[2, 1], -product[2, 0])
    found = _applied(aside, coefficients, degree)
    found = _applied(tilt, _turned(found, last, degree), degree)
    found = _applied(back, _turned(found, second, degree), degree)
    return _turned(found, first, degree)


def _turned(coefficients: Array, angle: Array, degree: int) -> Array:
    """The coefficients of a field turned about the polar axis."""
    kind, m, n = packed(degree)
    # the harmonic of the same degree and order of the other kind
    other = n * n - 1 + n + np.where(kind == 0, -m, m)
    cos, sin = jnp.cos(m * angle), jnp.sin(m * angle)
    sign = jnp.asarray(np.where(kind == 0, -1.0, 1.0), coefficients.dtype)
    cos, sin = (x.astype(coefficients.dtype)[:, None] for x in (cos, sin))
    return cos * coefficients + sign[:, None] * sin * coefficients[other]


def _applied(blocks: Array, coefficients: Array, degree: int) -> Array:
    """Product of a matrix for each degree, in blocks (l, 2 L + 1, 2 L + 1), with coefficients."""
    rows, places = _places(degree)
    padded = jnp.zeros((degree, 2 * degree + 1, coefficients.shape[1]), coefficients.dtype)
    padded = padded.at[rows, places].set(coefficients)
    return jnp.einsum("lij,ljc->lic", blocks, padded, precision=jax.lax.Precision.HIGHEST)[rows, places]


@functools.cache
def _places(degree: int) -> tuple[np.ndarray, np.ndarray]:
    kind, m, n = packed(degree)
    return n - 1, np.where(kind == 0, m, -m) + n


@functools.cache
def _constants(degree: int) -> tuple[Any, Any, Any]:
    """Blocks of every degree for the inverse of _ASIDE, for _TILT and for its inverse."""
    # R_y(b) = T^-1 R_z(b) T with T = R_x(90 degrees)
    return _blocks(degree, _ASIDE.T), _blocks(degree, _TILT), _blocks(degree, _TILT.T)


def _blocks(degree: int, rotation: np.ndarray) -> np.ndarray:
    theta, phi, weights = quadrature(degree + 1, 2 * degree + 1)
    theta, phi = (x.reshape(-1) for x in np.meshgrid(theta, phi, indexing="ij"))
    points = np.stack([np.sin(theta) * np.cos(phi), np.sin(theta) * np.sin(phi), np.cos(theta)], -1) @ rotation
    moved = np.arctan2(np.hypot(points[:, 0], points[:, 1]), points[:, 2]), np.arctan2(points[:, 1], points[:, 0])
    area = np.repeat(weights, 2 * degree + 1)
    whole = (scalars(degree, theta, phi).T * area) @ scalars(degree, *moved)
    blocks = np.zeros((degree, 2 * degree + 1, 2 * degree + 1))
    for n in range(1, degree + 1):
        part = slice(n * n - 1, (n + 1) ** 2 - 1)
        blocks[n - 1, : 2 * n + 1, : 2 * n + 1] = whole[part, part]
    return blocks
