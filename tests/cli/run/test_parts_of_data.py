"""Parts of a file that an experiment takes: a crop of its raster, and frames held out by number."""

import h5py
import numpy as np
import pytest

import pdefit

TIME, X = np.arange(7.0), np.arange(24.0) - 1.5
U = 0.5 + 0.1 * np.sin(TIME)[:, None] * np.linspace(0.5, 1.0, 24)
FRONT = ("~twin", "noise=0", "times.count=null", "system.grid={shape: [20], extent: [20.0], origin: [0.0]}",
         "+data.variables.u=u",
         "+data.crop=[[2, 22]]")  # fmt: skip


def _experiment(path, *overrides):
    with h5py.File(path / "u.h5", "w") as file:
        file["u"], file["time"], file["x"], file["deviation"] = U, TIME, X, 0.01 + 0.001 * np.arange(24.0)
        file["u"][3, 5] = np.nan
    return pdefit.load_experiment("reaction/fisher_front", [*FRONT, f"+data.path={path / 'u.h5'}", *overrides])


def test_a_crop_takes_values_positions_and_deviations_along(tmp_path):
    made = _experiment(tmp_path, "+data.sigma.u=deviation").source.record
    expected = U[:, 2:22].copy()
    expected[3, 3] = 0.0
    np.testing.assert_array_equal(made.values["u"], expected)
    np.testing.assert_allclose(np.ravel(made.sigma["u"]), 0.012 + 0.001 * np.arange(20.0))
    # the positions of the crop are those of the grid, and others are refused
    with pytest.raises(pdefit.PdefitError, match="starts at 1.5 mm where the model's points start at 0.5 mm"):
        _experiment(tmp_path, "+data.sigma.u=0.01", "data.crop=[[3, 23]]")
    for wrong in ("[[2, 30]]", "[[2, 2]]", "[[0, 20], [0, 1]]", "[2, 22]", "[[0.5, 3]]"):
        with pytest.raises(pdefit.PdefitError, match="data.crop expects"):
            _experiment(tmp_path, "+data.sigma.u=0.01", f"data.crop={wrong}")


def test_frames_are_held_out_by_their_numbers(tmp_path):
    made = _experiment(tmp_path, "+data.sigma.u=0.01", "holdout=[4, 1]")
    np.testing.assert_array_equal(made.held, [1, 4])
    for wrong, words in (("[0]", "between 1 and 5"), ("[6]", "got 6"), ("[1.5]", "or numbers of frames")):
        with pytest.raises(pdefit.PdefitError, match=words):
            _experiment(tmp_path, "+data.sigma.u=0.01", f"holdout={wrong}")


def test_ends_of_a_period_that_are_written_twice_are_told_where_the_grid_is_periodic(tmp_path):
    values = 0.5 + 0.1 * np.sin(2 * np.pi * np.arange(25) / 24 - TIME[:, None])
    with h5py.File(tmp_path / "u.h5", "w") as file:
        file["u"], file["time"] = values, TIME
    common = [
        "~twin",
        "noise=0",
        "times.count=null",
        "+data.variables.u=u",
        f"+data.path={tmp_path / 'u.h5'}",
        "+data.sigma.u=0.01",
    ]
    told = {}
    wraps = "+system.grid.boundary={name: periodic}"
    for more in ((), (wraps,), (wraps, "+data.crop=[[0, 24]]")):
        grid = f"system.grid={{shape: [{26 - max(len(more), 1)}], extent: [24.0], origin: [0.0]}}"
        made = pdefit.load_experiment("reaction/fisher_front", [*common, grid, *more])
        told[more] = any("leave it out (data.crop=[[0, 24]]), and take 24 cells" in r for r in made.remarks)
    assert [*told.values()] == [False, True, False]


def test_noise_that_follows_the_prediction_weighs_the_last_stage(tmp_path):
    made = _experiment(tmp_path, "data.sigma={u: {relative: 0.2, constant: auto}}")
    assert made.estimated == {"u": False} and not made.sigma_stated
    (name, variance), *others = made.stages[-1].reweight.variables
    assert (name, variance.relative, variance.constant, variance.gain, others) == ("u", 0.2, None, 0.0, [])
    counts = _experiment(tmp_path, "data.sigma=poisson")
    assert counts.sigma_stated and counts.known.counts == {"u": 1.0} and made.known.counts == {}
    np.testing.assert_allclose(counts.source.record.sigma["u"], 1.0)
    # a wrong word, two kinds at once, a part below zero, and weights from residuals beside them
    for wrong, words in (
        ("data.sigma=counts", "poisson"),
        ("data.sigma={u: {value: 0.1, gain: 1}}", "one of value, log_normal"),
        ("data.sigma={u: {gain: -1}}", "0 or more"),
        ("data.sigma={u: {certain: true}}", "one of value, log_normal"),
        ("data.noise=0.1", "data.noise adds noise of one size"),
    ):
        with pytest.raises(pdefit.PdefitError, match=words):
            _experiment(tmp_path, *[] if "sigma" in wrong else ["data.sigma=poisson"], f"+{wrong}")
    again = "stages={all: {optimizer: levenberg_marquardt, reweight: {}}}"
    with pytest.raises(pdefit.PdefitError, match="remove its reweight"):
        _experiment(tmp_path, "data.sigma=poisson", again)


def test_logarithms_are_compared_where_noise_is_a_factor(tmp_path):
    made = _experiment(tmp_path, "data.sigma={u: {log_normal: 0.1}}")
    data, seen = made.functional.observations, np.isfinite(U[:, 2:22])
    np.testing.assert_allclose(np.where(seen, data.values["u"], 0), np.log(U[:, 2:22]) * np.asarray(data.mask["u"]))
    assert made.sigma_stated and float(np.ravel(data.sigma["u"])[0]) == 0.1
    problem = made.functional.problem
    seen = problem.observe(0.0, problem.y0, None)["u"]
    np.testing.assert_allclose(seen, np.log(problem.y0.u))
    assert not _experiment(tmp_path, "data.sigma=log_normal").sigma_stated
