"""Over three hundred corrupted inputs: each is answered by one sentence or by a fit, never by a traceback, a hang or debris.

Cases are numbered, and a number makes the same case anywhere. Those that hand damaged bytes to the HDF5 library run in
children, because a crash of the library would take the session with it.
"""

import dataclasses
import multiprocessing
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from fuzzing import cases, hostile
from fuzzing.command import LIMIT, answer, complaint

from pdefit.output.store.fit_checkpoint import load_state, save_state

CONFIGURATIONS = [(kind, i) for kind, count in (("entries", 100), ("text", 40), ("experiment_file", 15), ("override", 15))
                  for i in range(count)]  # fmt: skip
FILES = {
    "data": 70,
    "check_verb": 60,
    "foreign": 100,
    "planets": 15,
    "run_files": 35,
    "table": 10,
    "long_table": 20,
    "shown_runs": 40,
}
# until the first case of a child: JAX is imported
BATCH_SECONDS = 600


@pytest.mark.parametrize(("kind", "seed"), CONFIGURATIONS)
def test_a_corrupted_configuration(kind, seed, tmp_path):
    told, wrong = cases.check(kind, seed, tmp_path)
    assert not wrong, f"{told}\n{wrong}"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run that has ended, to be copied and damaged."""
    return cases.finished_run(tmp_path_factory.mktemp("finished"))


def test_corrupted_files(finished, tmp_path):
    """All in one child; one that dies, or is silent for longer than a case may take, is named by the case it was at."""
    receiver, sender = multiprocessing.get_context("spawn").Pipe(duplex=False)
    child = multiprocessing.get_context("spawn").Process(target=cases.batch, args=(FILES, tmp_path, finished, sender))
    child.start()
    sender.close()
    wrong, current, ended = [], "the start", False
    try:
        # the first case waits for JAX
        while receiver.poll(BATCH_SECONDS if current == "the start" else 3 * LIMIT):
            current, complaint_ = receiver.recv()
            ended = current == "the end"
            if complaint_:
                wrong.append(f"{current}: {complaint_}")
    except EOFError:
        child.join()
    finally:
        child.kill()
    assert ended, f"died with {child.exitcode}, or hung, at {current}"
    assert not wrong, "\n\n".join(wrong)


def test_a_few_run_through_whole(finished, tmp_path):
    """What passes for built in the cases above is also fitted, certified again and resumed."""
    run = shutil.copytree(finished, tmp_path / "run")
    for arguments in (["certify", run.name], ["resume", run.name, "max_iterations=3"]):
        given = answer(tmp_path, arguments, whole=True, limit=600)
        assert given.code == 0 and not complaint(given), given


def test_what_no_input_explains_is_one_sentence_and_its_traceback_is_kept(tmp_path, monkeypatch):
    def bug(*_):
        raise RuntimeError("two\nlines")

    monkeypatch.setattr("pdefit.cli.run.fit.plan", bug)
    cases.film(tmp_path / "film.h5")
    run = cases.run_directory(tmp_path, cases.written(cases.configuration("film")))
    given = answer(tmp_path, ["resume", "run"])
    assert given.code == 1 and not given.escaped and len(given.err.splitlines()) == 1
    assert "internal error: RuntimeError: two - this is a bug in pdefit; run.log holds the traceback" in given.err
    assert "in bug" in (run / "run.log").read_text() and (run / "FAILED").exists()
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    assert "in bug" in answer(tmp_path, ["resume", "run"]).escaped


@pytest.mark.parametrize(
    "lines",
    [
        "system: {_target_: os.system, command: touch pwned}",
        "system: {name: os.system, command: touch pwned}",
        "system: {name: ../../pwned}",
        "args: {name: numpy.savetxt, fname: pwned, X: [1.0]}",
        "regularizers: {x: {_target_: subprocess.Popen, args: [touch, pwned]}}",
        "dtype: !!python/object/apply:os.system ['touch pwned']",
        "holdout: ${oc.env:SECRET}",
    ],
)  # fmt: skip
def test_an_experiment_file_runs_no_code_and_tells_no_secret(lines, tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET", "swordfish")
    given = _own(tmp_path, lines)
    assert given.code == 1 and not complaint(given), given
    assert not list(tmp_path.rglob("*pwned*"))
    assert "swordfish" not in given.err + given.out


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("{callbacks: {x: {_target_: os.system, command: touch pwned}}}", "sets hydra.callbacks.x"),
        ("{launcher: {x: {_target_: os.system, command: touch pwned}}}", "type hydra/launcher=NAME"),
        ("{job_logging: {handlers: {x: {(): os.system, command: touch pwned}}}}", "sets hydra.job_logging.handlers"),
        (
            "{hydra_logging: {handlers: {x: {(): os.system, command: touch pwned}}}}",
            "sets hydra.hydra_logging.handlers",
        ),
        ("{job_logging: {handlers: {file: {filename: pwned}}}}", "sets hydra.job_logging.handlers"),
        (
            "{job_logging: {handlers: {file: {filename: '${hydra.runtime.output_dir}/../pwned'}}}}",
            "sets hydra.job_logging",
        ),
        ("{job: {env_set: {PATH: /tmp}}}", "set environment variables before you start pdefit"),
    ],
)
def test_what_a_file_sets_in_hydra_is_left_out_and_said(lines, words, tmp_path):
    path = os.environ["PATH"]
    given = _own(tmp_path, f"hydra: {lines}")
    assert given.code == 0 and not complaint(given), given
    assert given.err.startswith("warning: ") and "a file may set nothing in hydra, so it is left out" in given.err
    assert words in given.err and len(given.err.splitlines()) == 1
    assert not list(tmp_path.rglob("*pwned*")) and os.environ["PATH"] == path


def _own(folder, lines):
    """The answer to a fit of an experiment file with such lines."""
    (folder / "mine" / "experiment").mkdir(parents=True)
    text = f"# @package _global_\ndefaults:\n  - /experiment/reaction/fisher_front\n{lines}\n"
    (folder / "mine" / "experiment" / "own.yaml").write_text(text)
    return answer(folder, ["fit", "experiment=own", "--config-dir", "mine", "hydra.run.dir=run"])


@pytest.mark.parametrize("seed", range(16))
def test_hostile_configurations_are_refused_before_anything_is_written(seed, tmp_path):
    """Two hundred of them: `PYTHONPATH=tests ./run python -m fuzzing.hostile 200`."""
    told, wrong = hostile.check(seed, tmp_path)
    assert not wrong, f"{told}\n{wrong}"


def test_environment_variables_make_paths(tmp_path, monkeypatch):
    folder = tempfile.mkdtemp(dir=tmp_path)
    monkeypatch.setenv("LABORATORY", folder)
    cases.film(Path(folder) / "film.h5")
    content = {**cases.configuration("film")}
    content["data"] = {**content["data"], "path": "${oc.env:LABORATORY}/film.h5"}
    cases.run_directory(tmp_path, cases.written(content))
    given = answer(tmp_path, ["resume", "run"])
    assert given.code == 0 and not complaint(given), given


@pytest.mark.parametrize("key", ["iterations", "events"])
def test_a_saved_state_without_a_number_is_one_sentence(key, finished, tmp_path):
    run = shutil.copytree(finished, tmp_path / "run")
    saved = load_state(run / "state")
    assert saved is not None
    old = saved.state.numbers
    for numbers in ({**old, key: None}, {k: v for k, v in old.items() if k != key}):
        shutil.rmtree(run / "state")
        save_state(run / "state", saved._replace(state=dataclasses.replace(saved.state, numbers=numbers)))
        given = answer(tmp_path, ["resume", run.name, "max_iterations=3"])
        assert given.code == 1 and not complaint(given) and "does not fit this experiment" in given.err, given


def test_a_finished_run_stays_one_when_it_cannot_go_on(finished, tmp_path):
    run = shutil.copytree(finished, tmp_path / "run")
    before = {p: p.read_bytes() for p in run.rglob("*") if p.is_file()}
    (run / "history.h5").write_bytes(b"")
    given = answer(tmp_path, ["resume", run.name, "max_iterations=3"])
    assert given.code == 1 and "history.h5" in given.err and (run / "DONE").exists() and not (run / "FAILED").exists()
    changing = {"run.log", "history.h5", "provenance.json", ".lock"}
    assert all(p.read_bytes() == raw for p, raw in before.items() if p.name not in changing)
    assert os.listdir(run / "state")
