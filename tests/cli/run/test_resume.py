"""A fit that dies anywhere and is resumed ends like one that never died, to the last bit."""

import contextlib
import json
import os
import random
import shutil
import signal
import time
from pathlib import Path

import h5py
import jax
import numpy as np
import pytest
from omegaconf import OmegaConf
from rich.console import Console

from pdefit._util.atomic import write_json
from pdefit._util.errors import PdefitError
from pdefit.cli.config.read import read_settings
from pdefit.cli.config.settings import Job
from pdefit.cli.run import checkpoints
from pdefit.cli.run import fit as fit_command
from pdefit.cli.run import recordings as results
from pdefit.cli.run.certify import run_certify_on_a_run as run_certify
from pdefit.cli.run.fit import run_resume
from pdefit.cli.run.pictures import run_report
from pdefit.cli.run.recorded import open_run
from pdefit.cli.runtime.run_directory import recorded
from pdefit.inverse.fit import _fit_run as fit_run
from pdefit.output.store import fit_checkpoint as state_file
from pdefit.output.store.fit_checkpoint import load_state
from pdefit.output.store.runs import RunFiles

NAME = "reaction/fisher_front"
SMALL = (
    f"experiment={NAME}",
    "system.grid.shape=[80]",
    "times.count=13",
    "stages=adam",
    "max_iterations=40",  # more than the stage allows, which does not count when a run is resumed
    "stages.main.max_iterations=12",
    "render=false",
)
QUIET = Console(file=open(os.devnull, "w"))


class Died(BaseException):
    """What a kill looks like from inside."""


def begin(directory):
    cfg = read_settings(OmegaConf.load(directory / ".hydra" / "config.yaml"))
    with recorded(directory, ["pdefit", "fit"], cfg, NAME):
        fit_command.run_fit(Job(cfg, directory, NAME, QUIET))


def outcome(directory: Path):
    """All of a run that does not depend on the clock, as bytes."""
    with h5py.File(directory / "history.h5") as file:
        history = {k: np.asarray(file[k]).tobytes() for k in file if k not in ("seconds", "control_name")}
    with h5py.File(directory / "fields.h5") as file:
        fields = {k: np.asarray(file[k]).tobytes() for k in file if file[k].dtype.kind == "f"}
    saved = load_state(directory / "state")
    assert saved is not None
    state = {k: v.tobytes() for k, v in saved.state.arrays.items()}
    numbers = {k: v for k, v in saved.state.numbers.items() if k not in ("compiling", "evaluating")}
    summary = json.loads((directory / "summary.json").read_text())
    text = (directory / "parameters.csv").read_text()
    return history, fields, state, numbers, text, {k: summary[k] for k in ("loss_final", "iterations", "parameters")}


@pytest.fixture(scope="module")
def undisturbed(prepare_run):
    """The same fit without a fault, in chunks of two iterations."""
    run = prepare_run("undisturbed", *SMALL)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fit_run, "power_of_two", lambda rate: 2)
        begin(run)
    return run


@pytest.fixture
def run(undisturbed, tmp_path):
    """A copy of it."""
    return shutil.copytree(undisturbed, tmp_path / "run")


def die_at(monkeypatch, where):
    """Kill the fit at a place in its life, once."""
    calls = {"saves": 0}
    if where == "inside the state write":
        replace = os.replace

        def dies_between(a, b):
            if str(b).endswith(state_file.NEWEST):
                calls["saves"] += 1
                if calls["saves"] == 3:
                    raise Died
            replace(a, b)

        monkeypatch.setattr(state_file.os, "replace", dies_between)
    else:
        save = checkpoints.save_state
        fatal = {"before the first state": 1, "between history and state": 4}[where]

        def dies(*arguments):
            calls["saves"] += 1
            if calls["saves"] == fatal:
                raise Died
            save(*arguments)

        monkeypatch.setattr(checkpoints, "save_state", dies)


@pytest.mark.quick
@pytest.mark.parametrize(
    "where",
    ["before the first state", "inside the state write", "between history and state"],
)
def test_a_fit_that_died_is_resumed_to_the_same_bits(where, prepare_run, undisturbed, monkeypatch):
    monkeypatch.setattr(fit_run, "power_of_two", lambda rate: 2)
    run = prepare_run("run", *SMALL)
    with monkeypatch.context() as fatal:
        die_at(fatal, where)
        with pytest.raises(Died):
            begin(run)
    assert (run / "FAILED").exists() and not (run / "DONE").exists()
    run_resume([str(run)], QUIET)
    assert (run / "DONE").exists() and not (run / "FAILED").exists()
    assert outcome(run) == outcome(undisturbed)


def test_a_run_goes_on_with_as_many_cores(run, monkeypatch):
    three = jax.local_devices() * 3
    monkeypatch.setattr(jax, "local_devices", lambda: three)
    provenance = json.loads((run / "provenance.json").read_text())
    assert provenance["cores"] == 1
    assert open_run([str(run)], "resume", QUIET)[0].settings.cores == 1
    write_json(run / "provenance.json", {**provenance, "cores": 2})
    assert open_run([str(run)], "resume", QUIET)[0].settings.cores == 2
    assert open_run([str(run), "cores=3"], "resume", QUIET)[0].settings.cores == 3


