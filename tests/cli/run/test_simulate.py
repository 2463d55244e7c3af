import json
import re

import pytest
import xarray as xr
from rich.console import Console

from pdefit._util.errors import PdefitError
from pdefit.cli.config.settings import Job
from pdefit.cli.run import simulate as simulate_command
from pdefit.cli.run.simulate import run_simulate

FRONT = ("experiment=reaction/fisher_front", "system.grid.shape=[80]", "times.count=13")


def test_simulate_is_compared_with_the_exact_solution(compose, tmp_path):
    run_simulate(Job(compose(*FRONT, "store.every=4"), tmp_path, "a front", Console(quiet=True)))
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
        ([*FRONT, "times.stop=null"], "times expects"),
        ([*FRONT, "solver=euler", "dt=0.6", "times.stop=200"], "beyond the stability limit"),
        ([*FRONT, "system.r=-1.0"], "system.r must be positive"),
        (["experiment=particles/pleiades", "system.gm=[nan,2,3,4,5,6,7]"], "not finite"),
    ],
)
def test_a_simulation_that_cannot_be_is_one_sentence(compose, tmp_path, overrides, words):
    with pytest.raises(PdefitError) as error:
        run_simulate(Job(compose(*overrides), tmp_path, "x", Console(quiet=True)))
    assert words in str(error.value) and not (tmp_path / "summary.json").exists()


def test_a_blow_up_keeps_the_frames_before_it(compose, tmp_path, monkeypatch):
    """u' = r u (1 - u) falls to minus infinity from below 0."""
    real = simulate_command.initial_state

    def below(*arguments):
        y0, *rest = real(*arguments)
        return y0._replace(u=y0.u - 1.0), *rest

    monkeypatch.setattr(simulate_command, "initial_state", below)
    overrides = ("times.stop=40", "times.count=41", "solver=rk4", "dt=0.1", "render=false")
    with pytest.raises(PdefitError) as error:
        run_simulate(Job(compose(*FRONT, *overrides), tmp_path, "a front", Console(quiet=True)))
    found = re.search(r"not finite at t = (\d+) s; set dt below 0\.1", str(error.value))
    assert found and "fields.h5 holds the frames before" in str(error.value)
    assert not (tmp_path / "summary.json").exists()
    with xr.open_dataset(tmp_path / "fields.h5", engine="h5netcdf") as film:
        done = int(film["n_done"])
        assert done == int(found[1]) >= 1
        assert bool(film["u_predicted"][:done].notnull().all())


def test_tissue_of_another_shape_is_one_sentence(pdefit_inside, tmp_path):
    code, _, err = pdefit_inside(
        "simulate", "experiment=reaction/fisher_front", "system=cardiac/aliev_panfilov", "system.grid.shape=[8,8]",
        "system.grid.extent=[1.6,1.6]", "+system.tissue=[[1,0],[0,1]]", f"hydra.run.dir={tmp_path / 'run'}",
    )  # fmt: skip
    told = " ".join(err.split())
    assert code == 1 and told.count("error:") == 1 and "Traceback" not in err
    assert "tissue" in told and "(2, 2)" in told and "(8, 8)" in told
    assert "tissue" in (tmp_path / "run" / "FAILED").read_text() and not (tmp_path / "run" / "DONE").exists()
