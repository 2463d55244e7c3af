"""Pictures that another process draws while a fit goes on."""

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
    with monkeypatch.context() as before:
        before.delitem(sys.modules, "matplotlib", raising=False)
        yield started


def test_another_process_draws_what_is_there_when_asked_and_hands_over_its_notes(others, tmp_path):
    with drawing(tmp_path, True, 2) as draw:
        (tmp_path / "fields.h5").write_bytes(b"damaged")
        notes = draw()().notes
    assert [p.returncode for p in others] == [0]
    assert notes == pictures(tmp_path).notes and any(note.startswith("no fields: ") for note in notes)


def test_the_other_process_ends_with_this_one(others, tmp_path):
    with drawing(tmp_path, True, 2):
        # which the system does with the pipes of a killed process
        others[0].stdin.close()
        assert others[0].wait() == 1


def test_without_the_other_process_the_pictures_are_drawn_here(others, tmp_path):
    with drawing(tmp_path, True, 2) as draw:
        others[0].kill()
        others[0].wait()
        assert draw()().notes == pictures(tmp_path).notes


def test_an_interrupt_ends_the_other_process(others, tmp_path):
    with pytest.raises(KeyboardInterrupt), drawing(tmp_path, True, 2):
        raise KeyboardInterrupt
    assert [p.returncode for p in others] == [-9]


@pytest.mark.parametrize(("cores", "wanted"), [(1, True), (2, False)])
def test_one_core_draws_by_itself(others, tmp_path, cores, wanted):
    with drawing(tmp_path, wanted, cores) as draw:
        assert bool(draw()().notes) == wanted
    assert not others
