"""Two hundred damaged films: a recording or one sentence, in little time and memory, and nothing left or changed."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

from fuzzing.films import faults


def test_damaged_films_are_imported_or_refused_in_one_sentence(tmp_path):
    """In a child, because a crash of a library for videos would take the session with it."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as child:
        wrong, refused = child.submit(faults, 200, tmp_path).result()
    assert not wrong, "\n".join(wrong)
    assert 100 < refused < 180
