"""Static reconstructions of missing vectors: from the vectors around a gap, without equations of motion.

Every function takes positions (nx,) and (ny,) and a field (nx, ny, 2) with NaN in the gap, and returns the field with the
gap filled: `harmonic`, `thin_plate` and `gaussian_process`. Only the vectors within `MARGIN` spacings of the gap are used.
"""

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


def gaussian_process(x, y, field, gap, solenoidal=True):
    """The mean of a Gaussian process, given the vectors around a gap: the best linear estimate, if the process is right.

    The stream function is a Matern process, so that the velocity has derivatives but no divergence. Length and noise
    have the largest likelihood of the vectors within 6 spacings of the gap, and the variance follows from them.

    **Arguments:**

    - `solenoidal`: false takes a Matern process for each component, independent of the other.

    Returns the field, and its length in spacings and noise as a part of the standard deviation.

    Source: F. J. Narcowich, J. D. Ward, Math. Comp. 63:661 (1994), doi:10.1090/S0025-5718-1994-1254147-6, for the kernel.
    """
    near, values, _ = _around(x, y, field, gap, 6)
    mean = values.mean(axis=0)

    def unlikely(theta):
        # the variance is where its derivative vanishes; what is left depends on length and noise
        matrix = _covariance(near, near, np.exp(theta[0]), solenoidal)
        matrix[np.diag_indices_from(matrix)] += np.exp(2 * theta[1])
        try:
            factor = cho_factor(matrix, lower=True)
        except np.linalg.LinAlgError:
            return 1e10
        flat = (values - mean).ravel()
        return flat.size / 2 * np.log(flat @ cho_solve(factor, flat)) + np.log(np.diag(factor[0])).sum()

    # within bounds: a long process without noise cannot be told from a singular matrix
    bounds = [(np.log(1.0), np.log(40.0)), (np.log(0.003), np.log(2.0))]
    start = np.log([6.0, 0.2])
    best = minimize(unlikely, start, method="Nelder-Mead", bounds=bounds, options={"xatol": 0.03, "fatol": 0.05})
    length, noise = np.exp(best.x)
    places, values, wanted = _around(x, y, field, gap, MARGIN)
    matrix = _covariance(places, places, length, solenoidal)
    matrix[np.diag_indices_from(matrix)] += noise**2
    weights = cho_solve(cho_factor(matrix, lower=True), (values - mean).ravel())
    found = field.copy()
    found[gap] = mean + (_covariance(wanted, places, length, solenoidal) @ weights).reshape(-1, 2)
    return found, length, noise


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
