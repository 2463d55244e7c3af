"""Runs from somebody else: pipes, links, random bytes, entries of another kind, and commands for the terminal."""

import io
import json
import os
import random
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from films import LINE, write_run

import pdefit
from pdefit import PdefitError
from pdefit._util.atomic import read_json
from pdefit._util.html import table
from pdefit._util.run_state import RunState
from pdefit.cli.run.recorded import read_recorded
from pdefit.cli.runtime.console import Console
from pdefit.cli.sweeps.jobs import what_is_left
from pdefit.data.readers.fields import lazy_fields
from pdefit.output.pictures._members import draw_starts
from pdefit.output.pictures.report import write_report
from pdefit.output.store.fit_checkpoint import BEFORE, NEWEST, Saved, load_state, save_state
from pdefit.output.store.history import read_history
from pdefit.output.store.members import read_members
from pdefit.output.store.run_lock import locked
from pdefit.output.store.runs import RunFiles
from pdefit.output.store.tables import read_parameters, read_points, read_series

# what reads each file of a run
READERS: dict[str, Callable[[Path], Any]] = {
    "summary.json": read_json,
    "parameters.csv": read_parameters,
    "residuals.csv": read_series,
    "points.csv": read_points,
    "starts.csv": lambda path: draw_starts(path.with_suffix(".png"), path),
    "fields.h5": lazy_fields,
    "history.h5": read_history,
    "members.h5": read_members,
    "state.h5": lambda path: load_state(path.parent),
    "config.yaml": lambda path: read_recorded(path, []),
}
ORIGIN = {"config": {}, "hashes": {}, "max_iterations": None}
ESC = "\x1b[2J"


@pytest.fixture
def alarm():
    """An alarm that ends what waits for ever."""

    def ring(*_):
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def _sentence(name: str, read: Callable[[], Any]) -> str:
    with pytest.raises(PdefitError, match=name.replace(".", r"\.")) as told:
        read()
    assert "\n" not in str(told.value)
    return str(told.value)


@pytest.mark.usefixtures("alarm")
@pytest.mark.parametrize("name", [*READERS, ".lock"])
def test_a_pipe_is_refused_and_not_opened(name, tmp_path):
    os.mkfifo(tmp_path / name)
    reader = READERS.get(name, lambda path: locked(path.parent).__enter__())
    _sentence(name, lambda: reader(tmp_path / name))
    assert RunFiles(tmp_path).links() == [name]
    with pytest.raises(PdefitError, match="or pipes"):
        RunFiles(tmp_path).refuse_links("resume")


@pytest.mark.parametrize("name", READERS)
def test_random_bytes_and_deep_nesting_are_one_sentence(name, tmp_path):
    # brackets without a line below them are the header of an empty table
    nested = () if name.endswith(".csv") else (b"[" * 100_000, b'{"a":' * 60 + b"1" + b"}" * 60)
    for content in (random.Random(0).randbytes(300), b"\xff,\n", *nested):
        (tmp_path / name).write_bytes(content)
        _sentence(name, lambda: READERS[name](tmp_path / name))


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("summary.json", {"fit": {"chi2": 10**400}}, "is missing or damaged"),
        ("summary.json", {"own": {"b": "x"}}, "own.b expects a number, but got 'x'"),
        ("summary.json", {"fit": {"structure": [3]}}, r"fit.structure\[0\] expects a mapping, but got '3'"),
        ("summary.json", {"recordings": {"a": 3}}, "recordings.a expects a mapping, but got '3'"),
        ("summary.json", {"sigma": {"u": ["x"]}}, r"sigma.u\[0\] expects a number, but got 'x'"),
        ("profiles.json", {"profiles": 3}, "profiles expects a list, but got '3'"),
        ("identifiability.json", {"controls": [None, 3]}, r"controls\[1\] expects a mapping, but got '3'"),
        ("discovery.json", {"sets": "x"}, "sets expects a list, but got 'x'"),
        ("plan.json", {"unknowns": {"D": "x"}}, "unknowns.D expects a whole number, but got 'x'"),
        ("provenance.json", {"command": ["pdefit", 3]}, r"command\[1\] expects text, but got '3'"),
    ],
)
def test_an_entry_of_another_kind_is_told_in_the_report(name, content, said, tmp_path):
    run = write_run(tmp_path / "run", {"voltage": LINE}, frames=1)
    (run / name).write_text(json.dumps(content))
    page = write_report(run).read_text()
    files = RunFiles(run)
    files.content(name)
    (told,) = files.wrong
    assert re.search(f"{name}' is (damaged: )?{said}|{said}", told)
    assert name in page.partition("put it back from a copy")[0]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("starts.csv", "start,optimum\n0,1\n", "column 'loss' is missing"),
        ("starts.csv", "start,loss,optimum\n0,x,1\n", "column 'loss' holds 'x', where a number is expected"),
        ("points.csv", "kind,time,frame,x\nwrong,0.0,0,1\n", "a point of 'wrong' in frame '0' is none of a film"),
        ("residuals.csv", "time,u\n1,2,3\n", "a row has more cells than there are columns"),
        ("parameters.csv", "control,unit,scale,guess\nD,1,log,x\n", "column 'guess' holds 'x'"),
    ],
)
def test_a_cell_of_another_kind_is_named(name, text, said, tmp_path):
    (tmp_path / name).write_text(text)
    assert said in _sentence(name, lambda: READERS[name](tmp_path / name))


