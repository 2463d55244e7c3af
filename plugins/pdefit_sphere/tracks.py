"""Tracks on a sphere: the sphere fitted to their positions, and tangent displacements at colatitudes and longitudes.

`pdefit import tracks as=sphere` calls `surface`, as the page about plugins says. It loads this file without its
package.
"""

import dataclasses
import math
from typing import Any, NamedTuple, cast

import numpy as np
import scipy

from pdefit import PdefitError

# options with their defaults, and the units of lengths and times if the files have physical ones
OPTIONS = {"pole": "[0,0,1]"}
UNITS = "um", "min"

# deviations from the sphere beyond which a position is an outlier, and the part of the radius beyond which there is no sphere
_FAR, _ROUGH = 4.0, 0.2
# from the median of absolute deviations to a standard deviation
_FROM_MEDIAN = 1.4826


class FittedSphere(NamedTuple):
    """The best-fitting sphere of positions.

    **Arguments:**

    - `centre`, `radius`: in the unit of the positions.
    - `error`: the standard error of the radius.
    - `rms`: the root mean square distance of the positions from the sphere, without outliers.
    - `near`: mask of the positions that are not outliers, (N,).
    """

    centre: np.ndarray
    radius: float
    error: float
    rms: float
    near: np.ndarray


def fitted_sphere(points: np.ndarray) -> FittedSphere:
    """The sphere fitted to positions, (N, 3): algebraic least squares, refined on distances with a robust loss.

    **Errors:** PdefitError if the positions lie on no sphere.
    """
    middle = points.mean(axis=0)
    size = float(np.sqrt(np.mean((points - middle) ** 2))) or 1.0
    x = (points - middle) / size
    a, *_ = np.linalg.lstsq(np.column_stack([2 * x, np.ones(len(x))]), np.sum(x**2, axis=1), rcond=None)
    start = np.append(a[:3], np.sqrt(max(a[3] + a[:3] @ a[:3], 0)))

    def distances(p: np.ndarray) -> np.ndarray:
        return np.linalg.norm(x - p[:3], axis=1) - p[3]

    def slopes(p: np.ndarray) -> Any:
        away = p[:3] - x
        return np.column_stack([away / np.linalg.norm(away, axis=1, keepdims=True), -np.ones(len(x))])

    def spread(p: np.ndarray) -> float:
        return max(_FROM_MEDIAN * float(np.median(np.abs(distances(p)))), 1e-12)

    best, jac = start, cast(Any, slopes)
    # the scale of the loss is that of the positions without outliers, which the first fit finds
    for _ in range(2):
        best = scipy.optimize.least_squares(
            distances, best, jac, loss="cauchy", f_scale=2 * spread(best), x_scale="jac"
        ).x
    near = np.abs(distances(best)) <= _FAR * spread(best)
    j, rms = slopes(best)[near], float(np.sqrt(np.mean(distances(best)[near] ** 2)))
    variance = np.linalg.pinv(j.T @ j)[3, 3] * rms**2
    if not (np.all(np.isfinite(best)) and rms < _ROUGH * best[3] and math.sqrt(variance) < _ROUGH * best[3]):
        raise PdefitError(
            f"The positions lie on no sphere: the nearest one has radius {size * best[3]:.4g}, and they are {size * rms:.3g} "
            f"away from it; leave as=sphere out, or remove the tracks inside"
        )
    return FittedSphere(middle + size * best[:3], size * best[3], size * math.sqrt(variance), size * rms, near)


