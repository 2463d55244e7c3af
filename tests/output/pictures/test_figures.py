import dataclasses
import struct
from pathlib import Path

import numpy as np
import pytest
from films import LINE, NUMBER, PLANE, write_film
from matplotlib import image

from pdefit._util.atomic import write_json
from pdefit.inverse.fit.result import Record
from pdefit.output.pictures.figures import draw_all
from pdefit.output.pictures.sweep import Shown, write_sweep_page
from pdefit.output.store.history import HistoryFile
from pdefit.output.store.tables import ParameterRow, write_parameters, write_series

DPI = 160
ROW = ParameterRow("D", "mm^2/s", "log", 2.0, 1.01, 1.0, 0.01, 0.9, 1.1, 0.2, False)
UNKNOWN = dataclasses.replace(ROW, truth=None, relative_error=None, z_score=None)
ALONE = dataclasses.replace(UNKNOWN, ci95_low=None, ci95_high=None)


def _run(folder: Path, rows: list[ParameterRow], losses=(8.0, 3.0, 1.0), series=("u",), forecast=("all",)) -> Path:
    """A run directory as a fit leaves it, without its fields."""
    write_json(
        folder / "summary.json", {"time_unit": "s", "forecast": {"unit": "", "baseline": {"name": "persistence"}}}
    )
    write_parameters(folder / "parameters.csv", rows)
    with HistoryFile(folder / "history.h5", [r.control for r in rows] or ["none"]) as history:
        records = [
            Record(i, 1 + i // 2, loss=x, gradient_norm=x, accepted=True, seconds=0.1, theta=None)
            for i, x in enumerate(losses, start=1)
        ]
        n = len(losses)
        history.append(records, np.linspace(2.0, 1.01, n)[:, None] * np.ones(max(len(rows), 1)))
    ts = np.linspace(0.0, 1.0, 5)
    if series:
        write_series(folder / "residuals.csv", ts, {name: np.full(5, 1.0 + k) for k, name in enumerate(series)})
    if forecast:
        pairs = [(name, f"{name} baseline") for name in forecast]
        write_series(folder / "forecast.csv", ts, {n: ts * (k + 1) for k, n in enumerate(sum(pairs, ()))})
    return folder


def _size(path: Path) -> tuple[int, int]:
    """Width and height from a PNG's own header."""
    head = path.read_bytes()[:24]
    assert head.startswith(b"\x89PNG\r\n\x1a\n")
    return struct.unpack(">II", head[16:24])


def test_all_figures_exist_in_their_sizes(tmp_path):
    drawn = draw_all(_run(tmp_path, [ROW, dataclasses.replace(ROW, control="r")])).files
    inches = {"convergence": 3.6, "parameters": 1.3 + 0.26 * 2, "residuals": 3.2, "forecast": 4.0}
    assert [p.stem for p in drawn] == list(inches)
    for path in drawn:
        assert path.parent == tmp_path / "figures"
        width, height = _size(path)
        assert width == 7 * DPI and abs(height - inches[path.stem] * DPI) <= 1
        assert image.imread(path)[..., :3].std() > 0.02, f"{path.name} is a blank page"


def test_of_recordings_without_space_the_worst_are_drawn_first(tmp_path, saved_figures):
    names = [f"trace_{k}" for k in range(20)]
    for name in names:
        write_film(
            tmp_path / "recordings" / name / "fields.h5", {"u": NUMBER}, fitted=4, kinds=("observed", "predicted")
        )
    sections = {name: {"fit": {"chi2_per_value": float(k)}} for k, name in enumerate(names)}
    write_json(tmp_path / "summary.json", {"time_unit": "ms", "recordings": sections})
    drawn = draw_all(tmp_path)
    assert [file.stem for file in drawn.files] == ["records"] and not [n for n in drawn.notes if "records" in n]
    (figure,) = [figure for figure in saved_figures if len(figure.axes) == 12]
    titles = [axes.get_title("left") for axes in figure.axes]
    assert titles[:3] == [f"trace_{k}: chi2 per value {k}" for k in (19, 18, 17)]
    # the forecast is another matter
    assert figure.axes[0].lines[0].get_xdata().size == 4


@pytest.mark.parametrize(
    ("rows", "losses"),
    [
        ([ROW], (8.0, 3.0, 1.0)),
        ([UNKNOWN], (8.0, 3.0, 1.0)),
        ([ALONE], (8.0, 3.0, 1.0)),
        ([dataclasses.replace(ALONE, truth=1.0, relative_error=0.01)], (8.0, 3.0, 1.0)),
        ([dataclasses.replace(ROW, estimate=1.0, relative_error=0.0)], (8.0, 3.0, 1.0)),
        ([dataclasses.replace(ROW, estimate=0.0, truth=0.0, relative_error=None)], (8.0, 3.0, 1.0)),
        ([dataclasses.replace(ROW, ci95_low=2.0, ci95_high=2.1)], (8.0, 3.0, 1.0)),
        ([ROW, dataclasses.replace(ROW, interval_trusted=False)], (8.0, 3.0, 1.0)),
        ([ROW, UNKNOWN, ALONE], (8.0, 3.0, 1.0)),
        ([ROW], (8.0,)),
        ([ROW], (0.0,)),
        ([ROW], (8.0, 0.0, 0.0)),
        ([ROW], (8.0, float("nan"), 1.0)),
        ([dataclasses.replace(ROW, control=f"gm.{i}") for i in range(60)], (8.0, 1.0)),
    ],
)
def test_figures_of_unusual_fits_are_drawn(tmp_path, rows, losses):
    """Nothing known, nothing estimated, nothing left to fit: a picture, and no warning."""
    for path in draw_all(_run(tmp_path, rows, losses, series=(), forecast=())).files:
        assert _size(path)[0] == 7 * DPI and image.imread(path)[..., :3].std() > 0


def test_estimates_stand_beside_their_bars(tmp_path, saved_figures):
    """Nothing is named in the legend that is not drawn, and a figure without intervals still tells its estimates."""
    for name, rows in (("some", [ROW, ALONE]), ("none", [ALONE] * 3)):
        (tmp_path / name).mkdir()
        draw_all(_run(tmp_path / name, rows, series=(), forecast=()))
    some, none = (f for f in saved_figures if f.axes[0].get_title(loc="left").startswith("Estimates"))
    (beside,) = some.axes[0].child_axes
    assert [t.get_text() for t in beside.get_yticklabels()] == ["1.01 ± 0.1 mm^2/s", "1.01 mm^2/s, no interval"]
    assert not none.legends and "neither intervals nor true values" in none.axes[0].get_title(loc="left")


def test_values_of_an_initial_field_are_no_rows(tmp_path, saved_figures):
    state = [dataclasses.replace(ROW, control=f"y0.u.{i}") for i in range(20)]
    draw_all(_run(tmp_path, [ROW, *state], series=(), forecast=()))
    titles = {f.axes[-1].get_title(loc="left") or f.axes[0].get_title(loc="left"): f for f in saved_figures}
    convergence, parameters = titles["Controls"], titles["Estimates and intervals; 20 more in parameters.csv"]
    assert [t.get_text() for t in parameters.axes[0].get_yticklabels()] == ["D"]
    assert [line.get_label() for line in convergence.axes[1].lines] == ["D"]


def test_only_what_the_run_has_is_drawn(tmp_path):
    drawn = draw_all(_run(tmp_path, [], series=(), forecast=())).files
    assert [p.name for p in drawn] == ["convergence.png"]
    assert sorted(p.name for p in (tmp_path / "figures").iterdir()) == ["convergence.png"]


@pytest.mark.parametrize(("count", "inches"), [(1, 3.2), (3, 3.2), (4, 4.0), (9, 5.5)])
def test_residuals_have_a_panel_for_each_series(tmp_path, count, inches):
    draw_all(_run(tmp_path, [ROW], series=[f"body{i}" for i in range(count)], forecast=()))
    assert abs(_size(tmp_path / "figures" / "residuals.png")[1] - inches * DPI) <= 1


def test_residuals_with_gaps_are_drawn(tmp_path):
    run = _run(tmp_path, [ROW], forecast=())
    write_series(run / "residuals.csv", np.arange(3.0), {"u": np.asarray([1.0, np.nan, 2.0]), "v": np.full(3, np.nan)})
    assert _size(draw_all(run).files[-1])[0] == 7 * DPI


def test_signed_residuals_stand_around_zero_and_the_values_of_a_variable_in_one_panel(tmp_path, saved_figures):
    run, ts = _run(tmp_path, [ROW], forecast=()), np.arange(3.0)
    write_series(run / "residuals.csv", ts, {"u[0]": ts - 1, "u[1]": 1 - ts, "v": ts - 2})
    draw_all(run)
    axes = {a.get_title("left"): a for a in saved_figures[-1].axes}
    assert [*axes] == ["u", "v"]
    u = [np.ravel(line.get_ydata()).tolist() for line in axes["u"].lines]
    assert u == [[-1.0, 0.0, 1.0], [1.0, 0.0, -1.0]]
    assert axes["u"].get_ylim()[0] < -1


def test_ticks_of_a_sweep_are_its_values(tmp_path, saved_figures):
    """Losses within a decade on a plain axis, where each tick has a number, and a tick for each swept value."""
    jobs = [
        Shown(f"job{i}", "done", "", "fitted to the noise", {"D": D}, 800.0 + i, 0.01 * 9**i, 5, 1.0, "", {})
        for i, D in enumerate((0.05, 0.5, 5.0))
    ]
    write_sweep_page(tmp_path / "sweep.html", "sweep", "3 done", jobs)
    loss, error = saved_figures[0].axes
    assert loss.get_yscale() == "linear" and error.get_yscale() == "log" and loss.get_xscale() == "log"
    assert [t.get_text() for t in error.get_xticklabels()] == ["0.05", "0.5", "5"]
    assert error.get_xticks(minor=True).size == 0 and saved_figures[1].axes[0].get_yscale() == "linear"


@pytest.mark.parametrize("known", [True, False])
def test_an_unknown_field_stands_beside_its_truth(tmp_path, saved_figures, known):
    kinds = ("predicted", "std", "prior") + ("true",) * known
    level = {"predicted": 1.1, "true": 1.0, "std": 0.2, "prior": 0.4}

    def values(name, kind, i):
        shape = (24, 17) if name == "D" else (33,)
        return level[kind] + np.linspace(0.0, 0.1, int(np.prod(shape))).reshape(shape)

    write_film(tmp_path / "posterior.h5", {"D": PLANE, "r": LINE}, frames=1, kinds=kinds, values=values)
    draw_all(tmp_path)
    titles = [axes.get_title(loc="left") for axes in saved_figures[0].axes]
    last = "error / std" if known else "std / std of the prior"
    # on a line the truth is a curve upon the estimate
    for panels in (
        ["truth"] * known + ["estimate", "standard deviation", last],
        ["estimate", "standard deviation", last],
    ):
        assert [title for title in titles if title][: len(panels)] == panels
        titles = [title for title in titles if title][len(panels) :]
