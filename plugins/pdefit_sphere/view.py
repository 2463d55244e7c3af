"""Pictures of a sphere seen from far away: both halves side by side, and the vorticity of vectors on it.

The figures and movies of pdefit call `view`, as the page about plugins says. They load this file without its package.
"""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.patches import Circle
from matplotlib.path import Path
from matplotlib.patheffects import withStroke

# half a side of the square around each half, in radii; pixels along it, in images and for arrows; and degrees between
# lines of the graticule
EDGE, PIXELS, _COARSE, _LINES = 1.04, 160, 48, 30
# points beyond each end of an axis, which stencils of five points need
_MORE = 2
# positions in radii from the middle of a half beyond which no arrow stands
_LIMB = 0.96
_HALO = [withStroke(linewidth=1.5, foreground="white")]
_MISSING = "#D9D9D9"
# angles from which a sphere is seen that was observed all over
_ASIDE = np.asarray(1.2), np.asarray(0.0)


def view(film: Any, field: Any, own: Mapping[str, float], like: "View | None" = None) -> "View":
    """The view of a field on a sphere.

    **Arguments:**

    - `film`, `field`: the film, and one of its fields, over theta and phi.
    - `own`: the numbers of this recording alone. Its `orientation` is the rotation R, an axis times an angle (3,) or an
      angle about the poles, in radians. A point x of the common frame is at R x in the recording.
    - `like`: the view of another recording, whose viewing direction in the common frame is used; by default the centre
      of all observations is in front.
    """
    theta, phi = _angles(field)
    numbers = [x for path, x in own.items() if path.split(".")[0] == "orientation"]
    turned = rotation(numbers or 0.0)
    turn = facing(_middle(film, field.view)) if like is None else like.turn @ like.rotation @ turned.T
    return View(Raster(theta, phi, field.radius), turn, turned)


def _angles(field: Any) -> list[np.ndarray]:
    return [np.asarray(field.coords[dim], float) for dim in field.dims]


def _middle(film: Any, view: str) -> np.ndarray:
    """Direction of the centre of the first observed field of a view; a sideways direction without a centre."""
    seen = [f for f in film.fields.values() if f.view == view and {"observed", "predicted"} <= {*f.kinds}]
    if seen:
        first = min(seen, key=lambda f: (f.name in film.derived, f.vector != ""))
        down, around = np.meshgrid(*_angles(first), indexing="ij")
        there = sum(np.isfinite(x) for x in film.frames(first.name, "observed", film.chosen(8))) * np.sin(down)
        centre = (point(down, around) * there).sum((1, 2)) / max(float(np.sum(there)), 1e-12)
        if np.linalg.norm(centre) > 0.02:
            return centre
    return point(*_ASIDE)


