"""Tests of residuals for smooth structure far below the noise of one value: patch means, and footprints of a field."""

import dataclasses
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.polynomial import legendre

# number of standard deviations beyond which a deviation is not taken for chance
SURE = 4.0
# mean square of residuals of twice sigma, which no small term leaves
LARGE = 4.0
# a patch is twice as wide as the one before, and there are at least this many
_FEWEST_PATCHES = 4
# footprints vary in time as polynomials of less than this degree
_DEGREE = 3
# the part of a footprint that fitted numbers leave over, below which it is theirs
LEFT = 1e-3
# values of a footprint, at most; more are averaged in pairs first
_MOST_VALUES = 200_000
# columns without neighbours (species, bodies) that are looked at one by one, at most
_MOST_COLUMNS = 12


class Structure(NamedTuple):
    """Result of one test for smooth structure in the residuals of a variable.

    **Arguments:**

    - `variable`: its name.
    - `where`: the averaging, in words that follow "residuals of u": `averaged over 4 frames x 4 points along x`.
    - `axes`: the axes of the averaging; empty for footprints.
    - `excess`: the excess over independent noise, in standard deviations.
    - `size`: the root mean square of the structure in units of sigma; 0 if it is below the level of noise, in which
      case the excess of patches is not above 0.
    """

    variable: str
    where: str
    axes: tuple[str, ...]
    excess: float
    size: float


@dataclasses.dataclass(frozen=True)
class ResidualFilm:
    """Weighted residuals of one variable, frame by frame.

    **Arguments:**

    - `variable`: its name.
    - `dims`: names of the axes with neighbours: `time`, and the axes of a grid.
    - `residuals` (T, *space): NaN for values that were not fitted. Axes without neighbours are merged into the last.
    - `predicted` (T, *space): the model's observations in any unit, NaN if unknown.
    - `directions` (k, T, *space): changes of the residuals that fitted scalars or finer steps can make, and that are
      therefore no evidence against the equation.
    """

    variable: str
    dims: tuple[str, ...]
    residuals: np.ndarray
    predicted: np.ndarray
    directions: np.ndarray

    @property
    def weights(self) -> np.ndarray:
        """Residuals, with zero for values that were not fitted."""
        return np.nan_to_num(self.residuals)

    def without(self, part: np.ndarray) -> "ResidualFilm":
        """The film with a part of the residuals subtracted."""
        return dataclasses.replace(self, residuals=self.residuals - part)


def structures(film: ResidualFilm) -> list[Structure]:
    """All tests of one variable for smooth structure.

    A test assumes that residuals are independent with a symmetric distribution, but not of equal size. Means are
    compared with the residuals that they average, so a wrong sigma does not count as structure.

    A fit of scalars removes structure, so a test errs towards noise.
    """
    return [*patches(film), *footprints(film)]


def patches(film: ResidualFilm) -> Iterator[Structure]:
    """Tests of means over patches of 2, 4, 8, ... neighbours along all axes, in time alone and in space alone.

        T = sum_patches (sum r)^2 / sum r^2

    Its expectation is the number of patches, and its variance sum 2 (n - 1) / (n + 2) for patches of n normal values.
    """
    r = film.weights
    fitted = np.isfinite(film.residuals)
    for along in _shapes(film.dims, r.shape):
        shape = (*along, *[1] * (r.ndim - len(along)))
        count, total, square = (_sums(x, shape) for x in (fitted.astype(float), r, r**2))
        use = (count > 1) & (square > 0)
        n, s, v = count[use], total[use], square[use]
        if n.size == 0:
            continue
        spread = float(np.sum(2 * (n - 1) / (n + 2)))
        smooth = float(np.sum(s**2 - v) / np.sum(n**2 - n))
        axes = tuple(d for d, b in zip(film.dims, along, strict=True) if b > 1)
        excess = deviations(float(np.sum(s**2 / v)) / n.size, 2 * n.size**2 / spread)
        # what stands out among small residuals alone, as of a first frame that a free state follows, is no misfit
        found = (excess, np.sqrt(smooth)) if smooth > 0 else (min(excess, 0.0), 0.0)
        yield Structure(film.variable, _described(film.dims, along, r.shape), axes, *found)


