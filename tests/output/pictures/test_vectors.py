"""Vectors in a plane: arrows where they belong, as long as they should be, and the vorticity."""

import dataclasses

import films
import imageio.v3
import numpy as np
import pytest
from matplotlib.quiver import Quiver, QuiverKey

from pdefit.data.readers.fields import open_film
from pdefit.output.pictures._maps import draw_map, scales
from pdefit.output.pictures._movie import draw_movie
from pdefit.output.pictures._quantities import quantities
from pdefit.output.pictures._vectors import arrows_on, planes, without_components

FLOW = {name: films.STAGGERED[name] for name in ("u", "w")}


def _turning(name, kind, i):
    """A flow that turns with rate 3 around (1, 1/2), and a temperature that stays."""
    where = films.STAGGERED[name]
    x, z = np.meshgrid(*(where.coords[d] for d in where.dims), indexing="ij")
    size = 1.5 if kind == "predicted" else 3.0
    return {"T": x + z, "u": -size * (z - 0.5), "w": size * (x - 1.0)}[name]


@pytest.fixture
def film(tmp_path):
    path = films.write_film(tmp_path / "fields.h5", films.STAGGERED, frames=3, values=_turning)
    with open_film(path) as opened:
        yield opened


def test_planes_have_x_to_the_right_and_z_upwards_and_scalars_first(tmp_path):
    kinds = {"T": ("predicted", "true"), "u": films.KINDS, "w": films.KINDS}
    path = films.write_film(tmp_path / "f.h5", dict(reversed(films.STAGGERED.items())))
    with open_film(path) as film:
        assert kinds.keys() == film.fields.keys()
        shown = quantities(film)
        assert [q.field.name for q in shown] == ["T", "w", "u"]
        assert {tuple(axis.label for axis in q.axes) for q in shown} == {("z (mm)", "x (mm)")}
        (w,) = shown[1].frames(film, "true", [0])
        assert w.shape == (7, 12)


def test_arrows_are_the_vector_between_its_faces(film):
    arrows = arrows_on(film, quantities(film)[0], [0, 2], 3.0)
    assert arrows is not None and arrows.columns.size == 18 and arrows.rows.size == 9
    assert arrows.kinds == {"truth": "true", "observed": "observed", "prediction": "predicted"}
    x, z = np.meshgrid(arrows.columns, arrows.rows)
    (truth,), (prediction,) = (list(arrows.frames(kind, [1])) for kind in ("true", "predicted"))
    np.testing.assert_allclose(truth, [-3.0 * (z - 0.5), 3.0 * (x - 1.0)], atol=1e-13)
    np.testing.assert_allclose(prediction, truth / 2, atol=1e-13)
    # one scale for both
    np.testing.assert_allclose(arrows.size, np.hypot(*truth).max())
    u = next(q for q in quantities(film) if q.field.name == "u")
    assert arrows_on(film, u, [0], 3.0) is None


def test_arrows_stand_on_truth_and_prediction_not_on_errors(tmp_path, film, saved_figures):
    for q in quantities(film):
        draw_map(tmp_path / f"{q.field.name}.png", film, q)
    temperature, *components = saved_figures
    # three panels, and two colour bars; the key of the arrows has some that are not seen
    quivers = [[c for c in axes.get_children() if isinstance(c, Quiver)] for axes in temperature.axes]
    drawn = [[c for c in found if not np.all(c.Umask)] for found in quivers]
    assert [len(x) for x in drawn] == [1, 1, 0, 0, 0]
    truth, prediction = drawn[0][0], drawn[1][0]
    assert truth.scale == prediction.scale and np.allclose(truth.U, 2 * prediction.U)
    (key,) = [c for axes in temperature.axes for c in axes.get_children() if isinstance(c, QuiverKey)]
    # the longest vectors of the truth are at the corners, 1.1 mm from the middle
    assert key.text.get_text() == "velocity 2 mm/s" and key.U == 2.0
    assert not [c for fig in components for axes in fig.axes for c in axes.get_children() if isinstance(c, Quiver)]