@dataclasses.dataclass(frozen=True)
class Cells:
    """Cells of equal angle on a sphere.

    **Arguments:**

    - `sphere`, `unit`: the sphere, and the unit of its lengths.
    - `bins`: the numbers of cells along theta and phi.
    - `pole`: the direction of the north pole, (3,). Longitudes begin at the direction of x, or of y for a pole along x.
    """

    sphere: FittedSphere
    unit: str
    bins: list[int]
    pole: np.ndarray

    @property
    def near(self) -> np.ndarray:
        """Mask of the used positions, (N,)."""
        return self.sphere.near

    @property
    def axes(self) -> dict[str, tuple[np.ndarray, str]]:
        """The midpoints of the cells along each axis, and their unit."""
        along = zip(("theta", "phi"), self.bins, (np.pi, 2 * np.pi), strict=True)
        return {name: ((np.arange(n) + 0.5) * width / n, "rad") for name, n, width in along}

    @property
    def scalars(self) -> dict[str, tuple[Any, str]]:
        """Scalars that are stored with the velocities, and their units."""
        return {
            "radius": (self.sphere.radius, self.unit), "centre": (self.sphere.centre, self.unit), "pole": (self.pole, "1"),
        }  # fmt: skip

    @property
    def notes(self) -> list[str]:
        """Sentences for the user."""
        sphere, unit, far = self.sphere, self.unit, np.sum(~self.near)
        at = ", ".join(f"{c:.5g}" for c in sphere.centre)
        return [
            f"The sphere has the centre ({at}) {unit} and the radius {sphere.radius:.5g} +- {sphere.error:.2g} {unit}; "
            f"positions are {sphere.rms:.3g} {unit} (rms) away from it, {sphere.rms / sphere.radius:.1%} of the radius.",
            "x, y and z of the files are taken to be right-handed; y=down mirrors y.",
        ] + [f"{far} positions are left out, since they are too far from the sphere."] * bool(far)

    def displacements(self, first: np.ndarray, second: np.ndarray) -> dict[str, np.ndarray]:
        """Displacements along the sphere: the number of the `cell`, `u_theta` and `u_phi`, (N,) each.

        They are along the great circle between two positions. Each is carried to the middle of its cell along a great
        circle, too, and its components are taken there.

        **Arguments:** `first`, `second`: the positions, (N, 3).
        """
        north = self.pole / np.linalg.norm(self.pole)
        start = np.eye(3)[int(abs(north[0]) > 1 - 1e-6)]
        start = (start - north * (start @ north)) / np.linalg.norm(start - north * (start @ north))
        frame = np.stack([start, np.cross(north, start), north])
        n0, n1 = ((x - self.sphere.centre) @ frame.T for x in (first, second))
        n0, n1 = (n / np.linalg.norm(n, axis=1, keepdims=True) for n in (n0, n1))
        between, middle = n1 - n0, n0 + n1
        chord = np.linalg.norm(between, axis=1)
        # the angle over the chord: 1 for short ones
        angle = np.divide(2 * np.arcsin(np.minimum(chord / 2, 1)), chord, out=np.ones_like(chord), where=chord > 0)
        v = self.sphere.radius * angle[:, None] * between
        n = middle / np.linalg.norm(middle, axis=1, keepdims=True)
        widths = np.array([np.pi, 2 * np.pi]) / self.bins
        where = np.stack([np.arccos(np.clip(n[:, 2], -1, 1)), np.mod(np.arctan2(n[:, 1], n[:, 0]), 2 * np.pi)], axis=1)
        cells = np.minimum((where / widths).astype(int), np.array(self.bins) - 1)
        theta, phi = ((cells + 0.5) * widths).T
        (s, c), (sp, cp), zero = (np.sin(theta), np.cos(theta)), (np.sin(phi), np.cos(phi)), np.zeros(len(theta))
        centre = np.stack([s * cp, s * sp, c], axis=1)
        # the rotation from n to the middle of the cell
        v = v - ((v * centre).sum(axis=1) / (1 + (n * centre).sum(axis=1)))[:, None] * (n + centre)
        along, across = np.stack([c * cp, c * sp, -s], axis=1), np.stack([-sp, cp, zero], axis=1)
        u_theta, u_phi = (v * along).sum(axis=1), (v * across).sum(axis=1)
        return {"cell": np.asarray(np.ravel_multi_index(tuple(cells.T), self.bins)), "u_theta": u_theta, "u_phi": u_phi}


def surface(points: np.ndarray, unit: str, bins: list[int], pole: list[float]) -> Cells:
    """Cells on the sphere fitted to positions.

    **Arguments:**

    - `points`, `unit`: the positions (N, 3), and their unit.
    - `bins`: the numbers of cells along theta and phi.
    - `pole`: the direction of the north pole.
    """
    if len(bins) != 2 or 0 in bins or not any(pole):
        raise PdefitError("as=sphere expects cells along theta and phi, and a pole other than 0; write bins=[18,36]")
    return Cells(fitted_sphere(points), unit, bins, np.array(pole))
