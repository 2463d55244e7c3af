"""The command as a user meets it. A start of the installed one costs seconds, so most runs are in this process."""

import csv
import json
import signal
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray as xr

FIT = ("fit", "experiment=reaction/fisher_front", "system.grid.shape=[80]", "times.count=13", "max_iterations=6")


def _guesses(run: Path) -> dict[str, float]:
    with open(run / "parameters.csv", newline="") as file:
        return {r["control"]: float(r["guess"]) for r in csv.DictReader(file)}


def _only(folder: Path, name: str) -> Path:
    (found,) = folder.rglob(name)
    return found


def test_fit_leaves_a_complete_run_directory(fitted):
    run, arguments, out, err = fitted
    assert "error:" not in err and "Traceback" not in err, err
    assert not list(run.rglob("*.partial*")) and not (run / "FAILED").exists()
    for name in ("run.log", "residuals.csv", "forecast.csv", ".hydra/config.yaml", ".hydra/overrides.yaml"):
        assert (run / name).stat().st_size > 0, name
    pictures = {p.name for p in (run / "figures").glob("*.png") if p.stat().st_size > 5000}
    drawn = ("convergence", "parameters", "residuals", "forecast", "fields", "traces")
    assert pictures == {f"{name}.png" for name in drawn}

    summary = json.loads((run / "summary.json").read_text())
    documented = {
        "experiment", "variant", "status", "converged", "loss_initial", "loss_final", "iterations", "time_unit",
        "gradient_evaluations", "parameters", "intervals", "fields", "forecast", "adjoint", "fit", "sigma", "events",
        "seconds", "memory", "noise", "verdict", "verdict_reason", "certificate",
    }  # fmt: skip
    assert documented <= set(summary) and summary["status"] == "done"
    assert summary["loss_final"] < summary["loss_initial"] / 2 and summary["iterations"] <= 3
    assert abs(summary["parameters"]["D"]["relative_error"]) < 0.1
    assert {"chi2", "values", "chi2_per_value", "log_likelihood", "whiteness", "heldout", "structure"} | {
        "suspects",
        "not_tested",
    } == set(summary["fit"])
    assert (
        out.strip().splitlines()[-1].startswith(summary["verdict"])
        and summary["verdict"] in (run / "run.log").read_text()
    )
    assert summary["forecast"]["baseline"]["name"] == "last frame"
    assert {"compile", "forward", "gradient"} <= set(summary["seconds"])
    # the parts are all of the run
    parts = ("imports", "data", "plan", "certificates", "fit", "intervals", "forecast", "writing", "pictures")
    assert sum(summary["seconds"][p] for p in parts) == pytest.approx(summary["seconds"]["total"], abs=0.05)
    # hundreds would mean that the time to compile is counted as an evaluation
    assert summary["adjoint"]["gradient_to_forward"] < 100

    provenance = json.loads((run / "provenance.json").read_text())
    assert provenance["command"] == ["pdefit", *arguments] and provenance["seed"] == 0
    assert provenance["versions"]["jax"] and provenance["device"]["platform"]

    assert list(_guesses(run)) == ["D", "r"]
    with h5py.File(run / "history.h5") as file:
        assert file["n_done"][()] == summary["iterations"]  # pyright: ignore[reportIndexIssue]
        # two programs compute it: equal to round-off
        first = float(file["loss"][0])  # pyright: ignore[reportIndexIssue, reportArgumentType]
        np.testing.assert_allclose(first, summary["loss_initial"], rtol=1e-12)
        assert file["control"][0, 0] == pytest.approx(_guesses(run)["D"])  # pyright: ignore[reportIndexIssue]
    with xr.open_dataset(run / "fields.h5", engine="h5netcdf") as film:
        assert {"u_predicted", "u_observed", "u_true"} <= set(film)
        assert film.sizes["time"] == int(film["n_done"]) == 13
        assert film["phase"].values.tolist() == [0] * 7 + [1] * 6


def test_a_sweep_runs_every_job_also_after_one_that_fails(pdefit_inside, tmp_path, monkeypatch):
    # it closes the handlers of pytest
    monkeypatch.setattr("hydra._internal.logging_config.configure_logging", lambda *_: None)
    # the guess of the second job lies outside its bounds
    guesses = "controls.D.guess=0.5,9.0,2.0"
    code, out, err = pdefit_inside("fit", "-m", *FIT[1:-1], "max_iterations=1", "dt=0.05", "render=false", guesses)
    assert code == 1 and err.count("error:") == 1 and "outside its bounds" in err and "Traceback" not in err, err
    sweep = _only(tmp_path, "*-sweep")
    first, second, third = (f"D.guess_{guess}" for guess in (0.5, 9.0, 2.0))
    assert {p.parent.name for p in sweep.rglob("DONE")} == {first, third}
    assert [p.parent.name for p in sweep.rglob("FAILED")] == [second]
    assert {_guesses(sweep / job)["D"] for job in (first, third)} == {0.5, 2.0}
    assert not (sweep / second / "summary.json").exists()


