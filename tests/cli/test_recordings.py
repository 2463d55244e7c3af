"""Many recordings in a configuration: what may differ, and a run of them from its start to its report."""

import csv
import json
from pathlib import Path

import h5py
import numpy as np
import pytest

import pdefit
from pdefit._util.errors import PdefitError

FRONT = ("experiment=reaction/fisher_front", "system.grid.shape=[80]", "times.count=13", "holdout=0.2")
# two doses of a drug, and one dish that was watched for a shorter time
DISHES = "recordings={low: {twin: {system: {r: 0.7}}}, high: {twin: {system: {r: 1.6}}, times: {count: 10, stop: 9}}}"
OWN = "+controls.r.scope=experiment"


def _rows(path):
    return list(csv.DictReader(path.read_text().splitlines()))


def test_a_run_of_two_recordings_has_files_of_each(pdefit_inside, tmp_path):
    code, _, err = pdefit_inside("fit", *FRONT, DISHES, OWN, "render=false", "hydra.run.dir=run")
    assert code == 0, err
    run = tmp_path / "run"
    summary = json.loads((run / "summary.json").read_text())
    whole = pdefit.load_experiment("reaction/fisher_front", [*FRONT[1:], DISHES, OWN]).fit()
    estimates = {row["control"]: float(row["estimate"]) for row in _rows(run / "parameters.csv")}
    values = whole.functional.controls.values(whole.theta)
    assert {path: float(x) for path, x in values.items()} == estimates
    for control, truth in {"D": 1.0, "r[0]": 0.7, "r[1]": 1.6}.items():
        np.testing.assert_allclose(estimates[control], truth, rtol=0.08)
        assert summary["parameters"][control]["truth"] == truth
    # each recording has files of its own, with the frames that it has
    assert [row["recording"] for row in _rows(run / "recordings.csv")] == ["low", "high"]
    assert {name: one["frames"] for name, one in summary["recordings"].items()} == {"low": 7, "high": 7}
    for name, frames in {"low": 13, "high": 10}.items():
        with h5py.File(run / "recordings" / name / "fields.h5") as file:
            assert file["u_predicted"].shape == (frames, 80)
        forecast = json.loads((run / "recordings" / name / "summary.json").read_text())["forecast"]
        assert forecast == summary["recordings"][name]["forecast"] and forecast["relative_l2_at_end"] < 0.1
    assert summary["verdict"] == "fitted to the noise" and "2 recordings" in summary["verdict_reason"]
    verdict = pdefit.judge(whole).verdict
    told = (verdict.word, verdict.reason, verdict.next)
    assert told == (summary["verdict"], summary["verdict_reason"], summary["evidence"]["next"])
    for key in ("values", "log_likelihood"):
        assert summary["fit"][key] == sum(one["fit"][key] for one in summary["recordings"].values())
    assert not (run / "fields.h5").exists() and "Traceback" not in err
    code, out, err = pdefit_inside("report", "run")
    assert code == 0 and "recordings/low/report.html" in out
    assert 'href="recordings/high/report.html"' in (run / "report.html").read_text()
    assert "Not there" not in (run / "report.html").read_text()


def test_draws_of_noise_differ_between_recordings_and_shared_guesses_do_not():
    exp = pdefit.load_experiment("reaction/fisher_front", [*FRONT[1:], "recordings={a: {}, b: {}}", OWN])
    (a, b), guess = exp.recordings.values(), exp.functional.controls.values(exp.functional.theta0)
    assert not np.any(np.asarray(a.source.record.values["u"]) == np.asarray(b.source.record.values["u"]))
    assert float(guess["r[0]"]) != float(guess["r[1]"]) and [*guess] == ["D", "r[0]", "r[1]"]
    assert "2 recordings" in repr(exp)


