"""Check of vectors in rows at a pole, where all longitudes show one vector."""

import numpy as np

import pdefit

# how near to a pole a row is one there, in radians
_NEAR = 1e-6
# deviations of the noise below which vectors may be nothing but noise
_NOISE = 3.0
# the part of the mean square that one vector must explain, and of another reading's that it may leave
_EXPLAINED, _WORSE = 0.5, 0.5


def check_poles(u_theta: np.ndarray, u_phi: np.ndarray, theta: np.ndarray, phi: np.ndarray, sigma: float) -> None:
    """Refuse rows at a pole whose vectors are not a single vector, expressed along each meridian.

    At the north pole a vector (a, b) has the components a cos(phi) + b sin(phi) along theta, and -a sin(phi) + b
    cos(phi) along phi. At the south pole the component along theta changes sign. A better fit of another convention
    shows the mistake in the file: the component along theta points north, or the components were swapped.

    **Arguments:**

    - `u_theta`, `u_phi`: the components, (T, n_theta, n_phi), NaN where missing.
    - `theta`, `phi`: the angles, (n_theta,) and (n_phi,), in radians.
    - `sigma`: the standard deviation of a component.
    """
    for row, name, sign in (*((i, "north", 1.0) for i in np.flatnonzero(theta < _NEAR)),
                            *((i, "south", -1.0) for i in np.flatnonzero(theta > np.pi - _NEAR))):  # fmt: skip
        u, v = u_theta[:, row], u_phi[:, row]
        # a single meridian shows any vector
        if np.max(np.sum(np.isfinite(u * v), axis=1)) < 3:
            continue
        size, left = np.nanmean(u**2 + v**2), _misfit(sign * u, v, phi)
        others = {
            "the component along theta seems to point north, so change its sign": _misfit(-sign * u, v, phi),
            "the components seem to be swapped, so name them the other way round": _misfit(sign * v, u, phi),
            "its vectors seem to have the components of one fixed frame, so turn them by phi": _fixed(u, v),
        }
        told, best = min(others.items(), key=lambda item: item[1])
        is_other = best < _WORSE * left
        if left > (1 - _EXPLAINED) * size and (is_other or size > 2 * (_NOISE * sigma) ** 2):
            what = told if is_other else "correct it, or leave that row out"
            raise pdefit.PdefitError(
                f"The row at the {name} pole (theta = {theta[row]:.4g}) expects one vector, whose components turn as cos and "
                f"sin of phi, but {left / size:.0%} of the mean square is none; {what}"
            )


def _misfit(u: np.ndarray, v: np.ndarray, phi: np.ndarray) -> float:
    """Mean square residual of the best vector of each frame, for rows (T, n_phi) at the north pole."""
    turned = (u + 1j * v) * np.exp(1j * phi)
    return float(np.nanmean(np.abs(turned - np.nanmean(turned, axis=1, keepdims=True)) ** 2))


def _fixed(u: np.ndarray, v: np.ndarray) -> float:
    whole = u + 1j * v
    return float(np.nanmean(np.abs(whole - np.nanmean(whole, axis=1, keepdims=True)) ** 2))
