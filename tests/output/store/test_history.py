from pathlib import Path
from types import SimpleNamespace

import h5py
import numpy as np
import pytest

from pdefit.output.store.history import HistoryFile, read_history


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


def test_a_killed_history_opens_and_its_counted_rows_are_complete(killed):
    def write(path: Path) -> None:
        with HistoryFile(path, ["a", "b"]) as history:
            for i in range(1, 40):
                history.append(_rows(i, 1), np.full((1, 2), float(i)))

    counts = set()
    for path in killed(write):
        with h5py.File(path) as file:
            done = int(file["n_done"][()])
            expected = np.arange(1, done + 1)
            for column, value in (("iteration", expected), ("loss", 1 / expected), ("accepted", expected % 2 == 0)):
                np.testing.assert_array_equal(file[column][:done], value)
            np.testing.assert_array_equal(file["control"][:done, 1], expected)
        counts.add(done)
    assert counts == set(range(40))


def test_a_long_history_has_its_rows_and_no_others(tmp_path):
    rows = 2500
    with HistoryFile(tmp_path / "h.h5", ["a"]) as history:
        for first in range(1, rows, 500):
            history.append(_rows(first, 500), np.arange(first, first + 500.0)[:, None])
    read = read_history(tmp_path / "h.h5")
    assert read["iteration"].tolist() == list(range(1, rows + 1)) and read["a"].tolist() == read["iteration"].tolist()
    with HistoryFile(tmp_path / "h.h5", ["a"], keep=1800):
        pass
    assert read_history(tmp_path / "h.h5")["iteration"].tolist() == list(range(1, 1801))
