"""True values stated in a configuration: they reach the tables, and never the fit."""

import dataclasses

import h5py
import jax
import numpy as np
import pytest

from pdefit._util.errors import PdefitError
from pdefit.cli.run.build import build_experiment
from pdefit.cli.run.parameters import parameter_table as _table
from pdefit.cli.run.source import true_theta
from pdefit.output.store.tables import ParameterRow


@pytest.fixture
def built(compose, tmp_path, monkeypatch):
    """A fit of a front to a file, whose system says nothing of the truth."""
    monkeypatch.chdir(tmp_path)
    with h5py.File("film.h5", "w") as file:
        ts = np.linspace(0.0, 7.0, 8)
        file["time"], file["u"] = ts, 0.5 + 0.1 * np.sin(ts)[:, None] * np.ones(20)
    front = ("experiment=reaction/fisher_front", "system.grid.shape=[20]", "~twin", "noise=0", "+data.path=film.h5")

    def build(*overrides):
        return build_experiment(compose(*front, "+data.variables.u=u", "+data.sigma.u=0.1", *overrides))

    return build


def test_a_stated_truth_reaches_the_table_and_not_the_fit(built):
    plain, told = built(), built("+data.truth={D: 2.5}")
    assert plain.truth is None
    names = told.functional.controls.names()
    truth = dict(zip(names, true_theta(told.functional.controls, told.true_value), strict=True))
    assert truth["D"] == pytest.approx(np.log(2.5)) and np.isnan(truth["r"])
    before, after = (jax.tree.leaves((e.functional.theta0, e.functional.problem)) for e in (plain, told))
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))


@pytest.mark.parametrize(
    ("truth", "words"),
    [
        ("{Q: 1.0}", "No control is called 'Q'"),
        ("{D: fast}", "data.truth.D expects a number"),
        ("{D: [1.0, 2.0]}", "data.truth.D expects a number"),
        ("{D: true}", "data.truth.D expects a number"),
        ("{D: -1.0}", r"data.truth.D lies outside what its transform \(log\) can reach"),
        ("{capacity: 1.0}", "is called 'capacity'"),
        ("2.5", "data.truth expects controls with their true values"),
    ],
)
def test_truths_that_nobody_can_mean(built, truth, words):
    with pytest.raises(PdefitError, match=words):
        built(f"+data.truth={truth}")


def test_a_term_of_another_form_in_the_truth_leaves_that_of_the_model(compose):
    """A network that a system declares stays one beside a twin's formula, of which it takes no arguments."""
    exp = build_experiment(compose("experiment=reaction/fisher_kpp_discovery", "times.count=3"))
    names = exp.functional.controls.names()
    truth = dict(zip(names, true_theta(exp.functional.controls, exp.true_value), strict=True))
    assert type(exp.functional.problem.system.growth).__name__ == "Network"
    assert truth["left"] == pytest.approx(1.0) and sum(n.startswith("growth.net.") for n in names) == 10
    assert all(np.isnan(x) for n, x in truth.items() if n.startswith("growth"))


def test_a_field_is_one_line_of_the_table():
    rows = [
        ParameterRow(
            f"y0.u.{i / 4}",
            "1",
            "identity",
            0.5,
            0.01 * i,
            0.01 * i + 0.001,
            None,
            0.0,
            0.02,
            2.0,
            False,
            part_of="y0.u",
        )
        for i in range(64)
    ]
    alone = ParameterRow("D", "1", "log", 1.0, 2.0, None, None, None, None, None, False)
    table = _table([alone, *rows])
    columns = [list(column.cells) for column in table.columns]
    assert columns[0] == ["D", "y0.u (64)"] and columns[2] == ["2", "0 to 0.63"] and columns[3] == ["", "±1.0e-02"]
    assert columns[4][1] == "0.001 to 0.631" and columns[6][1] == "2.0" and "parameters.csv" in str(table.caption)
    assert float(columns[5][1]) == pytest.approx(0.001 * 8 / np.linalg.norm([r.truth for r in rows]), rel=0.05)
    assert len(list(_table(rows[:5]).columns[0].cells)) == 5
    doubted = [dataclasses.replace(r, interval_trusted=False) for r in rows]
    assert list(_table(doubted).columns[3].cells) == ["(±1.0e-02)"]


def test_an_interval_of_a_logarithm_is_told_by_its_ends():
    row = ParameterRow("D", "1", "log", 1.0, 2.0, None, None, 0.5, 8.0, None, False)
    narrow = dataclasses.replace(row, ci95_low=1.98, ci95_high=2.0202)
    assert list(_table([row, narrow]).columns[3].cells) == ["0.5 … 8", "±2.0e-02"]


def test_columns_without_content_are_left_out():
    row = ParameterRow("D", "1", "log", 1.0, 2.0, None, None, 1.9, 2.1, None, False, -3.0, False)
    table = _table([row])
    assert [column.header for column in table.columns] == ["control", "guess", "estimate", "95 %", "shift"]
    assert "half widths" in str(table.caption)
    known = dataclasses.replace(row, truth=2.0, relative_error=0.0, z_score=1.5, discretisation_shift=None)
    columns = {column.header: list(column.cells) for column in _table([known]).columns}
    nothing = dataclasses.replace(row, ci95_low=0.0, ci95_high=None, interval_trusted=True)
    assert [*_table([nothing]).columns[3].cells] == ["not determined"]
    assert columns["z"] == ["(+1.5)"] and columns["95 %"] == ["(±1.0e-01)"] and "shift" not in columns