def test_only_more_iterations_of_the_same_fit_are_allowed(run):
    with pytest.raises(PdefitError, match=r"seed \(0 -> 3\), .*twin.noise|noise \(0.02 -> 0.05\), seed \(0 -> 3\)"):
        run_resume([str(run), "seed=3", "noise=0.05"], QUIET)
    run_resume([str(run), "max_iterations=14"], QUIET)
    summary = json.loads((run / "summary.json").read_text())
    assert summary["iterations"] == 14
    provenance = json.loads((run / "provenance.json").read_text())
    assert provenance["command"] == ["pdefit", "fit"] and provenance["experiment"] == NAME
    assert [r["command"][-1] for r in provenance["resumed"]] == ["max_iterations=14"]


def test_damaged_states_fall_back_a_generation(run, undisturbed, monkeypatch):
    monkeypatch.setattr(fit_run, "power_of_two", lambda rate: 2)
    newest = run / "state" / state_file.NEWEST
    damaged = bytearray(newest.read_bytes())
    for k in range(1000, len(damaged), 97):
        damaged[k] ^= 0xFF
    newest.write_bytes(damaged)
    saved = load_state(run / "state")
    # steps that were left open are looked at after every early evaluation, so that a generation is one evaluation
    assert saved is not None and saved.state.numbers["iterations"] == 11
    run_resume([str(run)], QUIET)
    assert outcome(run) == outcome(undisturbed)


def test_what_is_no_run_is_refused(prepare_run, tmp_path):
    for arguments, words in (
        ([], "expects the directory of a run"),
        (["max_iterations=3"], "expects the directory of a run"),
        ([str(tmp_path / "nowhere")], "not the directory of a run"),
        ([str(prepare_run("empty", *SMALL))], "not the directory of a run"),
    ):
        with pytest.raises(PdefitError, match=words):
            run_resume(arguments, QUIET)


def test_a_run_with_links_to_elsewhere_does_not_go_on(prepare_run, tmp_path):
    run, mine = prepare_run("foreign", *SMALL), tmp_path / "mine"
    write_json(run / "provenance.json", {"command": ["pdefit", "fit"], "experiment": NAME})
    mine.write_text("mine")
    for name in (".lock", "run.log", "fields.h5"):
        (run / name).symlink_to(mine)
    for command in (run_resume, run_certify):
        with pytest.raises(PdefitError, match=r"has links that lead out of it, or pipes \(.lock, fields.h5, run.log\)"):
            command([str(run)], QUIET)
    assert mine.read_text() == "mine"


def test_a_run_of_the_version_before_is_refused(prepare_run):
    run = prepare_run("old", *SMALL)
    provenance = {"command": ["pdefit", "fit"], "experiment": NAME, "versions": {"pdefit": "0.1.0"}}
    write_json(run / "provenance.json", provenance)
    for command in (run_resume, run_certify, run_report):
        with pytest.raises(PdefitError, match="was made by pdefit 0.1.0, whose runs this version does not read; go on"):
            command([str(run)], QUIET)


def test_changed_data_are_noticed(run):
    saved = load_state(run / "state")
    assert saved is not None
    saved.origin["hashes"]["data"] = "0" * 64
    state_file.save_state(run / "state", saved)
    with pytest.raises(PdefitError, match="The data are not those of .*; put them back, or start a new run"):
        run_resume([str(run)], QUIET)


def _rows(history: Path) -> int:
    try:
        with h5py.File(history, "r", locking=False) as file:
            return int(file["n_done"][()])  # pyright: ignore[reportIndexIssue, reportArgumentType]
    except (OSError, KeyError):
        return 0


def kill_at(process, history: Path, row: int) -> None:
    """kill -9 as soon as the history holds a row."""
    deadline = time.time() + 600
    while _rows(history) < row and process.poll() is None and time.time() < deadline:
        time.sleep(0.01)
    process.kill()
    process.communicate()


def test_killed_and_refused(start, pdefit_inside, tmp_path):
    """Two kills at random moments in one run; while it runs, nobody else may."""
    job = ("fit", *SMALL, "stages.main.max_iterations=40", "dt=2e-3")
    process = start(*job, "hydra.run.dir=run")
    while _rows(tmp_path / "run" / "history.h5") < 1 and process.poll() is None:
        time.sleep(0.01)
    with pytest.raises(PdefitError, match=f"in use by process {process.pid} on"):
        run_resume([str(tmp_path / "run")], QUIET)
    rng = random.Random(5)
    kill_at(process, tmp_path / "run" / "history.h5", rng.randint(2, 15))
    process = start("resume", "run")
    kill_at(process, tmp_path / "run" / "history.h5", rng.randint(16, 35))
    assert process.returncode == -9, "the fit was over before it was killed"
    code, out, err = pdefit_inside("resume", "run")
    assert code == 0 and "Traceback" not in err, err
    code, out, err = pdefit_inside(*job, "hydra.run.dir=whole")
    assert code == 0, err
    assert outcome(tmp_path / "run") == outcome(tmp_path / "whole")


