"""Fields on a sphere: both views, vectors in them, and the vorticity, against exact Cartesian vectors."""

import dataclasses
import subprocess
import sys

import films
import numpy as np
import pytest
from matplotlib.quiver import Quiver
from pdefit_sphere.view import EDGE, Raster, View, facing, point, rotation

from pdefit._util.errors import PdefitError
from pdefit.data.readers.fields import open_film
from pdefit.output.pictures._recordings import recordings_figure
from pdefit.output.pictures._vectors import arrows_on, planes
from pdefit.output.pictures.figures import draw_all
from pdefit.systems.coordinates import FieldCoords

# poles, a seam, and an odd number of longitudes
THETA, PHI = np.linspace(0.0, np.pi, 25), np.arange(-15, 16) * 2 * np.pi / 31
WHERE = {"theta": THETA, "phi": PHI}
RATE, RADIUS = np.asarray([0.3, -0.5, 0.9]), 2.0
TURN = facing(np.asarray([1.0, 0.3, 0.5]))
MESH = np.meshgrid(THETA, PHI, indexing="ij")
FLOW = {
    f"u_{axis}": FieldCoords(
        ("theta", "phi"), WHERE, "mm/s", axis, dict.fromkeys(WHERE, "rad"), "velocity", axis, RADIUS, "sphere"
    )
    for axis in WHERE
}


def _turning(rate):
    """Components along theta and phi of a rigid rotation."""
    theta, phi = MESH
    u = RADIUS * np.cross(rate, point(theta, phi), axisb=0)
    down = np.stack([np.cos(theta) * np.cos(phi), np.cos(theta) * np.sin(phi), -np.sin(theta)], -1)
    return (u * down).sum(-1), -u[..., 0] * np.sin(phi) + u[..., 1] * np.cos(phi)


def _pixels(view):
    """Position of each pixel, and its point on the sphere; NaN beyond the rim."""
    x, y = np.meshgrid(*view.axes[::-1])
    side, x = np.where(x > EDGE, -1, 1), np.where(x > EDGE, x - 2 * EDGE, x)
    r = np.hypot(x, y)
    z = np.sqrt(np.where(r < 0.95, 1 - r**2, np.nan))
    return np.tensordot(TURN.T, np.stack([side * x, y, side * z]), 1), side, r < 0.95


def test_views_have_right_handed_axes_with_north_upwards():
    for centre in ([1.0, 0.3, 0.5], [0.0, 0.0, -1.0]):
        right, up, near = facing(np.asarray(centre))
        np.testing.assert_allclose(np.cross(right, up), near, atol=1e-14)
        np.testing.assert_allclose(near, centre / np.linalg.norm(centre))
    assert TURN[0, 2] == 0 and TURN[1, 2] > 0
    np.testing.assert_allclose(rotation([0.0, 0.0, np.pi / 2]) @ [1.0, 0, 0], [0, 1, 0], atol=1e-15)
    np.testing.assert_allclose(rotation(np.pi / 2), rotation([0, 0, np.pi / 2]), atol=1e-15)


def test_vectors_and_scalars_lie_where_they_belong():
    view = View(Raster(THETA, PHI, RADIUS), TURN, np.eye(3), pixels=30)
    where, side, inside = _pixels(view)
    image = view.image(view.points(np.tensordot([1.0, 2.0, 3.0], point(*MESH), 1)))
    np.testing.assert_allclose(image[inside], np.tensordot([1.0, 2.0, 3.0], where, 1)[inside], atol=2e-3)
    u = RADIUS * np.cross(RATE, np.moveaxis(where, 0, -1))
    right, up = (view.across(horizontal, *_turning(RATE)) for horizontal in (True, False))
    np.testing.assert_allclose(right[inside], (side * (u @ TURN[0]))[inside], atol=4e-3)
    np.testing.assert_allclose(up[inside], (u @ TURN[1])[inside], atol=4e-3)


