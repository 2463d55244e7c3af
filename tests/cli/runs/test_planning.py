import math

from pdefit.cli.runs.planning import compared

PLANNED = {"evaluation": {"planned_bytes": 2048, "host_bytes": 0, "most_products": 0, "seconds": 0.5}}


def test_what_was_not_measured_is_left_out():
    assert compared(PLANNED, 4096, 0.25).endswith("planned 0.5 s, measured 0.25 s")
    assert compared(PLANNED, None, math.nan).endswith("planned 0.5 s")
    assert "nan" not in compared(PLANNED, None, math.nan)
