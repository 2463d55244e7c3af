"""pdefit plan, and what a fit makes of its plan."""

import json
import math

import jax
import numpy as np
import pytest

from pdefit._util.memory import Limit
from pdefit.cli.run.minimise import checkpoints_in
from pdefit.cli.run.plan import compared
from pdefit.inverse.fit.drivers import Hosted
from tests.memory_meter import Meter

FRONT = ("experiment=reaction/fisher_front", "twin=self", "times.count=9", "times.stop=2.0", "system.grid.shape=[80]")
PLANNED = {"process_bytes": 2048, "evaluation": {"most_products": 0, "seconds": 0.5}}
HOSTED = ("driver=hosted", "driver.device=20 kB", "driver.host=1300", "driver.file=4 kB")


def run(inside, folder, verb, *overrides):
    code, out, err = inside(verb, *FRONT, f"hydra.run.dir={folder}", *overrides)
    return code, " ".join(out.split()), " ".join(err.split())


def test_a_plan_says_what_an_evaluation_takes(pdefit_inside, tmp_path):
    code, out, _ = run(pdefit_inside, tmp_path / "run", "plan", "stages=lbfgs")
    assert code == 0
    found = json.loads((tmp_path / "run" / "plan.json").read_text())
    cost = found["evaluation"]
    assert cost["driver"] == "traced" and cost["schedule"].startswith("store-all") and cost["schedule"] in out
    assert cost["planned_bytes"] == cost["stored_states"] * cost["state_bytes"] + cost["working_bytes"]
    assert cost["state_bytes"] == 80 * 8 and cost["recompute_factor"] == 2
    assert 0 < cost["seconds_forward"] < cost["seconds"]
    assert found["most_seconds"] == pytest.approx(found["most_evaluations"] * cost["seconds"])
    assert found["steps"]["decided_by"] == "D" and 0.1 < found["steps"]["share"] < 0.6 and not found["steps"]["given"]
    assert "of what is stable at the guess; decided by D (" in out
    # nothing was fitted
    assert {p.name for p in (tmp_path / "run").iterdir()} <= {
        "plan.json", ".hydra", "provenance.json", "run.log", "DONE", ".lock"
    }  # fmt: skip


def test_products_are_in_the_plan(pdefit_inside, tmp_path):
    products = "stages.main.optimizer.products=7"
    start = "+controls.y0.u={guess: data}"
    code, out, _ = run(pdefit_inside, tmp_path / "run", "plan", "stages=gauss_newton_cg", f"+{products}", start)
    assert code == 0 and "and up to 7 products that take about twice as long" in out
    found = json.loads((tmp_path / "run" / "plan.json").read_text())
    cost = found["evaluation"]
    assert cost["most_products"] == 7 and found["unknowns"] == {"D": 1, "r": 1, "y0.u": 80}
    assert found["most_seconds"] == pytest.approx(15 * found["most_evaluations"] * cost["seconds"])


def test_a_hosted_fit_gives_the_traced_result_and_leaves_no_checkpoints(pdefit_inside, tmp_path):
    estimates, short = [], ("max_iterations=4", "certificate=end", "render=false")
    for name, options in {"traced": (), "hosted": HOSTED}.items():
        code, out, err = run(pdefit_inside, tmp_path / name, "fit", "noise=0.01", "stages=lbfgs", *short, *options)
        assert code == 0, err
        summary = json.loads((tmp_path / name / "summary.json").read_text())
        assert summary["adjoint"]["driver"] == name and "an evaluation: planned" in out
        estimates.append([p["estimate"] for p in summary["parameters"].values()])
        memory, plan = summary["memory"], json.loads((tmp_path / name / "plan.json").read_text())["evaluation"]
        assert memory["planned_bytes"] == plan["planned_bytes"] and memory["peak_bytes"] > memory["planned_bytes"]
        checks = json.loads((tmp_path / name / "certificate.json").read_text())["end"]["checks"]
        assert ("hosted gradient against tangents" in [c["name"] for c in checks]) == (name == "hosted")
    assert memory["file_bytes"] > 0 and memory["planned_bytes"] <= 20_000
    np.testing.assert_allclose(estimates[1], estimates[0], rtol=1e-6)
    assert not list((tmp_path / "hosted").glob("checkpoints*"))


