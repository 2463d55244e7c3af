"""Figures of fields: whatever lies in a fields.h5, its pictures say something, and nothing warns."""

import dataclasses

import films
import matplotlib
import numpy as np
import pytest
from matplotlib import image
from matplotlib.figure import Figure

from pdefit.data.readers.fields import open_film
from pdefit.output.pictures._lines import _below
from pdefit.output.pictures._maps import colorbar, draw_map, draw_misfit, scales, telling_frames
from pdefit.output.pictures._orbits import turns_too_fast, windows
from pdefit.output.pictures._quantities import bodies, quantities, widest, with_unit
from pdefit.output.pictures._traces import probes
from pdefit.output.pictures.figures import draw_all
from pdefit.output.pictures.style import is_signed, readable_times, scale_of, scale_of_errors
from pdefit.systems.coordinates import FieldCoords

SPACES = ["line", "plane", "strip", "uneven", "box", "sphere", "position", "number", "species"]
# one for each way to draw: curves over space and time, maps, orbits, curves over time
DRAWN = ["line", "plane", "position", "number"]


def _wide_range(kind, i, shape):
    return np.logspace(-8, 2, int(np.prod(shape)) or 1).reshape(shape) * (1 + 0.1 * i)


ODD = {
    "constant": lambda kind, i, shape: np.full(shape, 3.0),
    "zero": lambda kind, i, shape: np.zeros(shape),
    "nan": lambda kind, i, shape: np.where(np.arange(np.prod(shape, dtype=int)).reshape(shape) % 3, 1.0 + i, np.nan),
    "all nan": lambda kind, i, shape: np.full(shape, np.nan),
    "infinite": lambda kind, i, shape: np.where(np.arange(np.prod(shape, dtype=int)).reshape(shape) % 3, 1.0, np.inf),
    "ten decades": _wide_range,
    "huge": lambda kind, i, shape: np.full(shape, 1e30) * (1 + i),
    "tiny": lambda kind, i, shape: np.full(shape, 1e-30) * (1 + i),
}


def _odd(name, space):
    shape = films.shape_of(films.ALL[space])
    return lambda field, kind, i: ODD[name](kind, i, shape)


def _check(run, names, notes=0):
    drawn = draw_all(run)
    assert len(drawn.notes) == notes, drawn.notes
    assert [p.name for p in drawn.files] == names
    for path in drawn.files:
        assert image.imread(path)[..., :3].std() > 0.02, f"{path.name} is a blank page"
    return drawn


def _names(space):
    return ["fields.png"] if space in ("number", "species") else ["fields.png", "traces.png"]


# spaces of two axes, whose mean misfit is a map
PLANES = ("plane", "strip", "uneven", "box", "sphere")


@pytest.mark.parametrize(
    ("space", "kinds"),
    [(space, films.KINDS) for space in SPACES]
    + [(space, kinds) for space in DRAWN for kinds in (("observed", "predicted"), ("predicted",))],
)
def test_every_space_has_its_figures(tmp_path, space, kinds):
    frames, fitted = (8, 5) if kinds == films.KINDS else (3, 2)
    run = films.write_run(tmp_path, {space: films.ALL[space]}, frames=frames, fitted=fitted, kinds=kinds)
    names = _names(space)
    _check(run, [*names[:1], "misfit.png", *names[1:]] if space in PLANES and "observed" in kinds else names)


@pytest.mark.parametrize(
    ("odd", "space"),
    [(odd, space) for odd in ODD for space in DRAWN] + [(odd, s) for odd in ("nan", "zero") for s in ("strip", "box")],
)
def test_odd_values_are_drawn(tmp_path, space, odd):
    shown = {"frames": 2, "fitted": 1, "kinds": ("observed", "predicted")}
    _check(films.write_run(tmp_path, {space: films.ALL[space]}, values=_odd(odd, space), **shown), _names(space))


