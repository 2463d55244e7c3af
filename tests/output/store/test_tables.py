import ast
import csv
import dataclasses
import math
from pathlib import Path

import numpy as np
import pandas
import pytest

from pdefit.output.store.tables import (
    ParameterRow,
    in_lines,
    read_parameters,
    read_series,
    span,
    write_parameters,
    write_rows,
    write_series,
    write_table,
)


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


@pytest.mark.parametrize(
    "text",
    ["=1+1", "=cmd|' /C calc'!A0", "+a", "@SUM(A1)", "-a", "-1+cmd", "--1", "\ta", "\r=1", "\n=1", "\uff1d1", "+1e5x"],
)
def test_no_text_is_a_formula(text, tmp_path):
    write_table(tmp_path / "a.csv", [[text, 1.5], ["b", text]])
    write_rows(tmp_path / "b.csv", [{text: 1.5}, {text: text}])
    write_series(tmp_path / "c.csv", np.arange(1.0), {text: np.zeros(1)})
    for path, count in ((tmp_path / "a.csv", 2), (tmp_path / "b.csv", 2), (tmp_path / "c.csv", 1)):
        with open(path, newline="", encoding="utf-8") as file:
            cells = [cell for row in csv.reader(file) for cell in row]
        assert text not in cells and cells.count(f"'{text}".replace("\r", "\n")) == count


def test_no_text_ends_its_cell(tmp_path):
    write_table(tmp_path / "a.csv", [["a\r=1", 'b",=1', "c\n=1"]])
    with open(tmp_path / "a.csv", newline="", encoding="utf-8") as file:
        assert [*csv.reader(file)] == [["a\n=1", 'b",=1', "c\n=1"]]


def test_numbers_and_other_texts_stay(tmp_path):
    row = [
        -1.5,
        np.float64(-1e-300),
        -3,
        True,
        None,
        "-1.5",
        "+1e-5",
        "-.5E3",
        "-",
        "a=b",
        " =1",
        "1/s",
        "D.guess_-0.5",
    ]
    write_table(tmp_path / "a.csv", [row])
    kept = "-1.5,-1e-300,-3,True,,-1.5,+1e-5,-.5E3,-,a=b, =1,1/s,D.guess_-0.5\n"
    assert (tmp_path / "a.csv").read_text() == kept


def test_pandas_takes_unknown_for_nan():
    """The reason why tables are written by the module csv."""
    table = pandas.DataFrame({"a": [None, math.nan, 3]}, dtype=object)
    assert table.to_csv(index=False).split("\n")[1:3] == ['""', '""']


def test_tables_are_written_in_one_place():
    root = Path(__file__).parents[3]
    writers = {"writer", "DictWriter", "to_csv", "savetxt", "to_excel"}
    found = {
        str(file.relative_to(root))
        for file in [*root.glob("pdefit/**/*.py"), *root.glob("plugins/pdefit_*/*.py")]
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in writers
    }
    assert found == {"pdefit/output/store/tables.py"}, "write them through pdefit/output/store/tables.py"


KNOWN = ParameterRow("D", "mm^2/s", "log", 2.0, 0.1 + 0.2, 0.3, 1e-16, 0.29, 0.31, -0.1, False)
UNKNOWN = ParameterRow('gm.a "b", c', "µm", "identity", -5e-324, 1e300, None, None, None, None, None, True)
DOUBTED = dataclasses.replace(KNOWN, discretisation_shift=-1.5, interval_trusted=False)


@pytest.mark.parametrize("rows", [[], [KNOWN], [KNOWN, UNKNOWN, DOUBTED]])
def test_parameters_return_exactly(tmp_path, rows):
    write_parameters(tmp_path / "p.csv", rows)
    assert read_parameters(tmp_path / "p.csv") == rows


def test_a_numpy_number_is_written_as_a_number(tmp_path):
    row = ParameterRow("D", "1", "log", np.float64(1 / 3), 1.0, None, None, None, None, None, False)
    write_parameters(tmp_path / "p.csv", [row])
    assert read_parameters(tmp_path / "p.csv")[0].guess == 1 / 3


def test_many_numbers_of_a_control_are_one_line():
    """The weights of a network, a function of time, a start at coordinates; a few numbers and named ones keep theirs."""

    def rows(control, names):
        return [dataclasses.replace(KNOWN, control=f"{control}.{n}", part_of=control, estimate=i) for i, n in names]

    few, bodies = rows("k", enumerate("01234")), rows("gm", enumerate(f"body {c}" for c in "abcdefgh"))
    start = rows("y0.u", enumerate(np.linspace(0.0, 1.0, 84)))
    network = [dataclasses.replace(KNOWN, control=f"f.net.{i // 7}.w.{i % 7}", part_of="f") for i in range(210)]
    lines = in_lines([KNOWN, *few, *bodies, *start, *network])
    assert [row.control for row, _ in lines[:-2]] == [r.control for r in (KNOWN, *few, *bodies)]
    assert [(row.control, len(many)) for row, many in lines[-2:]] == [("y0.u (84)", 84), ("f (210)", 210)]
    assert lines[-2][0].ci95_low is lines[-2][0].truth is None
    assert span([r.estimate for r in start]) == "0 to 83" and span([2.5, 2.5]) == 2.5 and span([]) == ""


def test_a_table_of_an_older_version_is_read(tmp_path):
    path = tmp_path / "p.csv"
    write_parameters(path, [DOUBTED])
    lines = [line.rsplit(",", 5)[0] for line in path.read_text(encoding="utf-8").splitlines()]
    assert lines[0].endswith("at_bound")
    path.write_text("\n".join(lines), encoding="utf-8")
    assert read_parameters(path) == [KNOWN]
