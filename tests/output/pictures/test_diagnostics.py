import films
import numpy as np
import pytest

from pdefit.output.pictures.figures import draw_all


@pytest.mark.parametrize(("kinds", "curves"), [(("true", "predicted"), [4, 2]), (("predicted",), [2, 1])])
def test_quantities_have_a_panel_each(tmp_path, saved_figures, kinds, curves):
    shown = {"frames": 4, "fitted": 2, "kinds": kinds, "diagnostics": films.SCALARS}
    drawn = draw_all(films.write_run(tmp_path, {"n": films.NUMBER}, **shown))
    assert [p.name for p in drawn.files] == ["diagnostics.png", "fields.png"] and len(drawn.notes) <= 1
    panels = saved_figures[0].axes
    assert [axes.get_ylabel() for axes in panels] == ["nusselt", "reynolds"]
    # the line that begins the forecast is a curve of two points
    series = [[line for line in axes.lines if len(np.asarray(line.get_xdata())) == 4] for axes in panels]
    assert [len(lines) for lines in series] == curves
    legend = panels[0].get_legend()
    assert legend is not None and [t.get_text() for t in legend.get_texts()] == ["top", "bottom"]
    np.testing.assert_allclose(series[1][0].get_ydata(), np.sin(-np.arange(4) / 2 - 0.05))
