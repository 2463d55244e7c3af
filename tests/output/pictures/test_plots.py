"""Figures of studies on given axes, from results and from runs."""

import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.figure import Figure

import pdefit
from pdefit._util.atomic import write_json
from pdefit.analysis.sensitivity import Effect, Sensitivity

EFFECTS = Sensitivity((Effect("k", "1/s", 2.0, 0.3, 0.2), Effect("D", "1", 1.0, np.inf, 0.1)), 1.5, 7, ("k",))
PARABOLA = np.linspace(-1.2, 1.2, 9)


def _profile(name: str) -> dict:
    curve = {"values": 3 + PARABOLA, "rise": PARABOLA**2, "matrix_values": 3 + PARABOLA, "matrix_rise": PARABOLA**2}
    return {"control": name, "unit": "1", "estimate": 3.0, "low": 2.0, "high": 4.0, "ends": ["limit", "flat"], **curve}


def test_a_result_on_given_axes():
    ax = Figure().subplots()
    assert pdefit.plot.sensitivity(EFFECTS, ax) == [ax]
    assert [bar.get_width() for bar in ax.patches][0] == pytest.approx(0.3)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["k", "D"]
    # no other axes are made
    assert ax.figure.axes == [ax]


def test_a_run_in_a_new_figure_and_on_given_axes(tmp_path):
    write_json(tmp_path / "profiles.json", {"profiles": [_profile("a"), _profile("b")]})
    panels = pdefit.plot.profiles(tmp_path)
    assert [axes.get_xlabel() for axes in panels] == ["a", "b"]
    pyplot.close(panels[0].figure)
    ax = Figure().subplots()
    # one axes shows the first number
    assert pdefit.plot.profiles(str(tmp_path), ax) == [ax]
    x, y = ax.lines[1].get_data()
    # between its points a parabola stays one
    assert np.allclose(y, (np.asarray(x) - 3) ** 2, atol=1e-12)


def test_a_directory_without_the_study_is_refused(tmp_path):
    with pytest.raises(pdefit.PdefitError, match="design.json"):
        pdefit.plot.design(tmp_path)
