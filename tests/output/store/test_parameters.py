import dataclasses

import numpy as np
import pytest

from pdefit.output.store.parameters import ParameterRow, read_parameters, write_parameters

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


def test_a_table_of_an_older_version_is_read(tmp_path):
    path = tmp_path / "p.csv"
    write_parameters(path, [DOUBTED])
    lines = [line.rsplit(",", 2)[0] for line in path.read_text(encoding="utf-8").splitlines()]
    assert lines[0].endswith("at_bound")
    path.write_text("\n".join(lines), encoding="utf-8")
    assert read_parameters(path) == [KNOWN]
