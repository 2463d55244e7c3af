"""Real spherical harmonics of NumPy, normalised to 1 on the unit sphere: constants of the transforms.

The harmonic of degree l and order m is P(cos theta) times sqrt(2) cos(m phi), 1 or sqrt(2) sin(m phi). The packed index
is l^2 - 1 + l + m for l >= 1: orders m from -l to l, where negative orders are the sines.
"""

import functools

import numpy as np


def legendre(degree: int, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Normalised associated Legendre functions P, their derivatives in theta, and m P / sin(theta), each (m, n, l).

    The last two are finite at the poles. All follow from a stable recurrence of P / sin(theta)^m in the degree.

    **Arguments:**

    - `degree`: the largest degree L; there are L + 1 orders and degrees.
    - `theta`: the colatitudes, (n,).

    Source: S. A. Holmes, W. E. Featherstone, J. Geodesy 76:279 (2002), doi:10.1007/s00190-002-0216-2.
    """
    x, s = np.cos(theta), np.sin(theta)
    p, slope, over = (np.zeros((degree + 1, len(theta), degree + 1)) for _ in range(3))
    top = np.sqrt(1 / (4 * np.pi))
    for m in range(degree + 1):
        if m:
            top *= np.sqrt((2 * m + 1) / (2 * m))
        # q = P / sin^m, and its slope in x
        q, dq = np.zeros((degree + 1, len(theta))), np.zeros((degree + 1, len(theta)))
        q[m] = top
        for n in range(m + 1, degree + 1):
            a, b = _ratio(n, m), _ratio(n - 1, m) if n > m + 1 else np.inf
            q[n] = a * (x * q[n - 1] - q[n - 2] / b)
            dq[n] = a * (q[n - 1] + x * dq[n - 1] - dq[n - 2] / b)
        power = s**m
        below = s ** (m - 1) if m else np.zeros_like(s)
        p[m], over[m] = (power * q).T, (m * below * q).T
        slope[m] = (m * below * x * q - power * s * dq).T
    return p, slope, over


def _ratio(n: int, m: int) -> float:
    return float(np.sqrt((4 * n * n - 1) / (n * n - m * m)))


def waves(degree: int, phi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """sqrt(2) cos(m phi), 1 for m = 0, and sqrt(2) sin(m phi), each (n, m).

    **Arguments:**

    - `degree`: the largest order.
    - `phi`: the longitudes, (n,).
    """
    m = np.arange(degree + 1)
    scale = np.where(m == 0, 1.0, np.sqrt(2.0))
    return scale * np.cos(np.outer(phi, m)), scale * np.sin(np.outer(phi, m))


@functools.cache
def packed(degree: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Indices (kind, m, l) of packed harmonics in modes (2, m, l), where kind is 0 for cosines and 1 for sines.

    **Arguments:**

    - `degree`: the largest degree.
    """
    pairs = [(m, n) for n in range(1, degree + 1) for m in range(-n, n + 1)]
    m, n = np.asarray(pairs, int).reshape(-1, 2).T
    return (m < 0).astype(int), np.abs(m), n


def vectors(degree: int, theta: np.ndarray, phi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Derivatives of harmonics at points along theta and, divided by sin(theta), along phi, each (n, P).

    grad Y has these components on the unit sphere, and n x grad Y has (-second, first).

    **Arguments:**

    - `degree`: the largest degree.
    - `theta`, `phi`: the points, (n,) each.
    """
    _, slope, over = legendre(degree, theta)
    cosines, sines = waves(degree, phi)
    kind, m, n = packed(degree)
    even = np.where(kind == 0, cosines[:, m], sines[:, m])
    odd = np.where(kind == 0, -sines[:, m], cosines[:, m])
    return slope[m, :, n].T * even, over[m, :, n].T * odd


def scalars(degree: int, theta: np.ndarray, phi: np.ndarray) -> np.ndarray:
    """The harmonics of degree 1 and more at points, (n, P).

    **Arguments:** as in `vectors`.
    """
    p = legendre(degree, theta)[0]
    cosines, sines = waves(degree, phi)
    kind, m, n = packed(degree)
    return p[m, :, n].T * np.where(kind == 0, cosines[:, m], sines[:, m])


def quadrature(latitudes: int, longitudes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Colatitudes, from north to south, and longitudes of a grid, and the quadrature weights (n_theta,) of its points.

    The Gauss-Legendre quadrature is exact up to the degree 2 n_theta - 1.

    **Arguments:**

    - `latitudes`, `longitudes`: the numbers of points.
    """
    x, weights = np.polynomial.legendre.leggauss(latitudes)
    phi = 2 * np.pi / longitudes * np.arange(longitudes)
    return np.arccos(x[::-1]), phi, weights[::-1] * 2 * np.pi / longitudes
