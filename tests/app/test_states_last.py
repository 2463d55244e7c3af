"""A run whose initial state is unknown: tables follow the numbers; a stage may be left out."""

import csv

import h5py
import numpy as np
import pytest

from pdefit.app.stages_config import left_open, read_stages
from pdefit.errors import PdefitError

FRONT = (
    "experiment=reaction/fisher_front", "twin=self", "system.grid.shape=[80]", "times.count=9", "times.stop=4.0",
    "times.fit_until=null", "certificate=warn", "render=false", "max_iterations=4",
)  # fmt: skip


def test_tables_follow_the_numbers_beside_a_state(pdefit_inside, tmp_path, monkeypatch):
    for module in ("inverse.controls", "app.parameter_rows"):
        monkeypatch.setattr(f"pdefit.{module}.FEW", 20)
    run = tmp_path / "run"
    code, _, err = pdefit_inside(
        "fit", *FRONT, "stages=gauss_newton_cg", "+controls.y0.u.transform=identity", f"hydra.run.dir={run}"
    )
    assert code == 0, err
    with open(run / "parameters.csv", newline="") as file:
        rows = {r["control"]: r for r in csv.DictReader(file)}
    assert list(rows) == ["D", "r"]
    with h5py.File(run / "history.h5") as file:
        history, done = np.asarray(file["control"]), int(file["n_done"][()])  # pyright: ignore[reportIndexIssue]
    assert history.shape[1] == 2 and 1 <= done <= 4
    np.testing.assert_allclose(history[0], [float(rows[n]["guess"]) for n in rows], rtol=1e-6)
    assert np.any(np.all(np.isclose(history, [float(rows[n]["estimate"]) for n in rows], rtol=1e-6), axis=1))


def test_a_stage_that_is_null_is_left_out(compose):
    first = "+stages.first={optimizer: {_target_: pdefit.LBFGS}, max_iterations: 7, window: 2.0}"
    chosen = "stages=levenberg_marquardt"
    assert len(read_stages(compose(*FRONT, chosen, first)["stages"])) == 2
    (stage,) = read_stages(compose(*FRONT, chosen, "+stages.first=null")["stages"])
    assert stage.formulation is None
    (stage,) = read_stages(compose(*FRONT, chosen, first, "stages.main=null")["stages"])
    assert stage.max_iterations == 7
    # the one that is left may be open
    assert left_open(compose(*FRONT, "+stages.first=null")["stages"])
    with pytest.raises(PdefitError, match="stages expects at least one stage"):
        read_stages({"main": None})
