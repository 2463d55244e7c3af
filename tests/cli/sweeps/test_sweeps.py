"""Sweeps: what is recorded, how jobs are seen, what runs again, and their table and page."""

import json
import os
import platform
import shutil

import h5py
import numpy as np
import pandas
import pytest
import xarray

from pdefit import PdefitError
from pdefit.cli.sweeps.jobs import jobs_of
from pdefit.cli.sweeps.record import read_sweep
from pdefit.cli.sweeps.table import last_frames
from pdefit.output.store.run_lock import heartbeat

SMALL = (
    "experiment=reaction/fisher_front",
    "system.grid.shape=[40]",
    "times.count=7",
    "max_iterations=2",
    "render=false",
    "certificate=end",
)
JOBS = ("D.guess_0.5", "D.guess_9.0", "D.guess_2.0")


def _record(directory, **changes):
    content = {
        "verb": "fit",
        "words": ["experiment=a/b", "seed=0,1,2,3"],
        "files": [],
        "jobs": {f"seed_{n}": ["experiment=a/b", f"seed={n}"] for n in range(4)},
    }
    (directory / "sweep.json").write_text(json.dumps({**content, **changes}))
    return directory


@pytest.fixture(scope="module")
def swept(tmp_path_factory, environment):
    """A sweep of three jobs, one of which fails."""
    import subprocess
    import sys
    from pathlib import Path

    folder = tmp_path_factory.mktemp("swept")
    command = [Path(sys.executable).with_name("pdefit"), "fit", "-m", *SMALL, "controls.D.guess=0.5,9.0,2.0"]
    command += ["hydra.sweep.dir=sweep"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 1 and "2 done, 1 failed; pdefit sweep resume sweep" in done.stdout, (
        done.stdout + done.stderr
    )
    return folder / "sweep"


@pytest.fixture
def sweep(swept, tmp_path, monkeypatch):
    # Hydra's logging would close the handlers of pytest
    monkeypatch.setattr("hydra._internal.logging_config.configure_logging", lambda *_: None)
    shutil.copytree(swept, tmp_path / "sweep")
    return tmp_path / "sweep"


def _estimates(sweep):
    return {name: (sweep / name / "parameters.csv").read_bytes() for name in (JOBS[0], JOBS[2])}


def test_only_what_is_left_runs_again_and_ends_with_the_same_bits(sweep, pdefit_inside):
    before, kept = _estimates(sweep), (sweep / JOBS[0] / "DONE").read_bytes()
    # as after a kill: without a mark, and with a state
    (sweep / JOBS[2] / "DONE").unlink()
    code, out, err = pdefit_inside("sweep", "resume", "sweep")
    assert code == 1 and err.count("error:") == 1 and "outside its bounds" in err, err
    assert out.startswith("sweep: 1 done, 1 killed, 1 failed") and "2 done, 1 failed" in out
    assert _estimates(sweep) == before and (sweep / JOBS[0] / "DONE").read_bytes() == kept
    assert len(json.loads((sweep / JOBS[2] / "provenance.json").read_text())["resumed"]) == 1
    # a folder that is gone is made anew
    shutil.rmtree(sweep / JOBS[0])
    assert pdefit_inside("sweep", "status", "sweep")[1].count("waiting") == 2
    pdefit_inside("sweep", "resume", "sweep")
    assert _estimates(sweep) == before


def test_one_table_and_one_page_over_all_jobs(sweep, pdefit_inside):
    code, out, err = pdefit_inside("sweep", "collect", "sweep")
    assert code == 0 and not err and f"sweep/{JOBS[2]}" in out
    table = pandas.read_csv(sweep / "sweep.csv")
    assert table["job"].tolist() == [*JOBS] and table["state"].tolist() == ["done", "failed", "done"]
    assert table["controls.D.guess"].tolist() == [0.5, 9.0, 2.0]
    for job in (0, 2):
        of = json.loads((sweep / JOBS[job] / "summary.json").read_text())
        assert table["D.estimate"][job] == of["parameters"]["D"]["estimate"]
        assert table["loss_final"][job] == of["loss_final"]
    with xarray.open_dataset(sweep / "sweep.h5", engine="h5netcdf") as data:
        assert data.attrs["best"] == JOBS[2] and data["u"].shape == (3, 40)
        assert (
            data["D.estimate"].values.tolist()[2] == table["D.estimate"][2] and str(data["state"].values[1]) == "failed"
        )
        with h5py.File(sweep / JOBS[2] / "fields.h5") as file:
            np.testing.assert_allclose(data["u"].values[2], file["u_predicted"][-1], rtol=1e-6, atol=1e-6)
    # what a label holds is text
    (sweep / JOBS[1] / "FAILED").write_text("<script>alert(1)</script>")
    code, out, err = pdefit_inside("sweep", "report", "sweep")
    page = (sweep / "sweep.html").read_text()
    assert (
        code == 0
        and page.count("data:image/png;base64,") == 3
        and "<script>" not in page
        and "http" not in page.split("<main>")[1]
    )


def _external(film, secret):
    film.create_dataset("u_predicted", (7, 40), "f4", external=[(str(secret), 0, 1120)])


def _virtual(film, secret):
    layout = h5py.VirtualLayout((7, 40), "f4")
    layout[:] = h5py.VirtualSource(str(secret), "u", (7, 40))
    film.create_virtual_dataset("u_predicted", layout)


def _link(film, secret):
    film["u_predicted"] = h5py.ExternalLink(str(secret), "u")


@pytest.mark.parametrize("lead", [_external, _virtual, _link])
def test_a_job_of_somebody_else_brings_no_other_file_into_table_and_page(lead, sweep, tmp_path, pdefit_inside):
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["u"] = np.full((7, 40), 0.625, "f4")
    with h5py.File(sweep / JOBS[0] / "fields.h5", "r+") as film:
        scales = [film["u_predicted"].dims[axis][0].name for axis in (0, 1)]
        del film["u_predicted"]
        lead(film, tmp_path / "secret.h5")
        for axis, name in enumerate(scales if lead is not _link else []):
            film["u_predicted"].dims[axis].attach_scale(film[name])
    for action, written in (("collect", "sweep.csv"), ("report", "sweep.html")):
        code, _, err = pdefit_inside("sweep", action, "sweep")
        assert code == 0 and not err and (sweep / written).is_file()
    with xarray.open_dataset(sweep / "sweep.h5", engine="h5netcdf") as data:
        assert np.isnan(data["u"].values[0]).all() and np.isfinite(data["u"].values[2]).all()
    # what the page draws
    assert [sorted(last_frames(job)) for job in jobs_of(read_sweep(sweep))] == [[], [], ["u"]]


def test_states_of_jobs(tmp_path):
    sweep = read_sweep(_record(tmp_path))
    runs = [tmp_path / f"seed_{n}" for n in range(4)]
    for run in runs[1:]:
        run.mkdir()
        (run / "provenance.json").write_text("{}")
    (runs[2] / "RUNNING").write_text(json.dumps({"host": platform.node(), "process": 2**22 + 1, "started": "then"}))
    with heartbeat(runs[3]):
        found = jobs_of(sweep)
        assert [job.state for job in found] == ["waiting", "killed", "killed", "running"]
        assert str(os.getpid()) in found[3].reason and found[3].heartbeat is not None
        # on another machine only the file shows that it lives
        (runs[3] / "RUNNING").write_text(json.dumps({"host": "elsewhere", "process": 1}))
        assert jobs_of(sweep)[3].state == "running"
        os.utime(runs[3] / "RUNNING", (0, 0))
        assert jobs_of(sweep)[3].state == "killed"
    assert not (runs[3] / "RUNNING").exists()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"jobs": {"../elsewhere": ["seed=0"]}}, "no folder of a sweep"),
        ({"jobs": {"/tmp": ["seed=0"]}}, "no folder of a sweep"),
        ({"words": ["hydra.launcher.setup=[evil]"]}, "hydra.launcher.setup"),
        ({"words": ["+hydra/launcher=evil"]}, "type it on the command line"),
        ({"words": ["--config-name", "x"]}, "'--config-name'"),
        ({"words": [3]}, "not what pdefit wrote"),
        ({"jobs": ["seed_0"]}, "not what pdefit wrote"),
        ({"verb": None}, "not what pdefit wrote"),
        ({"verb": "new"}, "No verb of a sweep"),
        ({"jobs": {"outside": ["seed=0"]}}, "no folder of a sweep"),
    ],
)
def test_a_sweep_of_somebody_else_starts_nothing(changes, words, tmp_path):
    (tmp_path / "outside").symlink_to("/")
    with pytest.raises(PdefitError, match=words.replace("[", r"\[")):
        read_sweep(_record(tmp_path, **changes))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["sweep"], "No action of sweep"),
        (["sweep", "resum", "x"], "did you mean resume"),
        (["sweep", "status"], "expects the directory of a sweep"),
        (["sweep", "collect", "nowhere"], "it has no sweep.json"),
        (["sweep", "resume", "sweep", "seed=3"], "only its launcher may change"),
        (["sweep", "resume", "sweep", "mine.py"], "was made with no file"),
    ],
)
def test_mistakes_are_one_sentence(words, told, tmp_path, pdefit_inside):
    (tmp_path / "sweep").mkdir()
    _record(tmp_path / "sweep")
    code, out, err = pdefit_inside(*words)
    assert code == 1 and err.count("error:") == 1 and told in err, err


def test_a_refused_sweep_leaves_no_folder(tmp_path, pdefit_inside):
    for word in ("max_iteration=1,2", "solver=nope,rk4"):
        code, out, err = pdefit_inside("fit", "-m", *SMALL, word)
        assert code == 1 and err.count("error:") == 1 and not list(tmp_path.iterdir()), err
