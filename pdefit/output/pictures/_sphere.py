"""A sphere as it is seen from far away: its two halves beside each other, and the vorticity of vectors on it."""

import dataclasses
import functools
from typing import Any

import numpy as np
from matplotlib.patches import Circle
from matplotlib.path import Path
from matplotlib.patheffects import withStroke

from pdefit.output.pictures.style import MISSING

# half a side of the square around each half, in radii; pixels along it; and degrees between lines of the graticule
EDGE, PIXELS, _LINES = 1.04, 160, 30
# points beyond each end of an axis, which stencils of five points need
_MORE = 2
# positions in radii from the middle of a half beyond which no arrow stands
_LIMB = 0.96
_HALO = [withStroke(linewidth=1.5, foreground="white")]


def stencil(nodes: np.ndarray, at: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Numbers of the nearest nodes, and their weights in value and slope of the polynomial through them, (n, width) each.

    **Arguments:**

    - `nodes`: positions that increase.
    - `at` (n,): where value and slope are wanted.
    - `width`: the number of nodes for each.
    """
    first = np.clip(np.searchsorted(nodes, at) - width // 2, 0, nodes.size - width)
    index = first[:, None] + np.arange(width)
    x, weights, slopes = nodes[index], np.ones(index.shape), np.zeros(index.shape)
    for k in range(width):
        others = [j for j in range(width) if j != k]
        over = 1 / (x[:, [k]] - x[:, others])
        part = (at[:, None] - x[:, others]) * over
        weights[:, k] = part.prod(1)
        slopes[:, k] = sum(over[:, j] * np.delete(part, j, 1).prod(1) for j in range(width - 1))
    return index, weights, slopes


def facing(centre: np.ndarray) -> np.ndarray:
    """The axes of a view to the right, upwards (to the north) and towards the viewer, as rows (3, 3).

    **Arguments:** `centre` (3,): the direction of the middle of the front half.
    """
    near = centre / np.linalg.norm(centre)
    # above a pole north has no direction
    north = np.eye(3)[2 if abs(near[2]) < 0.98 else 0]
    up = north - near * (near @ north)
    up /= np.linalg.norm(up)
    return np.stack([np.cross(up, near), up, near])


def rotation(vector: Any) -> np.ndarray:
    """The matrix (3, 3) of a rotation, from an axis times an angle (3,) or an angle about the poles, in radians."""
    vector = np.asarray(vector, float)
    x, y, z = vector if vector.size == 3 else (0.0, 0.0, float(vector))
    angle, k = np.hypot(np.hypot(x, y), z), np.asarray([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    # sinc is finite at 0
    return np.eye(3) + np.sinc(angle / np.pi) * k + np.sinc(angle / (2 * np.pi)) ** 2 / 2 * k @ k


@dataclasses.dataclass(frozen=True, eq=False)
class View:
    """Two orthographic views of a sphere, from in front and from behind, as one image.

    Values between the points of the grid are interpolated by cubic polynomials, across the poles and around the axis. If
    the nearest point has no value, the image has none. In front x runs from -EDGE to EDGE, behind it from EDGE to 3 EDGE.

    **Arguments:**

    - `theta`, `phi`: the angles of the grid, in radians; theta is 0 at the north pole.
    - `radius`: in the length of vectors on it.
    - `turn`: the axes of the view as of `facing`.
    - `pixels`: the number along a side of the image of each half.
    """

    theta: np.ndarray
    phi: np.ndarray
    radius: float
    turn: np.ndarray
    pixels: int = PIXELS

    @functools.cached_property
    def grid(self) -> tuple[Any, np.ndarray, np.ndarray]:
        """The indices of the used grid points, in rows and columns, and their sorted angles; poles have no meridian."""
        rows = np.argsort(self.theta)
        rows = rows[np.sin(self.theta[rows]) > 1e-6]
        around = np.round(self.phi % (2 * np.pi), 9) % np.round(2 * np.pi, 9)
        phi, columns = np.unique(around, return_index=True)
        return np.ix_(rows, columns), self.theta[rows], phi

    @functools.cached_property
    def axes(self) -> tuple[np.ndarray, np.ndarray]:
        """The positions of pixels in rows and columns, in radii."""
        y = ((np.arange(self.pixels) + 0.5) * 2 / self.pixels - 1) * EDGE
        return y, np.concatenate([y, y + 2 * EDGE])

    @property
    def label(self) -> str:
        """The direction of the middle of the front half."""
        theta, phi = np.degrees(
            [np.arccos(self.turn[2, 2]), np.arctan2(self.turn[2, 1], self.turn[2, 0]) % (2 * np.pi)]
        )
        return f"from $\\theta$ = {theta:.0f}°, $\\phi$ = {phi:.0f}° and from behind"

    @functools.cached_property
    def _places(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Position of each pixel to the right and upwards in its half, in radii, and 1 in front or -1 behind."""
        y, x = np.meshgrid(*self.axes, indexing="ij")
        side = np.where(x > EDGE, -1, 1)
        return np.where(side < 0, x - 2 * EDGE, x), y, side

    def across(self, horizontal: bool, u_theta: np.ndarray, u_phi: np.ndarray) -> np.ndarray:
        """Image of a component of tangent vectors, to the right or upwards, without the rim of the sphere."""
        x, y, side = self._places
        image = self.image(np.tensordot(self.turn[0 if horizontal else 1], self._cartesian(u_theta, u_phi), 1))
        # from behind, what points to the right points to the left
        return np.where(np.hypot(x, y) < _LIMB, image * (side if horizontal else 1), np.nan)

    def points(self, values: np.ndarray) -> np.ndarray:
        """A scalar at the points that are used."""
        return values[self.grid[0]]

    def curl(self, u_theta: np.ndarray, u_phi: np.ndarray) -> np.ndarray:
        """The vorticity at the points that are used, positive where vectors turn anticlockwise as seen from outside.

        Differences are of fourth order, or of third order beside missing values, in Cartesian components, which are smooth.
        Near them points are dense around the axis, and noise would grow: shorter waves than the distance of rows are left out.
        """
        _, theta, phi = self.grid
        along, around = self._unit_vectors
        parts = self._cartesian(u_theta, u_phi)
        for row, angle in enumerate(theta):
            waves = np.arange(2 + int(np.sin(angle) * phi.size / 2))
            there = np.isfinite(parts[0, row])
            if 4 * waves.size < there.sum():
                basis = np.hstack([np.cos(np.outer(phi, waves)), np.sin(np.outer(phi, waves[1:]))])[there]
                parts[:, row, there] = (basis @ np.linalg.lstsq(basis, parts[:, row, there].T, rcond=None)[0]).T
        u = np.stack([self._beyond(part) for part in parts])
        down = _slope(np.swapaxes(u[..., _MORE:-_MORE], 1, 2), self._theta, theta)
        east = _slope(u[:, _MORE:-_MORE], self._phi, phi)
        found = (around * np.swapaxes(down, 1, 2)).sum(0) - (along * east).sum(0) / np.sin(theta)[:, None]
        return found / self.radius

    def draw(self, axes: Any, image: Any) -> list[Any]:
        """Finish a map: the image inside the sphere, lines each 30 degrees, names of poles; returns all its parts."""
        middles = (0.0, 2 * EDGE)
        rims = [Circle((x, 0), 1, fc=MISSING, ec="#BFBFBF", lw=0, hatch="//////", zorder=-1) for x in middles]
        drawn = [image, *map(axes.add_patch, rims)]
        outlines = Path.make_compound_path(*(Path.circle((x, 0)) for x in middles))
        image.set_clip_path(outlines, axes.transData)
        image.set(interpolation="bilinear", cmap=image.cmap.with_extremes(bad=(0, 0, 0, 0)))
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_visible(False)
        axes.xaxis.label.set_size(8)
        t = np.linspace(0, 2 * np.pi, 181)
        parallels, meridians = (np.radians(np.arange(first, 180, _LINES)) for first in (_LINES, 0))
        # a meridian is a circle through the poles, near which it is not drawn
        away = np.where(np.abs(np.sin(t)) > 0.2, t, np.nan)
        lines = [(np.full_like(t, angle), t) for angle in parallels]
        lines += [(away, np.full_like(t, angle)) for angle in meridians]
        for side, x in zip((1, -1), middles, strict=True):
            parts = [
                np.where(n > 0, (side * r + x, u), np.nan)
                for r, u, n in (self._from_viewer(a, b, side) for a, b in lines)
            ]
            lattice = np.concatenate([np.append(p, np.full((2, 1), np.nan), 1) for p in parts], 1)
            drawn += axes.plot(*lattice, color="black", alpha=0.22, lw=0.4, zorder=2)
            drawn += axes.plot(np.cos(t) + x, np.sin(t), color="black", lw=0.7, zorder=4)
            for name, angle in (("N", 0.0), ("S", np.pi)):
                r, u, n = self._from_viewer(np.asarray(angle), np.asarray(0.0), side)
                if n > 0.1:
                    look = {"ha": "center", "va": "center", "fontsize": 6, "zorder": 4, "path_effects": _HALO}
                    drawn.append(axes.text(side * r + x, u, name, **look))
        return drawn

    def _from_viewer(self, theta: np.ndarray, phi: np.ndarray, side: int) -> np.ndarray:
        """Points on the sphere along the axes of the view, (3, n); those with a negative last part are not seen."""
        found = self.turn @ point(theta, phi)
        return found * np.asarray([1, 1, side]).reshape(-1, *[1] * (found.ndim - 1))

    @functools.cached_property
    def _unit_vectors(self) -> tuple[np.ndarray, np.ndarray]:
        """The directions of theta and of phi at the points of the grid, (3, rows, columns) each."""
        theta, phi = np.meshgrid(*self.grid[1:], indexing="ij")
        east = point(np.full_like(phi, np.pi / 2), phi + np.pi / 2)
        return point(theta + np.pi / 2, phi), east

    def _cartesian(self, u_theta: np.ndarray, u_phi: np.ndarray) -> np.ndarray:
        along, around = self._unit_vectors
        return u_theta[self.grid[0]] * along + u_phi[self.grid[0]] * around

    @functools.cached_property
    def _theta(self) -> np.ndarray:
        theta = self.grid[1]
        return np.concatenate([-theta[:_MORE][::-1], theta, 2 * np.pi - theta[-_MORE:][::-1]])

    @functools.cached_property
    def _phi(self) -> np.ndarray:
        phi = self.grid[2]
        return np.concatenate([phi[-_MORE:] - 2 * np.pi, phi, phi[:_MORE] + 2 * np.pi])

    def _beyond(self, values: np.ndarray) -> np.ndarray:
        """A scalar with more rows across the poles, and more columns on both sides."""
        wide = np.pad(values, ((0, 0), (_MORE, _MORE)), "wrap")
        _, theta, phi = self.grid
        index, weights, _ = stencil(self._phi, phi[0] + (phi + np.pi - phi[0]) % (2 * np.pi), 4)
        opposite = (wide[:, index] * weights).sum(-1)
        tall = np.concatenate([opposite[:_MORE][::-1], values, opposite[-_MORE:][::-1]])
        found = np.pad(tall, ((0, 0), (_MORE, _MORE)), "wrap")
        # the grid of a part of a sphere ends
        for ends, nodes in ((found, self._theta), (found.T, self._phi)):
            for end in (slice(_MORE), slice(-_MORE, None)):
                if np.diff(nodes).max() > 2.02 * np.median(np.diff(nodes)):
                    ends[end] = np.nan
        return found

    @functools.cached_property
    def _weights(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Numbers and weights of 16 points for each pixel, and those pixels that are far from any point."""
        x, y, side = (a.ravel() for a in self._places)
        # beyond the rim the image goes on, so that the rim is sharp
        beyond = np.maximum(np.hypot(x, y), 1.0)
        x, y = x / beyond, y / beyond
        point = self.turn.T @ np.stack([side * x, y, side * np.sqrt(np.maximum(1 - x**2 - y**2, 0))])
        angles = np.arccos(np.clip(point[2], -1, 1)), np.arctan2(point[1], point[0]) % (2 * np.pi)
        (rows, down, _), (columns, east, _) = (
            stencil(n, a, 4) for n, a in zip((self._theta, self._phi), angles, strict=True)
        )
        far = np.zeros(x.size, bool)
        for nodes, index, at in ((self._theta, rows, angles[0]), (self._phi, columns, angles[1])):
            far |= np.abs(nodes[index] - at[:, None]).min(1) > 1.01 * np.median(np.diff(nodes))
        index = rows[:, :, None] * self._phi.size + columns[:, None, :]
        return index.reshape(-1, 16), (down[:, :, None] * east[:, None, :]).reshape(-1, 16), far

    def image(self, values: np.ndarray) -> np.ndarray:
        """Image of a scalar at the points that are used."""
        index, weights, far = self._weights
        near = self._beyond(values).ravel()[index]
        there = np.isfinite(near)
        # beside missing values the mean of those that are there
        positive = np.maximum(weights, 0) * there
        mean = (positive * np.where(there, near, 0)).sum(1) / np.maximum(positive.sum(1), 1e-12)
        found = np.where(there.all(1), (weights * np.where(there, near, 0)).sum(1), mean)
        nearest = np.take_along_axis(there, weights.argmax(1)[:, None], 1)[:, 0]
        return np.where(nearest & ~far, found, np.nan).reshape(self.pixels, 2 * self.pixels)


def point(theta: np.ndarray, phi: np.ndarray) -> np.ndarray:
    """Points on the unit sphere, (3, ...)."""
    return np.stack([np.sin(theta) * np.cos(phi), np.sin(theta) * np.sin(phi), np.cos(theta) + 0 * phi])


def _slope(values: np.ndarray, nodes: np.ndarray, at: np.ndarray) -> np.ndarray:
    """The slope along the last axis at nodes, from five of them, or if one is missing from four on either side."""
    found = np.full(values.shape[:-1] + at.shape, np.nan)
    for width, aside in ((5, 0.0), (4, 0.0), (4, 1e-9)):
        index, _, slopes = stencil(nodes, at + aside, width)
        found = np.where(np.isfinite(found), found, (values[..., index] * slopes).sum(-1))
    return found
