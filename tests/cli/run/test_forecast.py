"""What a fit says of its forecast."""

import dataclasses
import json

import numpy as np
import pytest

import pdefit
from pdefit.analysis.forecast.score import is_spread
from pdefit.cli.run.forecast import in_words
from pdefit.output.store.summary import Baseline, ForecastSection

FRONT = (
    "experiment=reaction/fisher_front", "twin=self", "system.grid.shape=[80]", "times.count=13", "controls.D.guess=1.2",
    "controls.r.guess=0.9", "certificate=warn", "render=false",
)  # fmt: skip


def test_a_fit_tells_how_far_ahead_it_sees(pdefit_inside, tmp_path):
    code, out, err = pdefit_inside("fit", *FRONT, "lyapunov=true", f"hydra.run.dir={tmp_path / 'run'}")
    assert code == 0, err
    found = json.loads((tmp_path / "run" / "summary.json").read_text())["forecast"]
    assert found["valid_to_end"] and found["valid_time"] == found["horizon"] == 6.0
    # a front that rises once has no peak
    assert found["peak_time"] is None
    parting = found["lyapunov"]
    assert parting["unit"] == "1/s" and parting["standard_error"] > 0
    # ahead of the front a perturbation grows at the rate r = 1
    assert parting["exponent"] == pytest.approx(1.0, abs=0.2) and parting["time"] == 1 / parting["exponent"]
    assert parting["valid_time_in_lyapunov_times"] == pytest.approx(6 * parting["exponent"])
    words = " ".join(out.split())
    assert "writing fields.h5 and the forecast" in words
    assert "valid (error below 0.1) for all of 6 s" in words and "Lyapunov exponent" in words


def test_an_exponent_expects_a_forecast_with_enough_frames(pdefit_inside, tmp_path):
    asked, short = (*FRONT, "lyapunov=true"), ("times.stop=7.0", "times.count=8")
    code, _, err = pdefit_inside("fit", *asked, "times.fit_until=null", f"hydra.run.dir={tmp_path / 'a'}")
    assert code == 1 and "set times.fit_until" in " ".join(err.split())
    code, out, err = pdefit_inside("fit", *asked, *short, "max_iterations=1", f"hydra.run.dir={tmp_path / 'c'}")
    assert code == 0 and "no Lyapunov exponent" in " ".join(out.split()), err
    assert json.loads((tmp_path / "c" / "summary.json").read_text())["forecast"]["lyapunov"] is None


def test_the_line_names_peaks_and_the_baseline():
    summary = ForecastSection(
        valid_time=120.0, valid_to_end=False, valid_below=0.1, horizon=400.0, relative_l2_at_end=0.62,
        baseline=Baseline("last frame", 1.1), peak_time={"field": "u", "error": 3.21, "missed": 0.0425, "peaks": 1024},
    )  # fmt: skip
    assert "120 of 400;" in in_words(summary, "1") and "peaks 3.21 off in u" in in_words(summary, "1")
    assert in_words(summary, "ms") == (
        "forecast: valid (error below 0.1) for 120 of 400 ms; error at its end 0.62, of last frame 1.1; "
        "peaks 3.21 ms off in u, 4.2% of 1024 missed"
    )
    peaks = {"field": "u", "error": np.nan, "missed": 1.0, "peaks": 1024}
    parting = {"exponent": -0.5, "standard_error": 0.01, "unit": "1/ms", "time": np.inf}
    words = in_words(dataclasses.replace(summary, peak_time=peaks, lyapunov=parting), "ms")
    assert words.endswith("no peak of u, 100.0% of 1024 missed; Lyapunov exponent -0.5 +- 0.01 1/ms")

    blown_up = dataclasses.replace(summary, relative_l2_at_end=np.nan, peak_time=None)
    assert in_words(blown_up, "ms").endswith(
        "not finite at its end, because the model blows up; error of last frame there 1.1"
    )


def test_bodies_and_numbered_cells_are_no_grid():
    grid = pdefit.CartesianGrid(shape=(4, 4), extent=(1.0, 1.0))
    assert is_spread(grid.coords())
    assert not is_spread(pdefit.capabilities.FieldCoords(("body",), {"body": np.asarray(["Sun", "Mars"])}))
    assert not is_spread(pdefit.capabilities.FieldCoords(("cell",), {"cell": np.arange(3)}))
    assert not is_spread(pdefit.capabilities.FieldCoords((), {}))