def test_a_vector_alone_has_its_vorticity_first(tmp_path):
    path = films.write_film(tmp_path / "f.h5", FLOW, frames=2, values=_turning)
    with open_film(path) as film:
        first, *rest = planes(film)
        assert first.label == "vorticity (1/s)" and [q.field.name for q in rest] == ["u", "w"]
        assert without_components(planes(film)) == [first]
        (frame,) = first.compared(film, [1])
        truth, prediction = frame["truth"], frame["prediction"]
        np.testing.assert_array_equal(frame["error"], prediction - truth)
        np.testing.assert_allclose(truth, np.full((8, 12), 6.0), rtol=1e-12)
        np.testing.assert_allclose(prediction, np.full((8, 12), 3.0), rtol=1e-12)
        shared, _ = scales([frame], first.is_signed)
        np.testing.assert_allclose([shared.low, shared.high], [-6.0, 6.0])


def test_a_derived_vector_has_its_own_arrows_upon_its_curl(tmp_path):
    force = {
        f"force_{where.component}": dataclasses.replace(where, unit="mm/s^2", vector="force") for where in FLOW.values()
    }
    path = films.write_film(tmp_path / "f.h5", {**FLOW, **force}, frames=1, values=_pushed, derived=[*force])
    with open_film(path) as film:
        first, second, *_ = planes(film)
        assert (first.name, second.label) == ("vorticity", "curl of force (1/s^2)")
        size = [arrows.size for q in (first, second) if (arrows := arrows_on(film, q, [0], 3.0))]
        np.testing.assert_allclose(size[1], 10 * size[0])


def _pushed(name, kind, i):
    """A velocity that turns, and a force ten times as large."""
    return (
        10 * _turning({"force_x": "u", "force_z": "w"}[name], kind, i) if "force" in name else _turning(name, kind, i)
    )


@pytest.mark.parametrize("fields", [films.STAGGERED, FLOW])
def test_movies_show_arrows_that_turn(tmp_path, fields):
    """The map stays as it is, so whatever moves is an arrow."""

    def values(name, kind, i):
        return _turning(name, kind, i) if name == "T" else np.full(films.shape_of(fields[name]), 1.0 - i)

    path = films.write_film(tmp_path / "f.h5", fields, frames=3, values=values, kinds=("predicted",))
    with open_film(path) as film:
        movie = draw_movie(tmp_path / "m.mp4", film)
    first, still, back = imageio.v3.imread(movie, plugin="pyav")[..., 0].astype(int)
    moved = [np.mean(np.abs(a - b) > 60) for a, b in ((first, back), (first, still))]
    assert 0.002 < moved[0] < 0.2 and moved[1] > 0.002


def test_no_arrows_where_nothing_moves(tmp_path):
    still = {"values": lambda name, kind, i: np.zeros(films.shape_of(films.STAGGERED[name])), "frames": 1}
    with open_film(films.write_film(tmp_path / "f.h5", films.STAGGERED, **still)) as film:
        assert arrows_on(film, quantities(film)[0], [0], 3.0) is None
    empty = {"values": lambda name, kind, i: np.full(films.shape_of(films.STAGGERED[name]), np.nan), "frames": 1}
    with open_film(films.write_film(tmp_path / "g.h5", films.STAGGERED, **empty)) as film:
        assert arrows_on(film, quantities(film)[0], [0], 3.0) is None


def test_a_vector_on_a_raster_of_its_own_has_its_vorticity_and_not_that_of_its_state(tmp_path):
    x, z = np.linspace(0.0, 2.0, 9), np.linspace(0.0, 1.0, 5)

    def raster(name, component):
        coords = {f"{name}_x": x, f"{name}_z": z}
        like = dataclasses.replace(films.STAGGERED[name], dims=(*coords,), coords=coords)
        return dataclasses.replace(like, coord_units=dict.fromkeys(coords, "mm"), component=component)

    fields = {"u": raster("u", "x"), "w": raster("w", "z")} | {f"{n}_state": where for n, where in FLOW.items()}

    def turning(name, kind, i):
        across, up = np.meshgrid(x, z, indexing="ij")
        if name.endswith("_state"):
            return np.zeros(fields[name].shape)
        return {"u": -3.0 * (up - 0.5), "w": 3.0 * (across - 1.0)}[name]

    path = films.write_film(tmp_path / "fields.h5", fields, frames=2, values=turning)
    with open_film(path) as film:
        first = planes(film)[0]
        assert [axis.label for axis in first.axes] == ["z (mm)", "x (mm)"] and first.name == "vorticity"
        np.testing.assert_allclose(next(first.frames(film, "observed", [1])), 6.0)
