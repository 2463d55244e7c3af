"""The rows of the benchmark table still run, at sizes where their numbers mean nothing.

Other rows call the same functions as these.
"""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import rows

SMALL = {
    "p1": {"cells": 16, "count": 3},
    "p6": {"cells": 16, "observations": 4, "between": 3},
    "gn": {"cells": 16, "observations": 2, "repeats": 1},
    "p12": {"cells": 16, "count": 20},
}


@pytest.mark.parametrize("name", SMALL)
def test_a_row_says_what_it_found(name):
    found = getattr(rows, name)(**SMALL[name])
    assert found.what and found.target and found.found
