import json

import pytest
import xarray as xr
from rich.console import Console

from pdefit.app.simulate_command import run_simulate
from pdefit.errors import PdefitError

FRONT = ("experiment=reaction/fisher_front", "system.grid.shape=[80]", "times.count=13")


def test_simulate_is_compared_with_the_exact_solution(compose, tmp_path):
    run_simulate(compose(*FRONT, "store.every=4"), tmp_path, "a front", Console(quiet=True))
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["status"] == "done" and summary["frames"] == 4 and summary["reference_error"] is None
    assert 0 < summary["exact_error"] < 0.05
    with xr.open_dataset(tmp_path / "fields.h5", engine="h5netcdf") as film:
        assert film["time"].values.tolist() == [0.0, 4.0, 8.0, 12.0] and int(film["n_done"]) == 4
        assert film["u_predicted"].dims == ("time", "x") and bool(film["u_predicted"].notnull().all())


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["experiment=particles/solar_system"], "reads data; use pdefit fit"),
        (["experiment=particles/pleiades", "times.stop=0.01"], "set times.stop"),
        (["experiment=particles/pleiades", "times.stop=0.01", "reference.time=0.01", "reference.column=t4"], "'t4'"),
        (["experiment=particles/pleiades", "dt=null"], "set dt"),
        ([*FRONT, "times.stop=null"], "times expects"),
        ([*FRONT, "solver=euler", "dt=0.6", "times.stop=200"], "beyond the stability limit"),
        ([*FRONT, "system.r=-1.0"], "must be positive"),
    ],
)
def test_a_simulation_that_cannot_be_is_one_sentence(compose, tmp_path, overrides, words):
    with pytest.raises(PdefitError) as error:
        run_simulate(compose(*overrides), tmp_path, "x", Console(quiet=True))
    assert words in str(error.value) and not (tmp_path / "summary.json").exists()
