"""A run whose initial state is unknown: tables follow the numbers; a stage may be left out."""

import csv

import h5py
import numpy as np
import pytest

from pdefit._util.errors import PdefitError
from pdefit.cli.config.stages import read_stages

FRONT = (
    "experiment=reaction/fisher_front", "twin=self", "system.grid.shape=[80]", "times.count=9", "times.stop=4.0",
    "times.fit_until=null", "certificate=warn", "render=false", "max_iterations=4",
)  # fmt: skip


def test_tables_follow_the_numbers_beside_a_state(pdefit_inside, tmp_path, monkeypatch):
    for module in ("theta", "bound_control"):
        monkeypatch.setattr(f"pdefit.inverse.controls.{module}.FEW", 20)
    run = tmp_path / "run"
    code, out, err = pdefit_inside(
        "fit", *FRONT, "stages=gauss_newton_cg", "+controls.y0.u.transform=identity", f"hydra.run.dir={run}"
    )
    assert code == 0 and "writing fields.h5\n" in out, err
    with open(run / "parameters.csv", newline="") as file:
        rows = {r["control"]: r for r in csv.DictReader(file)}
    assert list(rows) == ["D", "r"]
    with h5py.File(run / "history.h5") as file:
        history, done = np.asarray(file["control"]), int(file["n_done"][()])  # pyright: ignore[reportIndexIssue]
    assert history.shape[1] == 2 and 1 <= done <= 4
    np.testing.assert_allclose(history[0], [float(rows[n]["guess"]) for n in rows], rtol=1e-6)
    assert np.any(np.all(np.isclose(history, [float(rows[n]["estimate"]) for n in rows], rtol=1e-6), axis=1))


def test_a_history_has_the_guess_of_a_state_that_a_stage_does_not_move(pdefit_inside, tmp_path):
    run, few = tmp_path / "run", ("times.count=5", "system.grid.shape=[40]", "max_iterations=3")
    code, out, err = pdefit_inside("fit", *FRONT, *few, "+controls.y0.u.guess=data", f"hydra.run.dir={run}")
    assert code == 0, err
    # stages that are chosen fit the numbers first
    with h5py.File(run / "history.h5") as file:
        history = np.asarray(file["control"])[np.asarray(file["stage"]) == 1]  # pyright: ignore[reportIndexIssue]
    with h5py.File(run / "fields.h5") as file:
        first = np.asarray(file["u_observed"])[0]  # pyright: ignore[reportIndexIssue]
    assert history.shape == (3, 42) and np.all(history[1:, :2] != history[0, :2])
    np.testing.assert_allclose(history[:, 2:], np.tile(first, (3, 1)), rtol=1e-6)
    parts = {part.split()[0] for part in out.partition("seconds: ")[2].partition("\n")[0].split(", ")}
    assert "fit" in parts and "forecast" not in parts


def test_a_stage_that_is_null_is_left_out(compose):
    first = "+stages.first={optimizer: {name: lbfgs}, max_iterations: 7, window: 2.0}"
    chosen = "stages=levenberg_marquardt"
    assert len(compose(*FRONT, chosen, first).stages.stages) == 2
    (stage,) = compose(*FRONT, chosen, "+stages.first=null").stages.stages
    assert stage.formulation is None
    (stage,) = compose(*FRONT, chosen, first, "stages.main=null").stages.stages
    assert stage.max_iterations == 7
    # the one that is left may be open
    assert compose(*FRONT, "+stages.first=null").stages.open
    with pytest.raises(PdefitError, match="stages expects at least one stage"):
        read_stages({"main": None})


@pytest.mark.parametrize(
    ("first", "said"),
    [
        (
            "window: 2.0, until: 1.0",
            "stages.first: there are a window and an until; keep one, or make two stages of it",
        ),
        ("every: 2", r"stages.first: every says which windows are run, so it expects the length of a window"),
        ("window: whole, every: 2", r"stages.first: every says which windows are run, so it expects the length"),
        ("window: whole, until: 1.0", "stages.first: there are a window and an until; keep one"),
        ("window: whole, nudge: 0.5", "stages.first is the last stage and would fit a part"),
        ("window: 2.0, held: true", "stages.first: there is a window, which holds states anyway; remove held"),
        ("until: 1.0", "stages.first is the last stage and would fit a part of the record only"),
        ("held: true", "stages.first is the last stage and would leave the initial state at its guess"),
    ],
)
def test_parts_of_a_record_are_named_by_one_key_and_never_last(compose, first, said):
    last = "" if "is the last stage" in said else ", last: {optimizer: {name: lbfgs}}"
    stages = f"stages={{first: {{optimizer: {{name: lbfgs}}, {first}}}{last}}}"
    with pytest.raises(PdefitError, match=said):
        compose(*FRONT, "~stages", f"+{stages}")


def test_a_fit_itself_sees_the_whole_record(pdefit_inside, tmp_path):
    code, _, err = pdefit_inside("fit", *FRONT, "+formulation.until=1.0", f"hydra.run.dir={tmp_path / 'run'}")
    assert code == 1 and "formulation leaves out a part of the record" in err