def _shapes(dims: tuple[str, ...], sizes: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Sizes of patches along the axes with neighbours."""
    extent = sizes[: len(dims)]
    found = []
    for chosen in dict.fromkeys(((True,) * len(dims), _only(dims, True), _only(dims, False))):
        for width in 2 ** np.arange(1, 12):
            shape = tuple(min(int(width), n) if c else 1 for c, n in zip(chosen, extent, strict=True))
            patches = np.prod([-(-n // b) for n, b in zip(sizes, (*shape, *[1] * 9), strict=False)])
            if max(shape) == 1 or patches < _FEWEST_PATCHES:
                break
            found.append(shape)
    # whole frames, and whole records of a place
    whole = [tuple(1 if c else n for c, n in zip(_only(dims, t), extent, strict=True)) for t in (True, False)]
    return list(dict.fromkeys([*found, *(s for s in whole if max(s) > 1)]))


def _only(dims: tuple[str, ...], time: bool) -> tuple[bool, ...]:
    """Mask of the time axis, or of all other axes."""
    return tuple((d == "time") == time for d in dims)


def _described(dims: tuple[str, ...], along: tuple[int, ...], sizes: tuple[int, ...]) -> str:
    whole = [b >= n for b, n in zip(along, sizes, strict=False)]
    if len(dims) > 1 and all(w != (d == "time") for w, d in zip(whole, dims, strict=True)):
        return "averaged over every frame"
    if len(dims) > 1 and all(w == (d == "time") for w, d in zip(whole, dims, strict=True)):
        return "averaged over time at every place"
    used = [(d, b) for d, b in zip(dims, along, strict=True) if b > 1]
    frames = [f"{b} frames" if d == "time" else f"{b} points along {d}" for d, b in used]
    return f"averaged over {' x '.join(frames)}"


def _sums(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Sums over blocks of a shape; the last block along an axis may be smaller."""
    for axis, b in enumerate(shape):
        x = np.add.reduceat(x, np.arange(0, x.shape[axis], b), axis) if b > 1 else x
    return x


def deviations(ratio: float, degrees: float) -> float:
    """Standard deviations of a normal variable with the tail probability of a chi2 per degree of freedom.

    Source: E. Wilson, M. Hilferty, PNAS 17:684 (1931), doi:10.1073/pnas.17.12.684.
    """
    spread = 2 / (9 * degrees)
    return float((np.cbrt(ratio) - (1 - spread)) / np.sqrt(spread))


def told_from(values: int) -> float:
    """Size of a constant misfit, in units of the noise, that tests of so many values detect in most cases.

    Infinite if neither the correlation of neighbours nor a footprint can exceed its limit.
    """
    spread = 2 / (9 * _DEGREE)
    needed = _DEGREE * ((1 - spread + SURE * np.sqrt(spread)) ** 3 - 1)
    # the part of the mean square that is the misfit's
    share = min(SURE / np.sqrt(values), needed / values)
    return float(np.sqrt(share / (1 - share))) if share < 1 else float("inf")


def footprints(film: ResidualFilm) -> Iterator[Structure]:
    """Tests for residuals proportional to 1, u, u^2, a slope or the curvature of the predicted field u.

    The factor varies slowly in time. A front that is too fast leaves residuals along the slope, and growth that is too
    fast leaves residuals along u. The directions of fitted scalars are projected out of residuals and functions. This is
    the score test with the variance of the residuals.

    Source: H. White, Econometrica 48:817 (1980), doi:10.2307/1912934.
    """
    if len(film.dims) > 1 or film.residuals.ndim == 1:
        yield from _footprints(film, film.variable)
        return
    columns = film.residuals.shape[1]
    for k in range(columns) if columns <= _MOST_COLUMNS else []:
        one = ResidualFilm(
            film.variable, film.dims, film.residuals[:, k], film.predicted[:, k], film.directions[:, :, k]
        )
        yield from _footprints(one, f"{film.variable}[{k}]" if columns > 1 else film.variable)


def _footprints(film: ResidualFilm, name: str) -> Iterator[Structure]:
    r = film.weights
    width = 1
    while r.size / width > _MOST_VALUES:
        width *= 2
    block = (1, *[width if n == max(r.shape[1:]) else 1 for n in r.shape[1:]]) if r.ndim > 1 else (width,)
    root = np.sqrt(np.maximum(_sums(np.isfinite(film.residuals).astype(float), block), 1.0))

    def pooled(x: np.ndarray) -> np.ndarray:
        return np.ravel(_sums(np.where(np.isfinite(film.residuals), np.nan_to_num(x), 0.0), block) / root)

    time = np.linspace(-1, 1, r.shape[0]).reshape(-1, *[1] * (r.ndim - 1))
    slow = [legendre.legval(time, np.eye(_DEGREE)[k]) for k in range(min(_DEGREE, r.shape[0]))]
    given = basis(_scaled(np.stack([np.zeros(root.size), *map(pooled, film.directions)], 1)))

    def beside(x: np.ndarray) -> np.ndarray:
        return x - given @ (given.T @ x)

    left = beside(pooled(r))
    kinds = {what: np.stack([pooled(f * s) for s in slow], 1) for what, f in _functions(film).items()}
    kinds[f"{film.variable}, its slopes and curvature together"] = np.concatenate([*kinds.values()], 1)
    for what, columns in kinds.items():
        own = basis(beside(_scaled(columns)))
        if not own.shape[1] or np.count_nonzero(left) < 10 * own.shape[1]:
            continue
        g, middle = own.T @ left, (own * left[:, None] ** 2).T @ own
        ratio = float(g @ np.linalg.lstsq(middle, g)[0])
        size = max(float(g @ g - np.trace(middle)), 0.0) / max(np.count_nonzero(np.isfinite(film.residuals)), 1)
        yield Structure(name, f"along {what}", (), deviations(ratio / own.shape[1], float(own.shape[1])), np.sqrt(size))


def _functions(film: ResidualFilm) -> dict[str, np.ndarray]:
    """Functions of the predicted field, by description."""
    u = film.predicted / max(float(np.nanmax(np.abs(film.predicted), initial=0.0)), np.finfo(float).tiny)
    found = {"a constant": np.ones_like(u), film.variable: u, f"{film.variable}^2": u**2}
    bent = np.zeros_like(u)
    for axis, dim in enumerate(film.dims):
        if u.shape[axis] > 2:
            slope = np.gradient(u, axis=axis)
            found[f"its slope in {dim}"] = slope
            bent += np.gradient(slope, axis=axis) if dim != "time" else 0.0
    return found | ({"its curvature": bent} if len(film.dims) > 1 else {})


def _scaled(columns: np.ndarray) -> np.ndarray:
    """Columns of norm 1, without those that are zero."""
    norms = np.linalg.norm(columns, axis=0)
    return columns[:, norms > 0] / norms[norms > 0]


def basis(columns: np.ndarray) -> np.ndarray:
    """Orthonormal basis of columns of norm 1 or less, without negligible directions."""
    left, sizes, _ = np.linalg.svd(columns, full_matrices=False)
    return left[:, sizes > LEFT]
