"""Experiments on files of MATLAB and NumPy."""

import numpy as np
import pytest
from scipy.io import savemat

import pdefit

TIME, X = np.arange(7.0), np.arange(20.0) + 0.5
U = 0.5 + 0.1 * np.sin(TIME)[:, None] * np.linspace(0.5, 1.0, 20)
FRONT = ("~twin", "noise=0", "times.count=null", "system.grid={shape: [20], extent: [20.0], origin: [0.0]}",
         "+data.variables.u=usol",
         "+data.sigma.u=0.01", "+data.time=t")  # fmt: skip


def _experiment(path, *overrides):
    return pdefit.load_experiment("reaction/fisher_front", [*FRONT, f"+data.path={path}", *overrides])


def test_a_file_of_matlab_is_fitted_as_it_is(tmp_path):
    savemat(tmp_path / "u.mat", {"usol": U.T, "t": TIME[:, None], "x": X[:, None]})
    made = _experiment(tmp_path / "u.mat", "+data.coordinates.x=x")
    np.testing.assert_array_equal(made.source.record.values["u"], U)
    np.testing.assert_array_equal(made.source.record.ts, TIME)
    assert any("put into the order (7, 20), times first" in remark for remark in made.remarks)
    # positions are compared with the model's as those of any file
    savemat(tmp_path / "v.mat", {"usol": U.T, "t": TIME, "x": X - 0.5})
    with pytest.raises(pdefit.PdefitError, match="x of 'u' in 'v.mat' starts at 0"):
        _experiment(tmp_path / "v.mat")


def test_a_film_of_matlab_without_times(tmp_path):
    savemat(tmp_path / "u.mat", {"usol": U.T})
    with pytest.raises(pdefit.PdefitError, match="is called 't'; .* If there are no times, state the time between"):
        _experiment(tmp_path / "u.mat")
    made = _experiment(tmp_path / "u.mat", "data.time=0.5", "+data.axes={u: [x, time]}")
    np.testing.assert_array_equal(made.source.record.values["u"], U)
    np.testing.assert_array_equal(made.source.record.ts, 0.5 * np.arange(7))
    assert "units: time in s, as are numbers of data.sigma and times" in made.choices
    with pytest.raises(pdefit.PdefitError, match="data.time expects .* a positive time step"):
        _experiment(tmp_path / "u.mat", "data.time=-0.5")


def test_names_of_axes_where_their_lengths_are_equal(tmp_path):
    np.savez(tmp_path / "u.npz", usol=np.arange(400.0).reshape(20, 20), t=np.arange(20.0), x=X)
    with pytest.raises(pdefit.PdefitError, match=r"their order is open.*\+data.axes=\{u: \[x, time\]\}"):
        _experiment(tmp_path / "u.npz")
    made = _experiment(tmp_path / "u.npz", "+data.axes={u: [x, time]}")
    np.testing.assert_array_equal(made.source.record.values["u"][0], np.arange(20.0) * 20)
    for wrong in ("{u: x}", "[x, time]", "{u: [1, time]}"):
        with pytest.raises(
            pdefit.PdefitError, match="data.axes expects the axes of a variable in the order of the file"
        ):
            _experiment(tmp_path / "u.npz", f"+data.axes={wrong}")