@pytest.mark.parametrize(("space", "fitted"), [(s, 1) for s in SPACES] + [(s, 0) for s in DRAWN])
def test_one_frame_is_enough(tmp_path, space, fitted):
    _check(films.write_run(tmp_path, {space: films.ALL[space]}, frames=1, fitted=fitted), _names(space))


def test_no_frame_is_told(tmp_path):
    run = films.write_run(tmp_path, {"u": films.LINE}, frames=0, total=5)
    drawn = draw_all(run)
    assert drawn.files == [] and drawn.notes == ["no fields: fields.h5 holds no complete frame yet"]


def test_several_fields_have_several_figures(tmp_path):
    fields = {"u": films.PLANE, "v": dataclasses.replace(films.PLANE, long_name="gate (1/2)"), "n": films.LINE}
    run = films.write_run(tmp_path, fields, fitted=4)
    names = [p.name for p in draw_all(run).files]
    assert names == ["fields.png", "fields_gate__1_2__v.png", "fields_lines.png", "misfit.png", "traces.png"]


@pytest.mark.parametrize("form", ["svg", "pdf"])
def test_pictures_for_print(tmp_path, form):
    drawn = draw_all(films.write_run(tmp_path, {"u": films.PLANE}), form)
    assert [p.suffix for p in drawn.files] == [f".{form}"] * 3
    assert drawn.files[0].read_bytes().startswith(b"%PDF" if form == "pdf" else b"<?xml")
    assert not list((tmp_path / "figures").glob(".*"))


def test_x_runs_to_the_right_and_a_long_side_does(tmp_path):
    tall = FieldCoords(("r", "z"), {"r": np.arange(40.0), "z": np.arange(4.0)}, "1", "", {"r": "m", "z": "m"})
    square = FieldCoords(("h", "lon"), {"h": np.arange(5.0), "lon": np.arange(4.0)}, "1", "", {"h": "m", "lon": "m"})
    path = films.write_film(tmp_path / "f.h5", {"a": films.PLANE, "b": square, "c": tall, "d": films.SPHERE})
    with open_film(path) as film:
        found = {q.field.name: q for q in quantities(film)}
        right = {name: q.axes[1].name for name, q in found.items()}
        assert right == {"a": "x", "b": "lon", "c": "r", "d": "longitude"}
        for q in found.values():
            (frame,) = q.frames(film, "true", [1])
            assert frame.shape == tuple(axis.values.size for axis in q.axes)


@pytest.mark.parametrize("length", [24.0, 60.0])
def test_strips_leave_room_for_the_times_above_them(tmp_path, saved_figures, length):
    where = {"a": np.linspace(0.0, length, 30), "b": np.arange(7.0)}
    # its lower end is zero but for round-off
    where["b"] = 0.7 * (np.arange(7) + 0.5)
    strip = FieldCoords(("a", "b"), where, "K", "heat", {"a": "mm", "b": "mm"})
    with open_film(films.write_film(tmp_path / "f.h5", {"u": strip}, frames=4, fitted=2)) as film:
        draw_map(tmp_path / "u.png", film, quantities(film)[0])
    (figure,) = saved_figures
    *strips, _, _ = figure.axes
    assert len(strips) == 9 and [bool(axes.get_title(loc="left")) for axes in strips] == [True, False, False] * 3
    assert strips[-1].get_xlabel().endswith("upwards from 0 to 4.9 mm")
    tops = [axes.get_window_extent().y1 for axes in strips]
    bottoms = [figure.bbox.y1, *(axes.get_window_extent().y0 for axes in strips)]
    for axes, top, above in zip(strips, tops, bottoms, strict=False):
        if axes.get_title(loc="left"):
            assert above - top > 0.12 * figure.dpi