def test_windows_of_one_file_are_recordings():
    times = "recordings={early: {times: {stop: 4, fit_until: 3}}, late: {times: {start: 9, stop: 14, fit_until: 12}}}"
    exp = pdefit.load_experiment("classics/lorenz", [times, "stages=levenberg_marquardt"])
    assert any("late begins when early has ended" in remark for remark in exp.remarks)
    found = exp.fit()
    assert found.converged
    values = found.functional.controls.values(found.theta)
    np.testing.assert_allclose([float(values[n]) for n in ("sigma", "rho", "beta")], [10, 28, 8 / 3], rtol=0.01)
    assert [part.functional.layout.segments for part in found.recordings] == [3, 3]


def test_flows_on_a_sphere_share_their_viscosity_and_not_their_rotation():
    times = "recordings={early: {times: {stop: 1.0, fit_until: 0.8}}, late: {times: {start: 1.0, fit_until: 1.8}}}"
    own = ["+controls.rotation.scope=experiment", "initial=data", "stages=levenberg_marquardt"]
    found = pdefit.load_experiment("sphere/rossby_haurwitz", [times, *own]).fit()
    values = found.functional.controls.values(found.theta)
    np.testing.assert_allclose([float(values[f"rotation[{e}]"]) for e in (0, 1)], 3.0, rtol=0.05)


def test_recordings_lie_along_an_axis_of_a_file(tmp_path):
    exp = pdefit.load_experiment("reaction/fisher_front", [*FRONT[1:], "recordings={a: {}, b: {}}"])
    path = tmp_path / "dishes.h5"
    with h5py.File(path, "w") as file:
        one = next(iter(exp.recordings.values()))
        file["time"], file["dish"] = one.source.record.ts, np.array([b"left", b"right"])
        file["u"] = np.stack([np.asarray(e.source.record.values["u"]) for e in exp.recordings.values()])
        for name, axis in {"dish": 0, "time": 1}.items():
            file[name].make_scale(name)
            file["u"].dims[axis].attach_scale(file[name])
        file["u"].dims[2].label = "x"
    data = [f"data={{path: {path}, variables: {{u: u}}, sigma: auto}}", "~twin", "noise=0", "recordings=dish"]
    read = pdefit.load_experiment("reaction/fisher_front", ["times.fit_until=6", "system.grid.shape=[80]", *data])
    assert [*read.recordings] == ["left", "right"]
    for one, other in zip(exp.recordings.values(), read.recordings.values(), strict=True):
        np.testing.assert_array_equal(one.source.record.values["u"], other.source.record.values["u"])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("recordings=dish",), "data.path"),
        (("recordings=3",), "a list of files"),
        (("recordings={}",), "a list of files"),
        (("recordings=[a/x.h5,b/x.h5]",), "different names"),
        (("recordings={a b: {}}",), "name of letters"),
        (("recordings={a: 3}",), "recordings.a"),
        (("recordings={a: {solver: rk4}}",), "section of recordings.a"),
        (("gauge={r: sum}",), "there is one"),
        (("recordings={a: {}}", "gauge={r: product}"), "gauge.r"),
        (("recordings={a: {}}", "gauge=r"), "gauge expects"),
    ],
)
def test_recordings_that_make_no_sense(compose, words, told):
    with pytest.raises(PdefitError, match=told):
        compose(FRONT[0], *words)


def test_an_error_names_its_recording():
    with pytest.raises(PdefitError, match="Recording b: .*times"):
        pdefit.load_experiment("reaction/fisher_front", [*FRONT[1:], "recordings={a: {}, b: {times: {fit_until: 0}}}"])
    with pytest.raises(PdefitError, match="works on one recording"):
        exp = pdefit.load_experiment("reaction/fisher_front", [*FRONT[1:], "recordings={a: {}}"])
        exp.alone("sensitivity")


def test_files_of_a_list_are_named_after_themselves(compose):
    words = ("data={path: null, variables: {u: u}}", "~twin", "noise=0", "recordings=[x/left.h5,y/right.h5]")
    found = compose("experiment=reaction/fisher_front", *words).recordings
    assert {name: one.data.path for name, one in found.items()} == {"left": "x/left.h5", "right": "y/right.h5"}
    assert Path("x/left.h5").stem in found
