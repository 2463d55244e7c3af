"""Many fits of one command: members, starts and repetitions, with their files."""

import csv
import json

import numpy as np
import pytest
import xarray
from problems import VALUE
from scipy.stats import norm

import pdefit
from pdefit._util.errors import PdefitError
from pdefit.cli.run.build import build_experiment
from pdefit.cli.run.build_members import build_members
from pdefit.output.pictures.figures import draw_all
from pdefit.output.pictures.report import write_report

PREY = (
    "experiment=populations/lotka_volterra_500",
    "starts.count=5",
    "~controls.c1",
    "~controls.c2",
    "~stages.half",
    "dt=0.25",
)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Four populations with 2 % noise, one of which follows no such equation."""
    path, random, ts = tmp_path_factory.mktemp("data") / "table.h5", np.random.default_rng(0), np.linspace(0.0, 8.0, 33)
    rates, found = random.uniform(0.4, 0.9, (4, 4)), []
    for a, b, g, d in rates:
        y, each = np.array([0.5, 0.4]), [[0.5, 0.4]]
        for _ in range(32 * 20):
            y = y + 0.0125 * np.array([y[0] * (a - b * y[1]), y[1] * (d * y[0] - g)])
            each.append(y)
        found.append(np.array(each)[::20])
    seen = np.array(found) + 0.01 * random.standard_normal((4, 33, 2))
    seen[3, 16:] += 0.5
    values = {n: (("system", "time"), seen[:, :, k]) for k, n in enumerate(("prey", "predator"))}
    names = {"system": ["a", "b", "c", "odd"], "time": ts}
    xarray.Dataset(values, names).to_netcdf(path, engine="h5netcdf")
    return path


def _words(table, *more):
    return (*PREY, f"data.path={table}", "data.sigma={prey: 0.01, predator: 0.01}", *more)


def test_members_of_a_file_are_fitted_each_by_itself(pdefit_inside, compose, table, tmp_path):
    run = tmp_path / "run"
    derived = 'derive={period: "2 / sqrt(alpha * gamma)", rate: alpha}'
    code, out, err = pdefit_inside("fit", *_words(table, f"hydra.run.dir={run}", "render=false", derived))
    assert code == 0, err
    told = " ".join(out.split())
    assert "4 members with 6 unknowns each" in told and "3 of 4 fitted to the noise" in told
    with open(run / "members.csv", newline="") as file:
        rows = {row["member"]: row for row in csv.DictReader(file)}
    assert rows["odd"]["verdict"] != "fitted to the noise" and "(odd)" in told
    for row in rows.values():
        value, (alpha, gamma) = float(row["period"]), (float(row[name]) for name in ("alpha", "gamma"))
        assert value == pytest.approx(2 / np.sqrt(alpha * gamma), rel=1e-14)
        for end in ("low", "high"):
            assert float(row[f"rate ci95_{end}"]) == pytest.approx(float(row[f"alpha ci95_{end}"]), rel=1e-9)
    assert "1 of 4 members are fitted from 4 others" in told and {rows[name]["start"] for name in "abc"} == {"0"}
    with xarray.open_dataset(run / "members.h5", engine="h5netcdf") as kept:
        assert kept.prey_predicted.dims == ("member", "time") and kept.alpha.shape == kept.period_low.shape == (4,)
        assert np.all((kept.alpha_low < kept.alpha)[:3]) and kept.verdict.values[0] == "fitted to the noise"
        rms = np.sqrt(np.mean((kept.prey_predicted - kept.prey_observed)[:3] ** 2))
        assert 0.008 < rms < 0.012
        # sigma is as stated
        likely = [
            norm.logpdf(kept[f"{n}_observed"], kept[f"{n}_predicted"], 0.01).sum(axis=1) for n in ("prey", "predator")
        ]
        np.testing.assert_allclose([float(row["log_likelihood"]) for row in rows.values()], sum(likely), rtol=1e-9)
    summary = json.loads((run / "summary.json").read_text())
    assert summary["members"]["count"] == 4 and summary["certificate"]["passed"]
    exp = build_members(compose(*_words(table)))
    found = exp.fit()
    assert [row["verdict"] for row in rows.values()] == [one.verdict.word for one in pdefit.judge(found)]
    assert [one.verdict.word for one in pdefit.judge(found)] == [row["verdict"] for row in rows.values()]
    drawn = draw_all(run)
    assert not drawn.notes and {f.stem for f in drawn.files} == {"members", "records"}


def test_a_member_is_the_experiment_of_its_recording(compose, table):
    exp = build_members(compose(*_words(table)))
    assert exp.names == ("a", "b", "c", "odd") and np.isnan(exp.truth).all()
    alone = build_experiment(compose(*_words(table, "members=null", "+data.select={system: b}"))).first
    same = exp.members.member(1)
    assert float(VALUE(same, same.theta0)) == pytest.approx(float(VALUE(alone, alone.theta0)), rel=1e-12)
    np.testing.assert_array_equal(same.theta0, alone.theta0)


def test_members_that_do_not_fit_into_memory_are_refused_before_the_second_is_built(compose, table, monkeypatch):
    monkeypatch.setattr("pdefit.cli.run.build_members._COPIES", 2**60)
    monkeypatch.setattr("pdefit.cli.run.build_members._another", None)
    with pytest.raises(PdefitError, match="4 members of .* each take .* of memory; fit them in several runs"):
        build_members(compose(*_words(table)))


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("recordings=system",), "set one of them to null"),
        (("members=3",), "members expects a list of files"),
        (("members=null", "starts=sobol", "starts.count=0"), "1 or more"),
        (("members=null", "starts=sobol", "starts.by=holdout"), "set holdout=0.1"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_sentence(compose, table, words, reason):
    with pytest.raises(PdefitError, match=reason):
        compose(*_words(table, *words))


def test_starts_and_repetitions_of_one_fit(pdefit_inside, tmp_path):
    front = (
        "experiment=reaction/fisher_front",
        "twin=self",
        "system.grid.shape=[80]",
        "times.count=13",
        "times.fit_until=null",
    )
    run, many = tmp_path / "run", ("starts=sobol", "starts.count=6", "starts.keep=2", "starts.factor=3")
    repeated = ("uncertainty=bootstrap", "uncertainty.count=8")
    code, out, err = pdefit_inside("fit", *front, *many, *repeated, "render=false", f"hydra.run.dir={run}")
    assert code == 0, err
    summary = json.loads((run / "summary.json").read_text())
    assert summary["starts"]["count"] == 6 and summary["starts"]["dropped"] == 4 and summary["starts"]["optima"] == 1
    assert "best of 6 starts, 4 of them dropped early, reached by 2 of the 2" in summary["verdict_reason"]
    verdict = pdefit.judge(pdefit.load_experiment("reaction/fisher_front", [*front[1:], *many]).fit()).verdict
    assert (verdict.word, verdict.reason) == (summary["verdict"], summary["verdict_reason"])
    assert summary["bootstrap"]["repetitions"] == 8
    with open(run / "bootstrap.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["control"] for row in rows] == ["D", "r"] and float(rows[0]["ci95_low"]) < float(rows[0]["ci95_high"])
    assert {"starts.csv", "starts"} <= {f.name for f in run.iterdir()}
    assert (tmp := draw_all(run)).files and "starts" in {f.stem for f in tmp.files}
    # profiles of the same run, which goes on from what it has
    code, out, err = pdefit_inside("profile", str(run), "D")
    assert code == 0 and "D" in out and "matrix" in out, err
    drawn = (run / "figures" / "profiles.png").read_bytes()
    with open(run / "profiles.csv", newline="") as file:
        points = list(csv.DictReader(file))
    assert {p["control"] for p in points} == {"D"} and len(points) > 6
    (one,) = json.loads((run / "profiles.json").read_text())["profiles"]
    assert one["ends"] == ["limit", "limit"] and one["low"] == pytest.approx(one["matrix_low"], rel=0.01)
    code, _, err = pdefit_inside("profile", str(run), "D")
    assert code == 0 and (run / "figures" / "profiles.png").read_bytes() == drawn, err
    assert "95 % intervals by profiles" in write_report(run).read_text()
    # both together
    code, out, err = pdefit_inside("profile", str(run), "D,r")
    assert (
        code == 0
        and "joint_profiles.csv" in out.replace("\n", "")
        and (run / "figures" / "joint_profiles.png").exists()
    ), err
    with open(run / "joint_profiles.csv", newline="") as file:
        cells = list(csv.DictReader(file))
    assert len(cells) == 225 and min(float(c["rise"]) for c in cells) == pytest.approx(0.0, abs=0.01)
    code, _, err = pdefit_inside("profile", str(run), "E")
    assert code == 1 and "No number is called 'E'" in err