def test_parts_of_a_field(tmp_path):
    wind = FieldCoords(("way", "x"), {"way": np.asarray(["u", "v"]), "x": np.arange(5.0)}, "m/s", "wind", {"x": "m"})
    plain = FieldCoords(("n_0",), {"n_0": np.arange(3)})
    path = films.write_film(tmp_path / "f.h5", {"wind": wind, "n": plain, "box": films.BOX, "z": films.SPECIES})
    with open_film(path) as film:
        found = {q.label: q for q in quantities(film)}
        assert set(found) == {
            "wind u (m/s)", "wind v (m/s)", "n 0", "n 1", "n 2", "density box", "number z fox",
            "number z hare",
        }  # fmt: skip
        assert found["density box"].note == "k = 2 mm" and len(found["wind u (m/s)"].axes) == 1
        assert bodies(film) is None


def test_scales():
    assert scale_of(np.asarray([1.0, 3.0])).colours["norm"](2.0) == 0.5
    wide = scale_of(np.logspace(-8, 2, 50))
    assert wide.is_log and np.isclose(wide.low, 1e-8) and wide.limits[0] < 1e-8
    assert not scale_of(np.append(np.logspace(-8, 2, 50), -1.0)).is_log
    # a front: most of it at one or the other end
    assert not scale_of(1 / (1 + np.exp(np.linspace(-40, 40, 100)))).is_log
    assert scale_of(np.logspace(-30, 0, 50)).low == 1e-12
    flat = scale_of(np.full(3, 5.0))
    assert flat.low < 5.0 < flat.high
    assert scale_of(np.full(3, np.nan)) == scale_of(np.zeros(0))
    error = scale_of_errors(np.asarray([0.5, -2.0, np.nan]))
    assert (error.low, error.high) == (-2.0, 2.0) and error.is_error
    assert scale_of_errors(np.zeros(3)).high == 1.0
    # a few large values are marked, and do not pale the rest; without clipping nothing is lost
    spiked = np.append(np.linspace(-1, 1, 1000), 30.0)
    clipped, whole = scale_of_errors(spiked), scale_of_errors(spiked, clip=False)
    assert clipped.is_clipped and clipped.high == 6.0 and (whole.is_clipped, whole.high) == (False, 30.0)
    assert is_signed(np.asarray([-1.0, 2.0, np.nan])) and not is_signed(np.asarray([-0.1, 2.0]))
    shared, errors = scales(
        [{"a": np.asarray([-1.0, 0.0]), "b": np.asarray([0.0, 2.0]), "error": np.asarray([9.0, 9.0])}]
    )
    assert (shared.low, shared.high, shared.is_error) == (-2.0, 2.0, True) and errors.high == 9.0


def test_long_times_are_told_in_hours_and_days():
    for last, unit, expected in ((9e4, "s", 9e4), (3.6e5, "h", 100.0), (8.64e7, "d", 1000.0)):
        ts, name = readable_times(np.asarray([0.0, last]), "s")
        assert (ts[-1], name) == (expected, unit)
    assert readable_times(np.asarray([0.0, 1e6]), "ms")[1] == "ms"


def test_the_mean_misfit_shows_what_the_model_misses(tmp_path, saved_figures):
    """Noise of size 1 in standard errors, and a corner where every frame is off by a tenth."""
    rng = np.random.default_rng(0)

    def values(name, kind, i):
        frame = np.zeros(films.shape_of(films.PLANE))
        if kind == "observed":
            frame += rng.normal(size=frame.shape)
            frame[:4, :4] += 1.0
        return frame

    path = films.write_film(tmp_path / "f.h5", {"u": films.PLANE}, frames=40, fitted=36, values=values)
    with open_film(path) as film:
        draw_misfit(tmp_path / "misfit.png", film, quantities(film))
    shown = np.asarray(saved_figures[0].axes[0].images[0].get_array())
    # rows of the image are y; a mean of 36 frames is 6 standard errors of one
    assert -7 < shown[:4, :4].mean() < -4 and 0.8 < shown[6:, 6:].std() < 1.2
    nothing = scale_of(np.asarray([0.0, 1.0])).colours["cmap"](np.nan, bytes=True)
    assert tuple(nothing[:3]) == (0xD9, 0xD9, 0xD9)


