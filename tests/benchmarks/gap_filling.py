"""Static reconstructions of missing vectors: from the vectors around a gap, without equations of motion.

Every function takes positions (nx,) and (ny,) and a field (nx, ny, 2) with NaN in the gap, and returns the field with the
gap filled: `harmonic`, `thin_plate` and `gaussian_process`. The last two use the vectors within `MARGIN` spacings of the gap.
"""

from typing import NamedTuple

import numpy as np
from scipy.interpolate import RBFInterpolator
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize
from scipy.sparse import lil_array
from scipy.sparse.linalg import spsolve

MARGIN = 12


def harmonic(x, y, field):
    """The solution of the Laplace equation in all that is missing, with no flux through the edges of the field."""
    missing = np.isnan(field[..., 0])
    number = np.cumsum(missing).reshape(missing.shape) - 1
    matrix, right = lil_array((missing.sum(), missing.sum())), np.zeros((missing.sum(), 2))
    for i, j in np.argwhere(missing):
        for k, m in ((i - 1, j), (i + 1, j), (i, j - 1), (i, j + 1)):
            if 0 <= k < missing.shape[0] and 0 <= m < missing.shape[1]:
                matrix[number[i, j], number[i, j]] += 1
                if missing[k, m]:
                    matrix[number[i, j], number[k, m]] -= 1
                else:
                    right[number[i, j]] += field[k, m]
    found = field.copy()
    found[missing] = np.stack([spsolve(matrix.tocsr(), b) for b in right.T], -1)
    return found


def thin_plate(x, y, field, gap, smoothing=0.0):
    """The thin-plate spline through the vectors around a gap (nx, ny), or near them.

    **Arguments:**

    - `smoothing`: 0 interpolates, and more smooths noise. Lengths are in spacings.
    """
    places, values, wanted = _around(x, y, field, gap, MARGIN)
    found = field.copy()
    found[gap] = RBFInterpolator(places, values, kernel="thin_plate_spline", smoothing=smoothing)(wanted)
    return found


class Scales(NamedTuple):
    """Scales of a Gaussian process: lengths in spacings, and sizes in standard deviations of the smooth part.

    - `length`: of the smooth part.
    - `rough_length`, `rough_size`: of what is correlated between neighbours only, such as errors of overlapping windows.
    """

    length: float
    rough_length: float
    rough_size: float


def likeliest(x, y, field, gap, solenoidal=True, most=250) -> Scales:
    """The scales of the Gaussian process that explains the vectors around a gap best.

    The likelihood is that of `most` vectors within 6 spacings of the gap. The variance of the smooth part follows.

    **Arguments:**

    - `solenoidal`: as of `gaussian_process`.
    """
    places, values, _ = _around(x, y, field, gap, 6)
    chosen = np.random.default_rng(0).permutation(len(places))[:most]
    places, flat = places[chosen], (values - values.mean(axis=0))[chosen].ravel()

    def unlikely(theta):
        factor = cho_factor(_with_errors(places, Scales(*np.exp(theta)), solenoidal), lower=True)
        # at the likeliest variance
        return flat.size / 2 * np.log(flat @ cho_solve(factor, flat)) + np.log(np.diag(factor[0])).sum()

    bounds = np.log([(3.0, 60.0), (0.5, 2.5), (0.03, 2.0)])
    options = {"xatol": 0.05, "fatol": 0.1}
    return Scales(
        *np.exp(minimize(unlikely, np.log([8.0, 1.2, 0.2]), method="Nelder-Mead", bounds=bounds, options=options).x)
    )


def gaussian_process(x, y, field, gap, scales: Scales, solenoidal=True):
    """The mean of a Gaussian process, given the vectors around a gap: the best linear estimate, if the process is right.

    The process is the sum of a smooth part and a rough one. The stream function of the smooth part is a Matern process, so
    that its velocity has derivatives but no divergence.

    **Arguments:**

    - `scales`: as of `likeliest`.
    - `solenoidal`: false takes for the smooth part, too, components that are independent of each other.

    Source: F. J. Narcowich, J. D. Ward, Math. Comp. 63:661 (1994), doi:10.1090/S0025-5718-1994-1254147-6, for the kernel.
    """
    places, values, wanted = _around(x, y, field, gap, MARGIN)
    mean = values.mean(axis=0)
    weights = cho_solve(cho_factor(_with_errors(places, scales, solenoidal), lower=True), (values - mean).ravel())
    both = _covariance(wanted, places, scales.length, solenoidal) + _rough(wanted, places, scales)
    found = field.copy()
    found[gap] = mean + (both @ weights).reshape(-1, 2)
    return found


def _with_errors(places, scales, solenoidal):
    matrix = _covariance(places, places, scales.length, solenoidal) + _rough(places, places, scales)
    # vectors are known to a hundredth of the fluctuation at best
    matrix[np.diag_indices_from(matrix)] += 1e-4
    return matrix


def _rough(a, b, scales):
    return scales.rough_size**2 * _covariance(a, b, scales.rough_length, solenoidal=False)


def _around(x, y, field, gap, margin):
    """Places (n, 2) and values (n, 2) of the vectors around a gap, and the places of the gap; lengths in spacings."""
    mesh = np.stack(np.meshgrid(x / (x[1] - x[0]), y / (y[1] - y[0]), indexing="ij"), -1)
    inside = np.argwhere(gap)
    lower, upper = inside.min(axis=0) - margin, inside.max(axis=0) + margin + 1
    near = np.zeros(gap.shape, bool)
    near[max(lower[0], 0) : upper[0], max(lower[1], 0) : upper[1]] = True
    near &= ~gap & np.isfinite(field[..., 0])
    return mesh[near], field[near], mesh[gap]


def _covariance(a, b, length, solenoidal):
    """Covariances of unit velocities at places (n, 2) and (m, 2), as (2 n, 2 m)."""
    d = (a[:, None] - b[None]) * np.sqrt(7.0 if solenoidal else 5.0) / length
    s = np.sqrt((d**2).sum(-1))
    own = np.exp(-s) * (s**2 + 3 * s + 3) / 3
    if solenoidal:
        # second derivatives of the Matern function with 7/2: g delta_ij - h d_i d_j, for u = psi_y and v = -psi_x
        h = np.exp(-s) * (s + 1) / 3
        xx, yy, xy = own - h * d[..., 1] ** 2, own - h * d[..., 0] ** 2, h * d[..., 0] * d[..., 1]
    else:
        xx, yy, xy = own, own, np.zeros_like(own)
    return np.stack([np.stack([xx, xy], -1), np.stack([xy, yy], -1)], -2).transpose(0, 2, 1, 3).reshape(2 * len(a), -1)