def test_checkpoints_that_a_kill_left_are_removed(tmp_path):
    left, other = tmp_path / "checkpoints-7.bin", tmp_path / "fields.h5"
    for file in (left, other):
        file.write_bytes(b"of a run that was killed")
    driver = Hosted()
    like = [np.zeros(3)]
    with pytest.raises(KeyboardInterrupt), checkpoints_in(tmp_path, driver):
        assert not left.exists() and driver.open_file is not None
        stores = [driver.open_file(like, 2) for _ in range(2)]
        assert len(list(tmp_path.glob("checkpoints-*.bin"))) == 2
        for store in stores:
            store.close()
        raise KeyboardInterrupt
    assert [p.name for p in tmp_path.iterdir()] == ["fields.h5"]


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (("driver=hosted", "driver.device=1 kB"), "more than driver.device = 1 kB"),
        (
            ("driver=hosted", "driver.host=0", "driver.file=0"),
            "set driver.device, driver.host or driver.file higher",
        ),
        (("driver=traced", "driver.memory=1 kB"), "more than driver.memory = 1 kB"),
        (("adjoint=checkpointed", "adjoint.levels=9"), "1 to 4 levels"),
    ],
)
def test_what_cannot_be_planned(pdefit_inside, tmp_path, overrides, words):
    code, _, err = run(pdefit_inside, tmp_path / "run", "plan", "stages=lbfgs", *overrides)
    assert code != 0 and words in err and "Traceback" not in err


def test_what_this_machine_cannot_hold_is_refused(pdefit_inside, tmp_path, monkeypatch):
    monkeypatch.setattr("pdefit.cli.run.plan.available", lambda: Limit(1e4, "that a queue gave"))
    code, _, err = run(pdefit_inside, tmp_path / "run", "fit", "stages=lbfgs")
    assert code != 0 and "more than the 10 kB that a queue gave; keep fewer checkpoints" in err
    assert not (tmp_path / "run" / "summary.json").exists()


def test_what_does_not_fit_is_not_run_to_be_timed(pdefit_inside, tmp_path, monkeypatch):
    monkeypatch.setattr("pdefit.inverse.offload.cost.available_bytes", lambda: 1e3)
    run(pdefit_inside, tmp_path / "run", "plan", "stages=levenberg_marquardt")
    assert json.loads((tmp_path / "run" / "plan.json").read_text())["evaluation"]["seconds"] in (None, math.inf)


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 161600000 bytes."),
        jax.errors.JaxRuntimeError("INTERNAL: Error dispatching computation: Out of memory allocating 99 bytes."),
    ],
)
def test_memory_that_runs_out_is_no_bug(pdefit_inside, tmp_path, monkeypatch, error):
    def out_of_memory(*_):
        raise error

    monkeypatch.setattr("pdefit.cli.run.fit.build_experiment", out_of_memory)
    code, _, err = run(pdefit_inside, tmp_path / "run", "fit")
    assert code == 1 and err.startswith("error: There is not enough memory") and "driver=hosted" in err, err
    assert (tmp_path / "run" / "FAILED").read_text().startswith("There is not enough memory")


def test_the_meter_sees_what_was_used():
    meter = Meter()
    block = np.ones(8_000_000)
    rise = meter.rise()
    assert 0.95 * block.nbytes < rise < 1.3 * block.nbytes
    del block
    assert meter.rise() >= 0.9 * rise


def test_a_driver_without_files_needs_none():
    assert Hosted(device="1 MB", host="1 MB").open_file is None


def test_what_was_not_measured_is_left_out():
    assert compared(PLANNED, 4096, 0.25).endswith("planned 0.5 s, measured 0.25 s")
    assert compared(PLANNED, 4096, math.nan).endswith("planned 0.5 s")
    assert "nan" not in compared(PLANNED, 4096, math.nan)
