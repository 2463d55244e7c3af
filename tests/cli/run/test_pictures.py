"""Pictures that another process draws while a fit goes on."""

import os
import subprocess
import sys

import pytest

from pdefit.cli.run.pictures import drawing, pictures


@pytest.fixture
def others(monkeypatch):
    """The processes that were started, on a machine of two cores where nothing has been drawn yet."""
    started, start = [], subprocess.Popen

    def recorded(*given, **options):
        started.append(start(*given, **options))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", recorded)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    with monkeypatch.context() as before:
        before.delitem(sys.modules, "matplotlib", raising=False)
        yield started


def test_another_process_draws_and_hands_over_its_notes(others, tmp_path):
    with drawing(tmp_path, True) as drawn:
        notes = drawn().notes
    assert [p.returncode for p in others] == [0]
    assert notes == pictures(tmp_path).notes and "fields.h5" in notes[0]


def test_an_interrupt_ends_the_other_process(others, tmp_path):
    with pytest.raises(KeyboardInterrupt), drawing(tmp_path, True):
        raise KeyboardInterrupt
    assert [p.returncode for p in others] == [-9]


@pytest.mark.parametrize(("cores", "wanted"), [({0}, True), ({0, 1}, False)])
def test_one_core_draws_by_itself(others, tmp_path, monkeypatch, cores, wanted):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: cores)
    with drawing(tmp_path, wanted) as drawn:
        assert bool(drawn().notes) == wanted
    assert not others