def test_the_vorticity_of_a_rotation_is_twice_its_rate_along_the_normal():
    view = View(Raster(THETA, PHI, RADIUS), TURN, np.eye(3))
    _, theta, phi = view.raster.used
    normal = point(*np.meshgrid(theta, phi, indexing="ij"))
    np.testing.assert_allclose(view.curl(*_turning(RATE)), 2 * np.tensordot(RATE, normal, 1), atol=1e-3)
    # of degree 2: n x grad of sin(theta) cos(theta) sin(phi) has the vorticity -6 of it
    t, p = MESH
    found = view.curl(-np.cos(t) * np.cos(p), np.cos(2 * t) * np.sin(p)) * RADIUS
    np.testing.assert_allclose(found, -6 * normal[1] * normal[2], atol=5e-3)


def test_what_is_missing_stays_missing_and_spoils_nothing_far_away():
    view = View(Raster(THETA, PHI, RADIUS), TURN, np.eye(3), pixels=40)
    values = np.where(MESH[0] < 2.0, 1.0, np.nan)
    image, (where, _, inside) = view.image(view.points(values)), _pixels(view)
    theta = np.arccos(where[2])
    np.testing.assert_allclose(image[inside & (theta < 1.9)], 1.0)
    assert np.isnan(image[inside & (theta > 2.1)]).all()
    # a grid that does not reach around a sphere
    part = View(Raster(np.linspace(1.0, 2.0, 9), np.linspace(0.0, 1.0, 9), RADIUS), TURN, np.eye(3), pixels=40)
    shown = part.image(np.ones((9, 9)))
    assert 0.02 < np.isfinite(shown).mean() < 0.2


@pytest.fixture
def run(tmp_path):
    def values(name, kind, i):
        u = _turning(RATE)[name == "u_phi"]
        return np.where(MESH[0] > 2.2, np.nan, u) if kind == "observed" else 0.5 * u

    return films.write_run(tmp_path / "run", FLOW, frames=3, values=values, kinds=("observed", "predicted"))


def test_a_film_on_a_sphere_shows_its_vorticity_from_where_it_was_observed(run, saved_figures):
    with open_film(run / "fields.h5") as film:
        (shown,) = planes(film)
        assert shown.label == "vorticity (1/s)" and shown.view.turn[2, 2] > 0.9
        arrows = arrows_on(film, shown, [0], 3.0)
        # arrows stand in the middles of cells, not where the speed is largest
        assert 0.9 < arrows.size / (RADIUS * np.linalg.norm(RATE)) <= 1.0
    assert not [note for note in draw_all(run).notes if "fields" in note and "not there" not in note]
    drawn = [c for axes in saved_figures[0].axes for c in axes.get_children() if isinstance(c, Quiver)]
    assert np.isfinite(drawn[0].U).sum() > 50


def test_recordings_share_their_colours(run, tmp_path, saved_figures):
    paths = {name: run / "fields.h5" for name in ("first", "second")}
    recordings_figure(
        paths, tmp_path / "r.png", {"second": {"orientation.0": 0.0, "orientation.1": 0.0, "orientation.2": 1.0}}
    )
    (figure,) = saved_figures
    images = [image for axes in figure.axes for image in axes.images if axes.get_visible()]
    assert len(images) == 4 and len({image.get_clim() for image in images}) == 1


def test_the_view_is_loaded_without_the_equations(run):
    """Pictures of a run need no JAX, even those drawn by a plugin."""
    code = """
import sys
from pathlib import Path
from pdefit.data.readers.fields import open_film
from pdefit.output.pictures._vectors import planes
with open_film(Path(sys.argv[1])) as film:
    print([q.label for q in planes(film)], "jax" in sys.modules)
"""
    found = subprocess.run([sys.executable, "-c", code, run / "fields.h5"], capture_output=True, text=True, check=True)
    assert found.stdout == "['vorticity (1/s)'] False\n"


def test_a_film_of_a_plugin_that_is_not_there(run, tmp_path):
    path = films.write_film(tmp_path / "f.h5", {"h": dataclasses.replace(films.SPHERE, view="torus")}, frames=2)
    with open_film(path) as film, pytest.raises(PdefitError, match="No plugin with a file view.py is called 'torus'"):
        planes(film)
