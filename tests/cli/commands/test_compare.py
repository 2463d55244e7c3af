"""pdefit compare: runs of the same data side by side."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pandas
import pytest


@pytest.fixture
def runs(fitted, tmp_path) -> tuple[Path, Path]:
    """A run, and one of a second model: another solver, one number more, and a chi2 that is smaller by 10."""
    one, two = (shutil.copytree(fitted.run, tmp_path / "runs" / name) for name in ("one", "two"))
    _replace(two / ".hydra" / "config.yaml", "solver:\n  name: auto", "solver:\n  name: heun")
    _replace(two / "plan.json", '"r": 1', '"r": 1, "K": 1')
    with open(two / "parameters.csv", "a") as file:
        file.write("K,1/s,log,1.0,<b>,,,,,,False,,\n".replace("<b>", "2.5"))
    _change_fit(two, lambda fit: fit.update(chi2=fit["chi2"] - 10))
    return one, two


def _replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def _change_fit(run: Path, change: Callable[[dict], None]) -> None:
    content = json.loads((run / "summary.json").read_text())
    change(content["fit"])
    (run / "summary.json").write_text(json.dumps(content))


def _change(run: Path, section: str, **entries: object) -> None:
    content = json.loads((run / "summary.json").read_text())
    content[section] = (content[section] or {}) | entries
    (run / "summary.json").write_text(json.dumps(content))


def _observed(film: h5py.File, change: float) -> None:
    film["u_observed"][2, 5] += change


def _content(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_two_models_stand_side_by_side(runs, pdefit_inside, tmp_path):
    _replace(runs[1] / "summary.json", '"verdict_reason": "', '"verdict_reason": "<script>')
    before = _content(tmp_path / "runs")
    code, out, err = pdefit_inside("compare", "runs/one", "runs/two")
    assert (code, err) == (0, "")
    assert _content(tmp_path / "runs") == before
    table = pandas.read_csv("compare/compare.csv")
    assert table["run"].tolist() == ["runs/one", "runs/two"]
    of = [json.loads((run / "summary.json").read_text()) for run in runs]
    assert table["verdict"].tolist() == [one["verdict"] for one in of]
    np.testing.assert_allclose(table["chi2_above_the_first"], [0, -10], rtol=1e-9)
    np.testing.assert_allclose(table["scatter_of_chi2"], np.sqrt(2 * 560))
    assert table["fitted_numbers"].tolist() == [2, 3] and table["solver.name"].tolist() == ["auto", "heun"]
    assert table["D.ci95_high"].tolist() == [one["parameters"]["D"]["ci95"][1] for one in of]
    assert np.isnan(table["K.estimate"][0]) and table["K.estimate"][1] == 2.5 and table["K.unit"][1] == "1/s"
    with h5py.File(runs[0] / "fields.h5") as film:
        left = np.asarray(film["u_observed"])[:7] - np.asarray(film["u_predicted"])[:7]
    np.testing.assert_allclose(table["rms residual of density u"], np.sqrt(np.mean(left**2)))
    # settings that agree are not listed
    assert "seed" not in table and "solver.name" in out and "heun" in out and "K (1/s)" in out
    page = Path("compare/compare.html").read_text()
    assert page.count("data:image/png;base64,") == 1 and "../runs/two/report.html" in page
    assert "<script>" not in page and "http" not in page.split("<main>")[1]


def test_the_model_to_prefer_is_told_with_what_it_rests_on(runs, pdefit_inside):
    of = json.loads((runs[0] / "summary.json").read_text())["likelihood"]
    assert of["unknowns"] == 2 and of["values"] == 560 and of["prior"]["D"] == "uniform in log D from 0.01 to 4"
    _change(runs[1], "likelihood", effective_unknowns=3.0, log_evidence=of["log_evidence"] + 4.5)
    code, out, _ = pdefit_inside("compare", "runs/one", "runs/two")
    assert code == 0 and "held-out frames cannot tell one and two apart" in out
    assert "two is strongly preferred over one, by 9 units of twice the ln of evidence" in out
    table = pandas.read_csv("compare/compare.csv")
    np.testing.assert_allclose(table["AIC_above_the_best"], [8, 0], rtol=1e-9)
    np.testing.assert_allclose(table["BIC_above_the_best"], [10 - np.log(560), 0], rtol=1e-9)
    np.testing.assert_allclose(table["ln_evidence_below_the_best"], [4.5, 0])
    np.testing.assert_allclose(table["Akaike_weight"], np.array([np.exp(-4), 1]) / (1 + np.exp(-4)))
    assert (table["sigma_in_the_criteria"] == "as stated").all()
    assert "Held-out frames cannot tell one and two apart" in Path("compare/compare.html").read_text()


def test_a_better_forecast_comes_before_a_better_fit(runs, pdefit_inside):
    with h5py.File(runs[1] / "fields.h5", "r+") as film:
        film["u_predicted"][7:] += 0.05
    _, out, _ = pdefit_inside("compare", "runs/one", "runs/two")
    assert out.index("one predicts held-out frames best") < out.index("By what they fitted, the data cannot tell")
    table = pandas.read_csv("compare/compare.csv")
    with h5py.File(runs[1] / "fields.h5") as film:
        left = np.asarray(film["u_observed"])[7:] - np.asarray(film["u_predicted"])[7:]
    np.testing.assert_allclose(table["forecast_rms_of_density u"][1], np.sqrt(np.mean(left**2)))


def test_without_evidence_bic_decides_and_the_reason_is_told(runs, pdefit_inside):
    _change(runs[1], "likelihood", log_evidence=None, reason="K has neither a prior nor two bounds")
    for run in runs:
        _replace(run / "summary.json", '"verdict": "', '"verdict": "converged but the model misses structure", "x": "')
        _change(run, "intervals", effective_values=56.0)
    _, out, _ = pdefit_inside("compare", "runs/one", "runs/two")
    assert "None of these explains the data: every run misses structure" in out
    # a tenth of the values, so a tenth of the difference of chi2
    assert "the data cannot tell two and one apart (1 units of BIC, counting that residuals are correlated" in out
    assert "two has no evidence: K has neither a prior nor two bounds" in out


def test_chi2_is_not_subtracted_where_other_values_are_fitted(runs, pdefit_inside):
    with h5py.File(runs[1] / "fields.h5", "r+") as film:
        film["phase"][5:] = 1
    assert pdefit_inside("compare", "runs/one", "runs/two", "out=there/pages")[0] == 0
    table = pandas.read_csv("there/pages/compare.csv")
    assert table["fitted"][0].endswith("0 to 6 s") and table["fitted"][1].endswith("0 to 4 s")
    assert table["chi2_above_the_first"][0] == 0 and np.isnan(table["chi2_above_the_first"][1])
    # of the frames that both fit
    assert table["rms residual of density u"].nunique() == 1


def test_data_that_no_film_shows_are_known_by_their_settings_and_their_truth(runs, pdefit_inside):
    for run in runs:
        with h5py.File(run / "fields.h5", "r+") as film:
            del film["u_observed"]
    assert pdefit_inside("compare", "runs")[0] == 0
    assert "data:image" not in Path("compare/compare.html").read_text()
    with h5py.File(runs[1] / "fields.h5", "r+") as film:
        film["u_true"][3, 3] += 0.01
    assert "u_true has other values" in pdefit_inside("compare", "runs")[2]
    shutil.copy(runs[0] / "fields.h5", runs[1] / "fields.h5")
    _replace(runs[1] / ".hydra" / "config.yaml", "seed: 0", "seed: 1")
    assert "no observed variable is common to both, and they differ in seed" in pdefit_inside("compare", "runs")[2]


def test_other_frames_held_out_are_other_values(runs, pdefit_inside):
    for run, frames in zip(runs, ("[2]", "[3]"), strict=True):
        _replace(run / ".hydra" / "config.yaml", "holdout: null", f"holdout: {frames}")
    assert pdefit_inside("compare", "runs")[0] == 0
    assert np.isnan(pandas.read_csv("compare/compare.csv")["chi2_above_the_first"][1])


def test_a_twin_that_was_made_with_another_step_is_the_same_data(runs, pdefit_inside):
    for run, change in zip(runs, (0.0, 1e-6), strict=True):
        with h5py.File(run / "fields.h5", "r+") as film:
            _observed(film, change)
            # a field that nobody sees
            for kind in ("true", "predicted"):
                film.copy(f"u_{kind}", f"w_{kind}")
            film["w_true"][2, 5] += change
    assert pdefit_inside("compare", "runs/one", "runs/two")[0] == 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda film: _observed(film, 0.01), "u_observed has other values"),
        (lambda film: _observed(film, np.nan), "u_observed has other values"),
        (lambda film: [film[name].attrs.update(units="V") for name in film if name.startswith("u_")], "another unit"),
        (lambda film: film["time"].attrs.update(unit="h"), "another unit"),
        (lambda film: film["x"].write_direct(np.arange(80.0)), "no time and place"),
        (lambda film: film["time"].write_direct(np.arange(13) + 0.5), "no time and place"),
        (lambda film: film.move("u_observed", "v_observed"), "no observed variable"),
    ],
)
def test_other_data_are_refused(runs, pdefit_inside, change, words):
    with h5py.File(runs[1] / "fields.h5", "r+") as film:
        change(film)
    code, _, err = pdefit_inside("compare", "runs/one", "runs/two")
    assert code == 1 and err.count("error:") == 1 and "'runs/two' has other data than 'runs/one'" in err, err
    assert words in err and not Path("compare").exists()


def _lead_elsewhere(film: Path) -> None:
    with h5py.File(film, "r+") as file:
        del file["u_observed"]
        file["u_observed"] = h5py.ExternalLink("../one/fields.h5", "u_observed")


def _unfinished(run: Path) -> None:
    (run / "DONE").rename(run / "INTERRUPTED")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_unfinished, "is not finished (interrupted"),
        (lambda run: _replace(run / "provenance.json", '"fit"', '"simulate"'), "a run of pdefit simulate"),
        (lambda run: (run / "summary.json").write_text("{"), "summary.json' is missing or damaged"),
        (lambda run: _change_fit(run, lambda fit: fit.update(chi2="many")), "summary.json' is damaged: fit.chi2"),
        (lambda run: (run / "plan.json").write_text('{"unknowns": ["D"]}'), "plan.json' is damaged: unknowns"),
        (lambda run: (run / "parameters.csv").unlink(), "parameters.csv"),
        (lambda run: (run / "fields.h5").write_bytes(b"\x89HDF"), "fields.h5"),
        (lambda run: (run / ".hydra" / "config.yaml").write_text("a: ["), "config.yaml"),
        (lambda run: _lead_elsewhere(run / "fields.h5"), "u_observed"),
    ],
)
def test_what_is_no_finished_fit_is_refused(runs, pdefit_inside, change, words):
    change(runs[1])
    code, out, err = pdefit_inside("compare", "runs/one", "runs/two")
    assert code == 1 and err.count("error:") == 1 and words in err and "internal" not in err, err
    assert not Path("compare").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("runs/one",), "2 to 8 different runs, but got 1"),
        (("runs/one", "runs/one/../one"), "2 to 8 different runs"),
        (("runs/one", "runs/two", "out=runs/two/compare"), "lies in the run 'runs/two'"),
        (("runs/one", "nowhere"), "'nowhere' is no directory"),
    ],
)
def test_words_that_are_refused(runs, pdefit_inside, words, said):
    code, _, err = pdefit_inside("compare", *words)
    assert code == 1 and said in err and not Path("compare").exists()


def test_a_sigma_that_nobody_stated_is_no_difference_of_the_values(runs, pdefit_inside):
    for run, factor in zip(runs, (1.0, 1.1), strict=True):
        (stated,) = set(json.loads((runs[0] / "summary.json").read_text())["sigma"]["u"])
        _change(run, "noise", u="not stated")
        _change(run, "sigma", u=[factor * stated])
    code, out, err = pdefit_inside("compare", "runs/one", "runs/two")
    assert (code, err) == (0, "") and "need fits of the same values" not in out
    table = pandas.read_csv("compare/compare.csv")
    assert all("u (sigma not stated)" in x for x in table["fitted"]) and table["chi2_above_the_first"].isna()[1]
    assert table["AIC_above_the_best"].min() == 0