def test_simulate_reaches_the_reference_of_the_pleiades(pdefit_inside, tmp_path):
    code, out, err = pdefit_inside("simulate", "experiment=particles/pleiades", "render=false")
    assert code == 0 and "Traceback" not in err, err
    summary = json.loads(_only(tmp_path, "summary.json").read_text())
    assert summary["reference_error"] < 1e-8 and summary["invariant_drift"]["energy"] < 1e-9
    assert _only(tmp_path, "DONE").parent == _only(tmp_path, "fields.h5").parent


def test_list_names_experiments_and_systems(pdefit_command):
    code, out, err = pdefit_command("list")
    assert code == 0 and not err
    for name in (
        "reaction/fisher_front",
        "particles/pleiades",
        "reaction/fisher_kpp",
        "dopri8",
        "checkpointed",
        "lbfgs",
    ):
        assert name in out
    # whole lines, which a program can cut
    assert "lbfgs\tL-BFGS, quasi-Newton from gradients; unknown fields, and any number of unknowns.\n" in out


def test_a_mistake_is_one_sentence_and_leaves_no_result(pdefit_command, tmp_path):
    code, out, err = pdefit_command(*FIT, "max_iteration=3")
    assert code == 1 and "Traceback" not in err + out and not list(tmp_path.iterdir()), err
    assert err.count("error:") == 1 and "max_iteration" in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fti", "experiment=reaction/fisher_front"], "did you mean fit"),
        (["fit"], "Choose an experiment"),
        (["verify", "reaction/fisher"], "did you mean reaction/fisher_kpp"),
        (["new"], "one name"),
        ([*FIT, "twin=null"], "twin"),
        (["fit", "experiment=particles/solar_system", "data.path=nofile.h5"], "nofile.h5"),
    ],
)
def test_a_mistake_in_a_verb_is_one_sentence(pdefit_inside, tmp_path, arguments, words):
    """Those in the entries of a configuration are in test_bad_input."""
    code, out, err = pdefit_inside(*arguments)
    assert code != 0 and "Traceback" not in err + out, err
    assert err.count("error:") == 1 and words in err
    assert not {"summary.json", "DONE"} & {p.name for p in tmp_path.rglob("*")}
    assert not list(tmp_path.rglob("*.partial*"))


def test_a_terminated_fit_keeps_what_it_found(start, tmp_path):
    process = start(*FIT[:-1], "stages=adam", "stages.main.max_iterations=1000000")
    try:
        assert process.stderr is not None
        # the first line of progress: the fit runs
        assert "iteration 1" in process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=600)
    finally:
        process.kill()
    assert "Traceback" not in err and process.returncode == 143, err
    run = _only(tmp_path, "INTERRUPTED").parent
    assert (run / "INTERRUPTED").read_text() == "SIGTERM: not everything is written\n"
    assert (run / "state" / "state.h5").exists() and not (run / "summary.json").exists()
    assert not (run / "DONE").exists() and not (run / "FAILED").exists()
    assert f"interrupted by SIGTERM: not everything is written; `pdefit resume {run}` goes on" in err


_LATE = """
import importlib, sys
def load(words, *late):
    for word in words.split():
        importlib.import_module(f"pdefit{word}")
    found = sorted({m for m in sys.modules if m in late or m.startswith(tuple(f"{name}." for name in late))})
    assert not found, found[:5]
files = "h5py", "pandas", "xarray", "matplotlib", "imageio", "av", "jinja2"
sys.argv = ["pdefit", "--help"]
importlib.import_module("pdefit.cli.command").command()
load("", "numpy", "jax", "rich", "hydra", "omegaconf", "yaml", "scipy", *files)
load(".cli.main .cli.run.pictures", "jax", "scipy", *files[1:])
parts = "interpolate", "optimize", "spatial", "sparse", "stats", "signal", "ndimage", "integrate", "special"
with open(sys.path[0] + "/u.csv", "w") as table:
    table.write("t [h],u\\n0,1\\n1,2.5\\n")
load(".cli.config.read .cli.run.recorded .cli.run.fit .data.readers.formats")
with sys.modules["pdefit.data.readers.formats"].opened(__import__("pathlib").Path(table.name)) as file:
    assert [*file] == ["t", "u"]
load("", *(f"scipy.{part}" for part in parts), *files[1:])
"""


def test_libraries_are_loaded_where_they_are_used(tmp_path):
    """Help needs none, a fit neither pandas nor matplotlib, and of scipy no more than it calls."""
    (tmp_path / "late.py").write_text(_LATE)
    done = subprocess.run([sys.executable, str(tmp_path / "late.py")], timeout=300, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: pdefit VERB")


def test_verbs_that_compute_nothing_start_without_jax():
    """It takes seconds to load."""
    light = ("main", "run.pictures", "commands.list", "commands.new", "commands.sweep")
    words = f"import sys, {', '.join(f'pdefit.cli.{name}' for name in light)}; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", words], timeout=120).returncode == 0


_ENDED = """
import sys, threading, time
from pdefit.cli import main
threading.Thread(target=time.sleep, args=(600,)).start()
def ended():
    main._signals.append("SIGTERM")
    sys.stdout.write("last words")
    sys.exit(143)
main.main = ended
main.command()
"""


def test_a_process_that_a_signal_ended_waits_for_no_thread():
    ended = subprocess.run([sys.executable, "-c", _ENDED], timeout=300, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (143, "last words")