def test_a_text_for_a_number_in_a_saved_state_is_named_although_its_checksum_is_right(tmp_path):
    save_state(tmp_path, Saved(RunState({"stage": 0}, {"x": np.zeros(2)}), ORIGIN))
    save_state(tmp_path, Saved(RunState({"stage": "x", "steps": {"error": []}}, {}), ORIGIN))
    found = load_state(tmp_path)
    assert found is not None and found.state.numbers == {"stage": 0} and found.damaged.endswith(NEWEST)
    (tmp_path / BEFORE).unlink()
    with pytest.raises(PdefitError, match=r"stage expects a whole number, but got 'x'; steps.error expects a number"):
        load_state(tmp_path)


@pytest.mark.parametrize("times", [np.zeros(6), np.asarray([0.0, 1, 2, 2, 3, 4]), np.arange(6.0)[::-1]])
def test_a_film_whose_times_do_not_increase_is_refused(times, tmp_path):
    import h5py

    run = write_run(tmp_path / "run", {"voltage": LINE})
    with h5py.File(run / "fields.h5", "r+") as file:
        file["time"][...] = times
    _sentence("fields.h5", lambda: lazy_fields(run / "fields.h5"))


def test_no_text_of_a_run_is_a_command_for_the_terminal(tmp_path):
    run = write_run(tmp_path / f"run{ESC}", {"voltage": LINE}, name=f"evil{ESC}", frames=1)
    (run / "summary.json").write_text(
        json.dumps({"experiment": f"e{ESC}", "verdict": ESC, "verdict_reason": f"r{ESC}"})
    )
    (run / "parameters.csv").write_text(
        f"control,unit,scale,guess,estimate,at_bound\n<b>{ESC},1,log,1,1,False\n", encoding="utf-8"
    )
    loaded, screen = pdefit.load_run(run), io.StringIO()
    Console(file=screen).print(f"[bold]{run}[/]", loaded.verdict, highlight=False)
    page = write_report(run).read_text()
    shown = [repr(loaded), loaded._repr_html_(), page, screen.getvalue(), str(PdefitError(ESC)), table((ESC,), [])]
    assert not any("\x1b" in text for text in shown)
    assert "<b>" not in page and "&lt;b&gt;" in page
    (run / "FAILED").write_text(ESC)
    assert "\x1b" not in pdefit.load_run(run).state


def test_nothing_is_written_through_a_link(tmp_path):
    kept, run = tmp_path / "kept", tmp_path / "sweep" / "0"
    kept.write_text("mine")
    (run / "state").mkdir(parents=True)
    (run / "state" / NEWEST).symlink_to(kept)
    assert RunFiles(run).links() == [f"state/{NEWEST}"]
    save_state(run / "state", Saved(RunState({}, {}), ORIGIN))
    found = load_state(run / "state")
    assert found is not None and found.damaged == "" and not (run / "state" / NEWEST).is_symlink()
    (run / ".lock").symlink_to(kept)
    with pytest.raises(PdefitError, match=r"\.lock' is a link"), locked(run):
        pass
    content = {"verb": "fit", "words": [], "files": [], "jobs": {"0": []}}
    (run.parent / "sweep.json").write_text(json.dumps(content))
    with pytest.raises(PdefitError, match=r"sweep/0' has links that lead out of it, or pipes \(\.lock, "):
        what_is_left([str(run.parent)], [], Console(quiet=True))
    assert kept.read_text() == "mine"
