"""Maps of a whole film, and points upon the maps of its frames."""

import films
import numpy as np
import pytest

from pdefit.output.pictures.figures import draw_all, draw_run_movie
from pdefit.output.store.tables import write_rows

POINTS = [
    {"kind": kind, "time": 0.0, "frame": frame, "x": 3.0 + i, "y": 2.0, "charge": (-1) ** i}
    for kind in ("true", "predicted")
    for frame in (0, 1, 3)
    for i in range(2)
]


def _film(path, values=None, **options):
    return films.write_film(path, {"u": films.PLANE}, frames=4, values=values, **options)


def _circles(axes):
    return [[*zip(*line.get_data(), strict=True)] for line in axes.lines if line.get_marker() == "o"]


@pytest.mark.parametrize("flipped", [False, True])
def test_points_lie_upon_truth_and_prediction_of_their_frame(tmp_path, saved_figures, flipped):
    rows = [{**row, "x": row["y"], "y": row["x"]} if flipped else row for row in POINTS]
    _film(tmp_path / "fields.h5")
    write_rows(tmp_path / "points.csv", rows)
    assert not [note for note in draw_all(tmp_path).notes if "points" in note]
    panels = [axes for axes in saved_figures[0].axes if axes.images]
    truth, prediction, error = np.reshape(panels, (3, 4))
    places = [(2.0, 3.0), (2.0, 4.0)] if flipped else [(3.0, 2.0), (4.0, 2.0)]
    for row in (truth, prediction):
        assert [_circles(axes) for axes in row] == [[[p] for p in places] if n != 2 else [[], []] for n in range(4)]
    assert not any(_circles(axes) for axes in error)
    assert any("charge" in text.get_text() for text in saved_figures[0].texts)
    assert draw_run_movie(tmp_path).files == [tmp_path / "movie.mp4"]


def test_damaged_points_spoil_no_picture(tmp_path):
    _film(tmp_path / "fields.h5")
    (tmp_path / "points.csv").write_text("kind,x\ntrue,one\n")
    drawn = draw_all(tmp_path)
    assert [note for note in drawn.notes if "points.csv' is damaged" in note]
    assert "fields" in [file.stem for file in drawn.files]


@pytest.mark.parametrize("odd", [None, "nan", "constant"])
def test_a_map_has_a_panel_for_each_kind_and_lines(tmp_path, saved_figures, odd):
    def values(name, kind, i):
        rise = np.add.outer(np.arange(24.0), 2 * np.arange(17.0))
        return {None: rise, "nan": rise * np.nan, "constant": 0 * rise}[odd]

    films.write_film(tmp_path / "maps.h5", {"arrival": films.PLANE}, frames=1, values=values)
    drawn = draw_all(tmp_path)
    assert [file.stem for file in drawn.files] == ["maps"], drawn.notes
    panels = [axes for axes in saved_figures[0].axes if axes.images]
    assert [axes.get_title(loc="left") for axes in panels] == ["truth", "observed", "prediction", "error"]
    assert [bool(axes.collections) for axes in panels] == [odd != "nan"] * 3 + [False]
