"""The film of unknown fields over the evaluations of a fit."""

import jax.numpy as jnp
import numpy as np
import pytest
import xarray

from pdefit.cli.run.build import build_experiment
from pdefit.cli.run.course import Course
from pdefit.data.readers.fields import open_film
from pdefit.output.pictures.figures import draw_all, draw_run_movie

SCAR = ("experiment=cardiac/scar_map", "system.grid.shape=[24, 24]", "times.stop=4.0", "times.count=3")


@pytest.fixture(scope="module")
def scar(compose):
    return build_experiment(compose(*SCAR))


def _shown(path):
    with xarray.open_dataset(path, engine="h5netcdf") as film:
        return film.load()


def test_frames_lie_further_and_further_apart_and_end_with_the_estimate(scar, tmp_path):
    path, controls, theta = tmp_path / "course.h5", scar.functional.controls, np.asarray(scar.functional.theta0)
    course = Course(path, scar, "float64", "scar")
    for evaluations in range(1, 8):
        course(evaluations, controls, theta - 0.1 * evaluations)
    course(7, controls, theta - 0.8, is_last=True)
    film = _shown(path)
    np.testing.assert_array_equal(film.time, [1, 2, 3, 5, 7])
    assert film.time.attrs["unit"] == "evaluation" and film.D_predicted.dims == ("time", "x", "y")
    (estimate,) = controls.values(jnp.asarray(theta - 0.8)).values()
    np.testing.assert_allclose(film.D_predicted[-1], estimate, rtol=1e-12)
    assert film.D_true.min() < 0.7 * film.D_true.max() and np.all(film.D_true == film.D_true[0])
    assert [file.stem for file in draw_all(tmp_path).files] == ["course"]
    with open_film(path) as film:
        assert film.title_of(3) == "evaluation 5"
    assert [file.name for file in draw_run_movie(tmp_path).files] == ["course.mp4"]


def test_a_resumed_fit_keeps_the_frames_that_it_has_behind_it(scar, tmp_path):
    path, controls, theta = tmp_path / "course.h5", scar.functional.controls, np.asarray(scar.functional.theta0)
    course = Course(path, scar, "float64", "scar")
    for evaluations in range(1, 6):
        course(evaluations, controls, theta - 0.1 * evaluations)
    before = _shown(path)
    # the frame of evaluation 5 is of a fit that died before its state was saved
    Course(path, scar, "float64", "scar", keep=4)(6, controls, theta)
    film = _shown(path)
    np.testing.assert_array_equal(film.time, [1, 2, 3, 6])
    np.testing.assert_array_equal(film.D_predicted[:3], before.D_predicted[:3])
    path.write_bytes(path.read_bytes()[:1000])
    Course(path, scar, "float64", "scar", keep=6)(7, controls, theta)
    np.testing.assert_array_equal(_shown(path).time, [7])


def test_numbers_have_no_film(compose, tmp_path):
    few = build_experiment(compose("experiment=reaction/fisher_front", "twin=self", "system.grid.shape=[40]"))
    Course(tmp_path / "course.h5", few, "float64", "front")(
        1, few.functional.controls, np.asarray(few.functional.theta0)
    )
    assert not [*tmp_path.iterdir()]