def signalled(monkeypatch, module, name, times=1):
    """Send SIGTERM to this process where a function of the fit begins."""
    original = getattr(module, name)

    def sends(*arguments, **named):
        for _ in range(times):
            os.kill(os.getpid(), signal.SIGTERM)
        return original(*arguments, **named)

    monkeypatch.setattr(module, name, sends)


@pytest.mark.parametrize(
    ("where", "times"),
    [
        ((fit_command, "plan"), 1),
        ((checkpoints, "save_state"), 1),
        ((fit_command, "judge"), 1),
        ((results, "write_film"), 2),
    ],
    ids=["before", "in the fit", "after the fit", "twice while writing"],
)  # fmt: skip
def test_an_interrupted_fit_ends_at_once_and_is_resumed_to_the_same_bits(
    where, times, pdefit_inside, undisturbed, tmp_path, monkeypatch
):
    monkeypatch.setattr(fit_run, "power_of_two", lambda rate: 2)
    run = tmp_path / "a run"
    with monkeypatch.context() as context:
        signalled(context, *where, times)
        code, out, err = pdefit_inside("fit", *SMALL, "hydra.run.dir='a run'")
    told = "interrupted by SIGTERM: not everything is written"
    assert code == 143 and err.count("error:") == 1 and f"{told}; `pdefit resume '{run}'` goes on" in err, err
    assert (run / "INTERRUPTED").read_text() == "SIGTERM: not everything is written\n"
    assert not any((run / name).exists() for name in ("DONE", "FAILED", "RUNNING", "summary.json"))
    # results take longer than a queue waits
    assert (run / "parameters.csv").exists() == (where[1] == "write_film") and not list(run.rglob("*.partial*"))
    assert "end" not in RunFiles(run).content("certificate.json")
    code, out, err = pdefit_inside("resume", "a run")
    assert code == 0 and (run / "DONE").exists() and not (run / "INTERRUPTED").exists(), err
    assert outcome(run) == outcome(undisturbed)


def test_one_signal_ends_a_job_and_two_end_a_sweep(pdefit_inside, tmp_path, monkeypatch):
    """Jobs that end where they begin."""
    begun = []

    def run(job):
        cfg = job.settings
        begun.append(cfg.seed)
        for _ in range({1: 1, 2: 2}.get(cfg.seed, 0)):
            with contextlib.suppress(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGTERM)
        if cfg.seed in (1, 2):
            raise KeyboardInterrupt

    monkeypatch.setattr(fit_command, "run_fit", run)
    # it closes the handlers of pytest
    monkeypatch.setattr("hydra._internal.logging_config.configure_logging", lambda *_: None)
    code, out, err = pdefit_inside("fit", "-m", *SMALL, "seed=0,1,3", "hydra.sweep.dir=one")
    assert code == 143 and begun == [0, 1, 3] and err.count("error: interrupted by SIGTERM") == 1, err
    assert {p.parent.name for p in (tmp_path / "one").rglob("DONE")} == {"seed_0", "seed_3"}
    assert (tmp_path / "one" / "seed_1" / "INTERRUPTED").exists()
    begun.clear()
    code, out, err = pdefit_inside("fit", "-m", *SMALL, "seed=0,2,3", "hydra.sweep.dir=two")
    assert code == 143 and begun == [0, 2] and err.count("error:") == 1, err
    assert (tmp_path / "two" / "seed_2" / "INTERRUPTED").exists() and not (tmp_path / "two" / "seed_3").exists()


def test_a_fit_without_end_leaves_out_what_would_cost_more_than_itself(prepare_run):
    """The evaluation of a gradient costs 5 forward runs, and the intervals of 82 unknowns 42."""
    field = ("+controls.y0.u={guess: data}", "stages=lbfgs", "noise=0.02", "certificate=warn", "render=false")
    run = prepare_run("field", *SMALL[:3], *field, "max_iterations=1")
    begin(run)
    summary, files = json.loads((run / "summary.json").read_text()), RunFiles(run)
    assert summary["iterations"] == 1 and not summary["converged"]
    assert summary["intervals"] is None and summary["certificate"] is None
    told = f"`pdefit resume {run} intervals=always` adds them"
    assert any(told in event for event in summary["events"])
    assert [*files.content("certificate.json")] == ["start"]
    # a run that began before there was this key lacks it
    config = run / ".hydra" / "config.yaml"
    config.write_text(config.read_text().replace("intervals: auto\n", ""))
    run_resume([str(run), "intervals=always"], QUIET)
    summary = json.loads((run / "summary.json").read_text())
    assert summary["iterations"] == 1 and not any(told in event for event in summary["events"])
    assert summary["intervals"]["method"].startswith("Gauss-Newton") and "scope" in summary["certificate"]
    assert summary["parameters"]["D"]["ci95"][0] is not None
    assert [*files.content("certificate.json")] == ["start", "end"]
