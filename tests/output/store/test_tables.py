import numpy as np

from pdefit.output.store.tables import read_series, write_series


def test_series_return_exactly(tmp_path):
    ts = np.asarray([0.0, 0.1 + 0.2, 1e300])
    columns = {"Sun": np.asarray([1 / 3, np.nan, 5e-324]), "all, baseline": np.asarray([-1.0, 2.0, 0.1])}
    write_series(tmp_path / "s.csv", ts, columns)
    read_ts, read = read_series(tmp_path / "s.csv")
    np.testing.assert_array_equal(read_ts, ts)
    assert list(read) == list(columns)
    for name, values in columns.items():
        np.testing.assert_array_equal(read[name], values)


def test_what_is_not_finite_is_an_empty_cell(tmp_path):
    write_series(tmp_path / "s.csv", np.arange(3.0), {"a": np.asarray([np.nan, np.inf, 1.0])})
    assert (tmp_path / "s.csv").read_text() == "time,a\n0.0,\n1.0,\n2.0,1.0\n"


def test_a_single_row_stays_a_row(tmp_path):
    write_series(tmp_path / "s.csv", np.asarray([2.0]), {"a": np.asarray([3.0])})
    ts, columns = read_series(tmp_path / "s.csv")
    assert ts.tolist() == [2.0] and columns["a"].tolist() == [3.0]
