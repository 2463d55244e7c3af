"""A run whose node velocities are unknown, as it lies on disk."""

import csv
import json
from pathlib import Path

import h5py
import numpy as np
import xarray as xr


def test_a_run_with_free_nodes_reports_the_controls_that_windows_share(pdefit_inside, tmp_path):
    code, _, err = pdefit_inside(
        "fit",
        "experiment=particles/solar_system_positions",
        # small programs
        "solver=rk4",
        "dt=1.25",
        "times.fit_until=1200",
        "times.stop=1300",
        "stages.short.max_iterations=4",
        "stages.long.max_iterations=4",
        "stages.long.reweight=null",
        "certificate=end",
        "render=false",
    )
    assert code == 0 and "Traceback" not in err, err
    (done,) = Path(tmp_path).rglob("DONE")
    run = done.parent
    with open(run / "parameters.csv", newline="") as file:
        names = [r["control"] for r in csv.DictReader(file)]
    summary = json.loads((run / "summary.json").read_text())
    assert len(names) == 9 and all(n.startswith("gm.") for n in names) and list(summary["parameters"]) == names
    # 9 masses and 27 velocities of one node
    assert summary["adjoint"]["stored_states"] == 1 + 36 and summary["loss_final"] < summary["loss_initial"]
    assert summary["fit"]["values"] == 60 * 27 and summary["intervals"]["method"].startswith("Gauss-Newton")
    with h5py.File(run / "history.h5") as file:
        assert [x.decode() for x in file["control_name"][:]] == names  # pyright: ignore
        assert set(file["stage"][:]) == {1, 2} and np.all(file["control"][:] > 0)  # pyright: ignore
    with xr.open_dataset(run / "fields.h5", engine="h5netcdf") as film:
        assert "velocity_observed" not in film and film.sizes["time"] == int(film["n_done"]) == 66
        gap = np.abs(film["position_predicted"] - film["position_observed"]).values
        assert np.all(gap[0] == 0) and np.nanmax(gap) < 1e-3
    with open(run / "residuals.csv", newline="") as file:
        first, second = list(csv.reader(file))[1:3]
    # the first frame made the first node
    assert set(first[1:]) == {""} or all(x == "nan" for x in first[1:])
    # a column for each coordinate of each body, with signs
    assert len(second) == 1 + 27 and {float(x) > 0 for x in second[1:]} == {True, False}


def test_a_twin_with_free_nodes_knows_the_truth_of_its_numbers(pdefit_inside, tmp_path):
    code, _, err = pdefit_inside(
        "fit",
        "experiment=particles/lennard_jones_10",
        "system.n=2",
        "system.box=[1.6,3.2]",
        "times.stop=1.0",
        "times.count=21",
        "stages.near.max_iterations=2",
        "stages.free.max_iterations=2",
        "certificate=end",
        "render=false",
    )
    assert code == 0 and "Traceback" not in err, err
    (summary,) = (json.loads(p.read_text()) for p in Path(tmp_path).rglob("summary.json"))
    truth = {name: p["truth"] for name, p in summary["parameters"].items()}
    assert len(truth) == 4 and all(1 <= x <= 10 for n, x in truth.items() if n.startswith("mass"))
    assert all(0.2 <= x <= 0.7 for n, x in truth.items() if n.startswith("radius"))
