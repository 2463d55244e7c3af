from types import SimpleNamespace

import h5py
import numpy as np
import pytest

from pdefit.output.store.history import HistoryFile


def _rows(first: int, count: int) -> list[SimpleNamespace]:
    return [
        SimpleNamespace(
            iteration=i, stage=1, loss=1 / i, gradient_norm=0.5, accepted=i % 2 == 0, seconds=0.01, step_error=np.nan
        )
        for i in range(first, first + count)
    ]


def test_history_grows_row_by_row(tmp_path):
    with HistoryFile(tmp_path / "h.h5", ["D", "gm.Mars"]) as history:
        history.append(_rows(1, 3), np.arange(6.0).reshape(3, 2))
        history.append(_rows(4, 1), np.asarray([[6.0, 7.0]]))
    with h5py.File(tmp_path / "h.h5") as file:
        read = {name: file[name][()] for name in file}  # pyright: ignore[reportIndexIssue]
    assert read["n_done"] == 4
    assert read["iteration"].tolist() == [1, 2, 3, 4] and read["accepted"].tolist() == [0, 1, 0, 1]
    assert read["loss"].tolist() == [1.0, 1 / 2, 1 / 3, 1 / 4]
    np.testing.assert_array_equal(read["control"], np.arange(8.0).reshape(4, 2))


@pytest.mark.parametrize("names", [[], ["gm.Sun", "gm.Éris"]])
def test_names_of_controls_are_kept(tmp_path, names):
    with HistoryFile(tmp_path / "h.h5", names) as history:
        history.append(_rows(1, 2), np.zeros((2, len(names))))
    with h5py.File(tmp_path / "h.h5") as file:
        found = [x.decode("utf-8") for x in file["control_name"][:]]  # pyright: ignore[reportIndexIssue]
        assert found == names and file["control"].shape == (2, len(names))  # pyright: ignore[reportAttributeAccessIssue]


_IMPORTS = """
from types import SimpleNamespace
import numpy as np
from pdefit.output.store.history import HistoryFile
"""

_WRITE = """
history, i = HistoryFile(path, ["a", "b"]), 0
ready()
while True:
    i += 1
    row = SimpleNamespace(iteration=i, stage=1, loss=1 / i, gradient_norm=1.0, accepted=True, seconds=0.0, step_error=0.5)
    history.append([row], np.full((1, 2), float(i)))
"""


def test_a_killed_history_opens_and_its_counted_rows_are_complete(kill_writers):
    counted = []
    for path in kill_writers(_IMPORTS, _WRITE, 4):
        with h5py.File(path, "r") as file:
            done = int(file["n_done"][()])  # pyright: ignore[reportIndexIssue, reportArgumentType]
            expected = np.arange(1, done + 1)
            for column, value in (("iteration", expected), ("loss", 1 / expected), ("accepted", np.ones(done))):
                np.testing.assert_array_equal(file[column][:done], value)  # pyright: ignore[reportIndexIssue]
            np.testing.assert_array_equal(file["control"][:done, 1], expected)  # pyright: ignore[reportIndexIssue]
        counted.append(done)
    assert max(counted) > 0, "no writer lived long enough to test anything"