def test_probes_lie_where_the_field_changes_and_apart(tmp_path):
    def values(name, kind, i):
        x = np.zeros((24, 17))
        x[3, 3], x[20, 13], x[3, 4] = i, 0.9 * i, 0.99 * i
        return x

    with open_film(films.write_film(tmp_path / "f.h5", {"u": films.PLANE}, values=values)) as film:
        (quantity,) = quantities(film)
        # rows are y, columns are x
        assert set(probes(film, quantity, 2)) == {(3, 3), (13, 20)}
        assert len(set(probes(film, quantity, 4))) == 4


def test_orbits_are_seen_from_where_they_are_wide():
    t = np.linspace(0, 6, 200)
    way = np.stack([np.cos(t), 0.01 * np.sin(t), np.sin(t)], axis=-1)
    far = np.stack([r * way for r in (0.0, 1.0, 2.0, 30.0)], axis=1)
    assert widest(far) == [0, 2]
    assert not turns_too_fast(way[:, [0, 2]]) and turns_too_fast(way[::40, [0, 2]])
    whole, inner = windows(far[..., [0, 2]])
    assert whole[2] > 30 and 2 < inner[2] < 3
    assert len(windows(far[:, :2][..., [0, 2]])) == 1


@pytest.mark.parametrize(
    ("frames", "fitted", "told"), [(9, 4, [0, 3, 6, 8]), (9, 9, [0, 3, 5, 8]), (2, 1, [0, 1]), (1, 0, [0])]
)
def test_frames_that_tell(tmp_path, frames, fitted, told):
    with open_film(films.write_film(tmp_path / "f.h5", {"u": films.LINE}, frames=frames, fitted=fitted)) as film:
        assert telling_frames(film) == told


def test_drawing_leaves_no_trace(tmp_path):
    before = dict(matplotlib.rcParams)
    draw_all(films.write_run(tmp_path, {"u": films.PLANE}))
    assert dict(matplotlib.rcParams) == before


def test_fields_are_drawn_in_the_order_of_the_state(tmp_path):
    path = films.write_film(tmp_path / "fields.h5", {"w": films.LINE, "b": films.LINE, "k": films.LINE})
    with open_film(path) as film:
        assert [q.field.name for q in quantities(film)] == ["w", "b", "k"]


def test_places_that_are_alike_are_drawn_once(tmp_path):
    def same(kind, i, shape):
        return np.full(shape, np.sin(i))

    path = films.write_film(
        tmp_path / "fields.h5",
        {"line": films.LINE},
        values=lambda field, kind, i: same(kind, i, films.shape_of(films.LINE)),
    )
    with open_film(path) as film:
        assert len(probes(film, quantities(film)[0])) == 1


def test_a_simulation_of_many_fields_has_pictures(tmp_path):
    fields = {"u": films.LINE, "v": films.LINE, "w": films.LINE}
    _check(films.write_run(tmp_path, fields, kinds=("predicted",)), ["fields.png", "traces.png"])


def test_numbers_have_no_unit():
    assert with_unit("gate v", "1") == "gate v" and with_unit("voltage", "mV") == "voltage (mV)"


def test_a_colour_bar_tells_its_power_of_ten():
    fig = Figure()
    scale = scale_of_errors(np.array([-3e-7, 2e-7]))
    bar = colorbar(fig, scale, "error (K)", cax=fig.add_axes((0, 0, 1, 1)))
    assert bar.ax.get_ylabel() == "error (K), $10^{-7}$" and bar.formatter(-2e-7) == "-2"


def test_a_hidden_field_stands_below_predictions():
    """It has a prediction and nothing else, which must not be taken for data."""
    names = ("observed", "prediction", "error")
    assert _below(names, ("prediction",), ["first", "second", "third"]) == ["second"]
    assert _below(names, ("truth", "prediction", "error"), [0, 1, 2]) == [0, 1, 2]