def stencil(nodes: np.ndarray, at: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Indices of the nearest nodes, and their weights in value and slope of their interpolant, (n, width) each.

    **Arguments:**

    - `nodes`: positions that increase.
    - `at`: the positions of value and slope, (n,).
    - `width`: the number of nodes for each position.
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

    **Arguments:** `centre`: the direction of the centre of the front half, (3,).
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
    x, y, z = vector if vector.size == 3 else (0.0, 0.0, vector.item())
    angle, k = np.hypot(np.hypot(x, y), z), np.asarray([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    # sinc is finite at 0
    return np.eye(3) + np.sinc(angle / np.pi) * k + np.sinc(angle / (2 * np.pi)) ** 2 / 2 * k @ k


def point(theta: np.ndarray, phi: np.ndarray) -> np.ndarray:
    """Points on the unit sphere, (3, ...)."""
    return np.stack([np.sin(theta) * np.cos(phi), np.sin(theta) * np.sin(phi), np.cos(theta) + 0 * phi])


def _slope(values: np.ndarray, nodes: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Slope at nodes along the last axis, from five nodes, or next to missing values from four on either side."""
    found = np.full(values.shape[:-1] + at.shape, np.nan)
    for width, aside in ((5, 0.0), (4, 0.0), (4, 1e-9)):
        index, _, slopes = stencil(nodes, at + aside, width)
        found = np.where(np.isfinite(found), found, (values[..., index] * slopes).sum(-1))
    return found


@dataclasses.dataclass(frozen=True, eq=False)
class Raster:
    """Points on a sphere at all combinations of angles, in any order.

    **Arguments:**

    - `theta`, `phi`: the angles in radians; theta is 0 at the north pole.
    - `radius`: in the length of vectors on the sphere.
    """

    theta: np.ndarray
    phi: np.ndarray
    radius: float

    @functools.cached_property
    def used(self) -> tuple[Any, np.ndarray, np.ndarray]:
        """Indices of the used points, in rows and columns, and their sorted angles; poles are excluded."""
        rows = np.argsort(self.theta)
        rows = rows[np.sin(self.theta[rows]) > 1e-6]
        around = np.round(self.phi % (2 * np.pi), 9) % np.round(2 * np.pi, 9)
        phi, columns = np.unique(around, return_index=True)
        return np.ix_(rows, columns), self.theta[rows], phi

    @functools.cached_property
    def unit_vectors(self) -> tuple[np.ndarray, np.ndarray]:
        """Unit vectors along theta and phi at the used points, (3, rows, columns) each."""
        theta, phi = np.meshgrid(*self.used[1:], indexing="ij")
        east = point(np.full_like(phi, np.pi / 2), phi + np.pi / 2)
        return point(theta + np.pi / 2, phi), east

    def cartesian(self, u_theta: np.ndarray, u_phi: np.ndarray) -> np.ndarray:
        """Cartesian components of tangent vectors at the used points, (3, rows, columns)."""
        along, around = self.unit_vectors
        return u_theta[self.used[0]] * along + u_phi[self.used[0]] * around

    def curl(self, u_theta: np.ndarray, u_phi: np.ndarray) -> np.ndarray:
        """The vorticity at the used points, positive for anticlockwise rotation seen from outside.

        Differences are of fourth order, or of third order next to missing values, in Cartesian components, which are
        smooth. Near the poles points are dense in phi, and noise would grow: waves shorter than the distance of rows
        are filtered out.
        """
        _, theta, phi = self.used
        along, around = self.unit_vectors
        parts = self.cartesian(u_theta, u_phi)
        for row, angle in enumerate(theta):
            waves = np.arange(2 + int(np.sin(angle) * phi.size / 2))
            there = np.isfinite(parts[0, row])
            if 4 * waves.size < there.sum():
                basis = np.hstack([np.cos(np.outer(phi, waves)), np.sin(np.outer(phi, waves[1:]))])[there]
                parts[:, row, there] = (basis @ np.linalg.lstsq(basis, parts[:, row, there].T, rcond=None)[0]).T
        u = np.stack([self.beyond(part) for part in parts])
        rows, columns = self.nodes
        down = _slope(np.swapaxes(u[..., _MORE:-_MORE], 1, 2), rows, theta)
        east = _slope(u[:, _MORE:-_MORE], columns, phi)
        found = (around * np.swapaxes(down, 1, 2)).sum(0) - (along * east).sum(0) / np.sin(theta)[:, None]
        return found / self.radius

    @functools.cached_property
    def nodes(self) -> tuple[np.ndarray, np.ndarray]:
        """The angles of the used points, extended by rows across the poles and by columns on both sides."""
        _, theta, phi = self.used
        rows = np.concatenate([-theta[:_MORE][::-1], theta, 2 * np.pi - theta[-_MORE:][::-1]])
        return rows, np.concatenate([phi[-_MORE:] - 2 * np.pi, phi, phi[:_MORE] + 2 * np.pi])

    def beyond(self, values: np.ndarray) -> np.ndarray:
        """A scalar at `nodes`, from its values at the used points."""
        wide = np.pad(values, ((0, 0), (_MORE, _MORE)), "wrap")
        phi = self.used[2]
        index, weights, _ = stencil(self.nodes[1], phi[0] + (phi + np.pi - phi[0]) % (2 * np.pi), 4)
        opposite = (wide[:, index] * weights).sum(-1)
        tall = np.concatenate([opposite[:_MORE][::-1], values, opposite[-_MORE:][::-1]])
        found = np.pad(tall, ((0, 0), (_MORE, _MORE)), "wrap")
        # the raster of a part of a sphere ends
        for ends, nodes in zip((found, found.T), self.nodes, strict=True):
            for end in (slice(_MORE), slice(-_MORE, None)):
                if np.diff(nodes).max() > 2.02 * np.median(np.diff(nodes)):
                    ends[end] = np.nan
        return found

    def weights(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Indices and weights of 16 `nodes` for each point (3, n) on the sphere, and a mask of points without near nodes."""
        angles = np.arccos(np.clip(points[2], -1, 1)), np.arctan2(points[1], points[0]) % (2 * np.pi)
        (rows, down, _), (columns, east, _) = (stencil(n, a, 4) for n, a in zip(self.nodes, angles, strict=True))
        far = np.zeros(points.shape[1], bool)
        for nodes, index, at in zip(self.nodes, (rows, columns), angles, strict=True):
            far |= np.abs(nodes[index] - at[:, None]).min(1) > 1.01 * np.median(np.diff(nodes))
        index = rows[:, :, None] * self.nodes[1].size + columns[:, None, :]
        return index.reshape(-1, 16), (down[:, :, None] * east[:, None, :]).reshape(-1, 16), far


@dataclasses.dataclass(frozen=True, eq=False)
class View:
    """Two orthographic views of a sphere, from in front and from behind, as one image.

    Values between the points of the raster are interpolated by cubic polynomials, across the poles and around the axis.
    If the nearest point has no value, the pixel has none. In front x runs from -EDGE to EDGE, behind it from EDGE to 3
    EDGE.

    **Arguments:**

    - `raster`: the points.
    - `turn`: the axes of the view as in `facing`.
    - `rotation`: the rotation from the common frame of recordings to the frame of this one, (3, 3).
    - `pixels`: the number of pixels along a side of each half.
    """

    raster: Raster
    turn: np.ndarray
    rotation: np.ndarray
    pixels: int = PIXELS

    @property
    def coarse(self) -> "View":
        """The view with the resolution of arrows."""
        return dataclasses.replace(self, pixels=_COARSE)

    @functools.cached_property
    def axes(self) -> tuple[np.ndarray, np.ndarray]:
        """The positions of pixels in rows and columns, in radii."""
        y = ((np.arange(self.pixels) + 0.5) * 2 / self.pixels - 1) * EDGE
        return y, np.concatenate([y, y + 2 * EDGE])

    @property
    def label(self) -> str:
        """The direction of the centre of the front half, as text."""
        theta, phi = np.degrees(
            [np.arccos(self.turn[2, 2]), np.arctan2(self.turn[2, 1], self.turn[2, 0]) % (2 * np.pi)]
        )
        return f"from $\\theta$ = {theta:.0f}°, $\\phi$ = {phi:.0f}° and from behind"

    @functools.cached_property
    def _places(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Position of each pixel to the right and upwards in its half, in radii, and its side: 1 in front, -1 behind."""
        y, x = np.meshgrid(*self.axes, indexing="ij")
        side = np.where(x > EDGE, -1, 1)
        return np.where(side < 0, x - 2 * EDGE, x), y, side

    def points(self, values: np.ndarray) -> np.ndarray:
        """A scalar at the used points."""
        return values[self.raster.used[0]]

    def curl(self, u_theta: np.ndarray, u_phi: np.ndarray) -> np.ndarray:
        """The vorticity of tangent vectors at the used points."""
        return self.raster.curl(u_theta, u_phi)

    def across(self, horizontal: bool, u_theta: np.ndarray, u_phi: np.ndarray) -> np.ndarray:
        """Image of a component of tangent vectors, to the right or upwards, without the rim of the sphere."""
        x, y, side = self._places
        image = self.image(np.tensordot(self.turn[0 if horizontal else 1], self.raster.cartesian(u_theta, u_phi), 1))
        # from behind, what points to the right points to the left
        return np.where(np.hypot(x, y) < _LIMB, image * (side if horizontal else 1), np.nan)

    @functools.cached_property
    def _weights(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        x, y, side = (a.ravel() for a in self._places)
        # beyond the rim the image goes on, so that the rim is sharp
        beyond = np.maximum(np.hypot(x, y), 1.0)
        x, y = x / beyond, y / beyond
        return self.raster.weights(
            self.turn.T @ np.stack([side * x, y, side * np.sqrt(np.maximum(1 - x**2 - y**2, 0))])
        )

    def image(self, values: np.ndarray) -> np.ndarray:
        """Image of a scalar at the used points."""
        index, weights, far = self._weights
        near = self.raster.beyond(values).ravel()[index]
        there = np.isfinite(near)
        # beside missing values the mean of those that are there
        positive = np.maximum(weights, 0) * there
        mean = (positive * np.where(there, near, 0)).sum(1) / np.maximum(positive.sum(1), 1e-12)
        found = np.where(there.all(1), (weights * np.where(there, near, 0)).sum(1), mean)
        nearest = np.take_along_axis(there, weights.argmax(1)[:, None], 1)[:, 0]
        return np.where(nearest & ~far, found, np.nan).reshape(self.pixels, 2 * self.pixels)

    def draw(self, axes: Any, image: Any) -> list[Any]:
        """Finish a map: the image inside the sphere, lines every 30 degrees, names of poles; returns all artists."""
        middles = (0.0, 2 * EDGE)
        rims = [Circle((x, 0), 1, fc=_MISSING, ec="#BFBFBF", lw=0, hatch="//////", zorder=-1) for x in middles]
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
        """Points on the sphere along the axes of the view, (3, n); a negative last component means hidden."""
        found = self.turn @ point(theta, phi)
        return found * np.asarray([1, 1, side]).reshape(-1, *[1] * (found.ndim - 1))
