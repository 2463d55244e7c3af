"""Standard errors for correlated residuals, relative to standard errors for independent residuals."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pdefit.analysis.goodness.structure import ResidualFilm

# a correlation below so many of its standard deviations ends the lags that count
_NOTHING = 2.0
# the window is so many times wider than the last of them
_WIDER = 2
# values of a film, at most: transforms take twice as many along every axis
_MOST_VALUES = 3_000_000


class Correlated(NamedTuple):
    """Effect of correlated residuals on the standard errors of fitted scalars.

    **Arguments:**

    - `factors` (k,): inflation of the standard errors by correlation, at least 1.
    - `effective_values`: the effective sample size: so many independent values would determine a mean equally well.
    """

    factors: np.ndarray
    effective_values: float


def correlated(films: Sequence[ResidualFilm]) -> Correlated | None:
    """Effect of correlations of residuals, in time and along a grid, on standard errors.

        factor_k^2 = sum_ij a_ki R_ij a_kj / sum_i a_ki^2

    a_k are the influences of all values on scalar k (`ResidualFilm.directions`). R is the autocorrelation of residuals:
    the mean over all pairs at one lag, times a triangular window. The window ends at twice the lag at which
    correlations vanish. The bias of a wrong model is not included.

    None without influences, or for very large films.

    Source: W. Newey, K. West, Econometrica 55:703 (1987), doi:10.2307/1913610.
    """
    if not films or not len(films[0].directions) or max(f.residuals.size for f in films) > _MOST_VALUES:
        return None
    k = len(films[0].directions)
    counted, plain, values, sums = np.zeros(k), np.zeros(k), 0.0, 0.0
    for film in films:
        axes = tuple(range(len(film.dims)))
        r, fitted = film.weights, np.isfinite(film.residuals).astype(float)
        pairs, products = _lagged(fitted, axes), _lagged(r, axes)
        n = np.sum(fitted)
        rho = np.where(pairs > 0.5, products / np.maximum(pairs, 0.5), 0.0)
        size = rho[(0,) * rho.ndim]
        if not size > 0:
            continue
        rho = rho / size * _window(rho / size, pairs)
        for j, a in enumerate(film.directions):
            influence = _lagged(np.where(fitted > 0, np.nan_to_num(a), 0.0), axes)
            counted[j] += size * np.sum(rho * influence)
            plain[j] += size * influence[(0,) * influence.ndim]
        values, sums = values + n, sums + float(np.sum(rho * pairs))
    ratio = np.where(plain > 0, counted / np.where(plain > 0, plain, 1.0), 1.0)
    return Correlated(np.sqrt(np.maximum(ratio, 1.0)), float(values**2 / max(sums, values)))


def _lagged(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """Sums of x_i x_(i+lag) for every lag along some axes, summed over the remaining axes."""
    shape = [2 * x.shape[a] for a in axes]
    power = np.abs(np.fft.rfftn(x, shape, axes)) ** 2
    others = tuple(range(len(axes), x.ndim))
    return np.fft.irfftn(power.sum(axis=others) if others else power, shape, axes)


def _window(rho: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """Triangular window along every axis, which ends at twice the lag at which correlations vanish."""
    window = np.ones(())
    for axis, n in enumerate(rho.shape):
        along = tuple(slice(n // 2) if a == axis else 0 for a in range(rho.ndim))
        lost = np.abs(rho[along]) < _NOTHING / np.sqrt(np.maximum(pairs[along], 1.0))
        reach = _WIDER * (int(np.argmax(lost)) if np.any(lost) else n // 4)
        lags = np.minimum(np.arange(n), n - np.arange(n))
        triangle = np.maximum(1 - lags / (reach + 1), 0.0)
        window = window[..., None] * triangle
    return window
