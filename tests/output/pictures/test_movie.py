"""Movies: what a decoder finds in the file, and what is in its frames."""

import av
import films
import imageio.v3
import numpy as np
import pytest

from pdefit._util.errors import PdefitError
from pdefit.data.readers.fields import open_film
from pdefit.output.pictures import _movie as encoding
from pdefit.output.pictures._movie import draw_movie, write_movie
from pdefit.output.pictures.figures import draw_run_movie


def _frames(path) -> np.ndarray:
    return imageio.v3.imread(path, plugin="pyav")


@pytest.mark.parametrize("space", ["line", "plane", "strip", "uneven", "box", "sphere", "position"])
def test_a_movie_plays_everywhere(tmp_path, space):
    path = films.write_film(tmp_path / "fields.h5", {space: films.ALL[space]}, frames=4, fitted=2)
    with open_film(path) as film:
        movie = draw_movie(tmp_path / "movie.mp4", film)
    assert movie == tmp_path / "movie.mp4" and movie.stat().st_size > 0
    told = imageio.v3.immeta(movie, plugin="pyav")
    assert (told["codec"], told["video_format"]) == ("h264", "yuv420p")
    shots = _frames(movie)
    assert len(shots) == 4 and shots.shape[1] % 2 == 0 and shots.shape[2] % 2 == 0
    assert all(np.abs(shots[i].astype(int) - shots[i + 1]).max() > 60 for i in range(3))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["fields.h5", "movie.mp4"]


def test_frames_are_padded_never_resized(tmp_path):
    shots = [np.full((33, 51, 3), 40 * i, np.uint8) for i in range(4)]
    write_movie(tmp_path / "m.mp4", iter(shots), 4)
    found = _frames(tmp_path / "m.mp4")
    assert found.shape == (4, 34, 52, 3)
    for i in range(4):
        assert np.abs(found[i, :30, :46].astype(int) - 40 * i).max() <= 6
        assert found[i, -1].min() > 200 and found[i, :, -1].min() > 200


def test_long_films_are_thinned(tmp_path):
    path = films.write_film(tmp_path / "fields.h5", {"u": films.LINE}, frames=12)
    with open_film(path) as film:
        assert len(_frames(draw_movie(tmp_path / "movie.mp4", film, most_frames=5))) == 5


def test_images_hold_the_colours_of_their_cells(tmp_path):
    """Left half low, right half high, in the truth; the other way round in the prediction."""

    def values(name, kind, i):
        x = np.zeros((24, 17))
        x[12:] = 1.0
        return x if kind == "true" else x[::-1]

    path = films.write_film(tmp_path / "f.h5", {"u": films.PLANE}, frames=2, kinds=("predicted", "true"), values=values)
    with open_film(path) as film:
        shot = _frames(draw_movie(tmp_path / "m.mp4", film))[1].astype(int)
    yellow = (shot[..., 0] > 220) & (shot[..., 1] > 200) & (shot[..., 2] < 90)
    columns = np.flatnonzero(yellow.sum(axis=0) > 100)
    # the truth's right half and the prediction's left half are one band but for the gap between the panels
    assert 250 < np.ptp(columns) < 330


@pytest.mark.parametrize("odd", ["constant", "nan", "decades", "one"])
@pytest.mark.parametrize("space", ["line", "plane", "position", "cell"])
def test_odd_films_have_a_movie(tmp_path, space, odd):
    shape = films.shape_of(films.ALL[space])

    def values(name, kind, i):
        if odd == "decades":
            return np.logspace(-8, 2, int(np.prod(shape))).reshape(shape)
        return np.full(shape, np.nan if odd == "nan" else 2.0)

    frames = 1 if odd == "one" else 2
    path = films.write_film(tmp_path / "f.h5", {space: films.ALL[space]}, frames=frames, values=values)
    with open_film(path) as film:
        assert len(_frames(draw_movie(tmp_path / "m.mp4", film))) == frames


def test_a_gif_where_no_encoder_is(tmp_path, monkeypatch):
    monkeypatch.setattr(av, "codecs_available", {"gif"})
    path = films.write_film(tmp_path / "fields.h5", {"u": films.PLANE}, frames=3)
    with open_film(path) as film:
        movie = draw_movie(tmp_path / "movie.mp4", film)
    assert movie.name == "movie.gif" and len(_frames(movie)) == 3
    assert not (tmp_path / "movie.mp4").exists()


# imageio's plugin tries to flush the failed encoder once more when it is collected
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_encoder_that_fails_is_one_sentence(tmp_path, monkeypatch):
    # an H.264 encoder that needs a device
    monkeypatch.setattr(encoding, "_MP4", (".mp4", "h264_v4l2m2m", "yuv420p"))
    with pytest.raises(PdefitError, match="The encoder h264_v4l2m2m could not write 'm.mp4'"):
        write_movie(tmp_path / "m.mp4", iter([np.zeros((64, 64, 3), np.uint8)] * 50), 50)
    assert list(tmp_path.iterdir()) == []


def test_a_movie_that_lost_frames_is_not_kept(tmp_path):
    with pytest.raises(PdefitError, match="was to hold 3 frames, but got 2"):
        write_movie(tmp_path / "m.mp4", iter([np.zeros((64, 64, 3), np.uint8)] * 2), 3)
    assert list(tmp_path.iterdir()) == []


def test_a_system_without_space_has_no_movie(tmp_path):
    drawn = draw_run_movie(films.write_run(tmp_path, {"n": films.NUMBER}))
    assert drawn.files == [] and drawn.notes == []
