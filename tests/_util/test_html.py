"""Tables for notebooks."""

import numpy as np
import pytest

from pdefit._util.html import interval, summarised, table


def test_all_texts_of_a_table_are_escaped():
    assert table(("<a>",), [("<b>", 0.5, None)], ["x & y"]) == (
        "<div>x &amp; y</div><table><thead><tr><th>&lt;a&gt;</th></tr></thead>"
        "<tbody><tr><td>&lt;b&gt;</td><td>0.5</td><td></td></tr></tbody></table>"
    )


def test_a_table_without_rows_is_its_lines():
    assert table(("a",), [], ["nothing"]) == "<div>nothing</div>"


@pytest.mark.parametrize(
    ("values", "shown"),
    [(None, ""), (2.0, "2"), (np.asarray([1.0, 0.25]), "1, 0.25"), (np.linspace(0.0, 2.0, 80), "0 to 2 (80 values)")],
)
def test_values_in_a_cell(values, shown):
    assert summarised(values) == shown


@pytest.mark.parametrize(
    ("low", "high", "shown"),
    [
        (1.0, 2.0, "1 to 2"),
        (None, 2.0, "below 2"),
        (np.nan, np.nan, ""),
        (0.0, np.inf, "above 0"),
        (-np.inf, None, ""),
        ("1", [2.0], ""),
    ],
)
def test_intervals_in_a_cell(low, high, shown):
    assert interval(low, high) == shown
