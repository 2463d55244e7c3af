"""Cubic splines with continuous second derivatives, in time and on a sphere."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pdefit_sphere.harmonics import packed, quadrature, vectors


def time_weights(times: tuple[float, ...], t: Array) -> Float[Array, " K"]:
    """Weights of the values at knots in time in the natural cubic spline through them.

    Outside of the knots it is linear. Its second derivative is continuous everywhere, and 0 at both ends.

    **Arguments:**

    - `times`: the knots, increasing, (K,). With one knot the spline is constant.
    - `t`: the time, in the unit of the knots.
    """
    n = len(times)
    if n == 1:
        return jnp.ones(1, jnp.result_type(t, float))
    knots, bends = jnp.asarray(times), jnp.asarray(_bends(times))
    unit = jnp.eye(n)
    inside = jnp.clip(t, knots[0], knots[-1])
    i = jnp.clip(jnp.searchsorted(knots, inside, side="right") - 1, 0, n - 2)
    h = knots[i + 1] - knots[i]
    b = (inside - knots[i]) / h
    a = 1 - b
    value = a * unit[i] + b * unit[i + 1] + h**2 / 6 * ((a**3 - a) * bends[i] + (b**3 - b) * bends[i + 1])
    slope = (unit[i + 1] - unit[i]) / h + h / 6 * ((1 - 3 * a**2) * bends[i] + (3 * b**2 - 1) * bends[i + 1])
    return value + (t - inside) * slope


@functools.lru_cache
def _bends(times: tuple[float, ...]) -> np.ndarray:
    """Second derivatives of the natural spline at its knots from the values there, as a matrix (K, K)."""
    h, n = np.diff(times), len(times)
    left, right = np.eye(n), np.zeros((n, n))
    for i in range(1, n - 1):
        left[i, i - 1 : i + 2] = h[i - 1] / 6, (h[i - 1] + h[i]) / 3, h[i] / 6
        right[i, i - 1 : i + 2] = 1 / h[i - 1], -1 / h[i - 1] - 1 / h[i], 1 / h[i]
    return np.linalg.solve(left, right)


def places(knots: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Colatitudes of knots, the first and the last half a knot distance from the poles, and their longitudes.

    **Arguments:**

    - `knots`: the numbers of knots along theta and phi.
    """
    return np.pi * (np.arange(knots[0]) + 0.5) / knots[0], 2 * np.pi * np.arange(knots[1]) / knots[1]


@functools.lru_cache
def projection(knots: tuple[int, int], degree: int) -> np.ndarray:
    """Linear map from tangent vectors at knots to the potentials of their spline, (P, 2, K_theta, K_phi, 2).

    Splines run along circles of latitude, and along meridians across both poles, where components along theta and phi
    change sign. The spline is then projected onto vector harmonics up to a degree, which are smooth at the poles, where
    the components of a spline need not be consistent.

    **Arguments:**

    - `knots`: the numbers of knots along theta and phi.
    - `degree`: the largest degree of harmonics.
    """
    size = 2 * max(degree, knots[0], (knots[1] + 1) // 2) + 2
    theta, phi, area = quadrature(size, 2 * size)
    ring = _ring(2 * knots[0], theta * knots[0] / np.pi - 0.5)
    here, opposite = (_ring(knots[1], (phi + shift) * knots[1] / (2 * np.pi)) for shift in (0.0, np.pi))
    sampled = np.einsum("ti,pj->tpij", ring[:, : knots[0]], here)
    sampled -= np.einsum("ti,pj->tpij", ring[:, : knots[0] - 1 : -1], opposite)
    mesh = (x.reshape(-1) for x in np.meshgrid(theta, phi, indexing="ij"))
    along, across = vectors(degree, *mesh)
    degrees = packed(degree)[2]
    along, across = (x * np.repeat(area, 2 * size)[:, None] / (degrees * (degrees + 1)) for x in (along, across))
    flat = sampled.reshape(len(along), -1)
    a, b = ((x.T @ flat).reshape(-1, *knots) for x in (along, across))
    return np.stack([np.stack([a, b], -1), np.stack([-b, a], -1)], 1)


def _ring(n: int, x: np.ndarray) -> np.ndarray:
    """Weights of the values at n knots on a ring in the cubic spline at x between 0 and n, (points, n)."""
    unit = np.eye(n)
    # every value is a mean of three coefficients of the B-splines around it
    coefficients = np.linalg.inv((np.roll(unit, 1, 0) + 4 * unit + np.roll(unit, -1, 0)) / 6)
    distance = (x[:, None] - np.arange(n) + n / 2) % n - n / 2
    d = np.abs(distance)
    basis = np.where(d < 1, 2 / 3 - d**2 + d**3 / 2, np.where(d < 2, (2 - d) ** 3 / 6, 0.0))
    return basis @ coefficients


def weighted(weights: Array, values: Array) -> Array:
    """A weighted sum of values over their first axis, in their dtype.

    **Arguments:**

    - `weights`: (K,).
    - `values`: (K, ...).
    """
    return jnp.tensordot(weights.astype(values.dtype), values, 1, precision=jax.lax.Precision.HIGHEST)


def knots_in_time(times: Any, count: int) -> tuple[float, ...]:
    """Knots in time, from the first and the last knot or from all of them.

    **Arguments:**

    - `times`: the first and last time, or all; None for one knot.
    - `count`: the number of knots.
    """
    if count == 1 and times is None:
        return (0.0,)
    given = np.asarray(times, float).reshape(-1)
    found = np.linspace(given[0], given[-1], count) if given.size == 2 else given
    if found.size != count or not np.all(np.isfinite(found)) or not np.all(np.diff(found) > 0):
        raise ValueError(
            f"A force with {count} knots in time expects its first and last time, or {count} increasing times, but got "
            f"{np.shape(times)}"
        )
    return tuple(found.tolist())
