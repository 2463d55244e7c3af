"""Certificates on the command line: of an experiment, of a run, and what a failed one does to a fit."""

import json
import shutil

import pytest

from pdefit.cli.run import certify as certificates
from pdefit.inverse.certify.certificate import Certificate, Check

JOB = ("experiment=reaction/fisher_front", "system.grid.shape=[80]", "times.count=13", "max_iterations=3")


def read(path):
    return json.loads(path.read_text())


def test_an_experiment_and_a_run_are_certified(fitted, pdefit_inside, tmp_path):
    code, out, err = pdefit_inside("certify", *JOB, "hydra.run.dir=guess")
    assert code == 0 and "gradient against tangent" in out, err
    assert read(tmp_path / "guess" / "certificate.json")["start"]["passed"]
    shutil.copytree(fitted.run, tmp_path / "run")
    out = " ".join(fitted.out.split())
    assert "(±" in out and "intervals in brackets are not to be trusted: the fit has not converged" in out
    made = read(tmp_path / "run" / "certificate.json")
    assert made["start"]["passed"] and made["end"]["passed"]
    summary = read(tmp_path / "run" / "summary.json")
    assert summary["certificate"]["passed"] and summary["certificate"]["scope"]["of"] == 7

    code, out, err = pdefit_inside("certify", "run")
    assert code == 0 and "differ from" not in out and "hash of" not in out, out + err
    again = read(tmp_path / "run" / "certificate_again.json")
    assert all(again["same"].values())
    # of normal equations the run tested those of its fit, and now they are evaluated anew, with shifted data
    anew = [(c["name"], c["passed"]) for c in again["end"]["checks"]], [c["name"] for c in made["end"]["checks"]]
    assert anew[0] == [(name, True) for name in anew[1]]
    alike = [[c["error"] for c in x["end"]["checks"] if "differences" in c["name"]] for x in (again, made)]
    assert alike[0] == alike[1] and alike[0]
    assert read(tmp_path / "run" / "certificate.json") == made

    made["end"]["hashes"]["equations"] = "0" * 64
    (tmp_path / "run" / "certificate.json").write_text(json.dumps(made))
    code, out, err = pdefit_inside("certify", "run")
    assert code == 1 and "The equations are not those of 'run'; put them back" in err


@pytest.mark.parametrize("arguments", [("nowhere",), ("guess", "seed=3")])
def test_what_cannot_be_certified_again(pdefit_inside, arguments):
    code, out, err = pdefit_inside("certify", *arguments)
    assert code == 1 and err.count("error:") == 1 and "not the directory of a run" in err


def test_a_failed_certificate_stops_a_fit_unless_told_otherwise(pdefit_inside, tmp_path, monkeypatch):
    check = Check("D: tangent against differences", 0.2, 1e-6, False, "use a smooth switch")
    hashes = dict.fromkeys(("equations", "data", "flags"), "")
    found = Certificate((check,), {"observations": 7, "of": 7, "forward_solves": 9.0, "budget": 20.0}, hashes, 0.0)
    monkeypatch.setattr(certificates, "certify", lambda *_, **__: found)
    code, out, err = pdefit_inside("fit", *JOB, "hydra.run.dir=stopped")
    assert code == 1 and err.count("error:") == 1
    assert "fails its certificate at the guess: D: tangent against differences: 2.0e-01 (limit 1.0e-06)" in err
    assert "use a smooth switch" in err and "certificate=warn" in err
    assert not (tmp_path / "stopped" / "history.h5").exists() and (tmp_path / "stopped" / "FAILED").exists()

    code, out, err = pdefit_inside("fit", *JOB, "certificate=warn", "render=false", "hydra.run.dir=warned")
    assert code == 0, err
    assert not read(tmp_path / "warned" / "summary.json")["certificate"]["passed"]
    assert out.count("fails its certificate") == 2

    code, out, err = pdefit_inside("certify", *JOB, "hydra.run.dir=certified")
    assert code == 1 and "FAILED" in out and "fails its certificate" in err


def test_each_end_is_certified_for_the_stage_that_minimises_there(pdefit_inside, monkeypatch):
    """An optimizer for few unknowns, which prepares, is not asked of the fields of the last stage."""
    asked = []
    check = Check("all", 0.0, 1e-6, True)
    hashes = dict.fromkeys(("equations", "data", "flags"), "")
    found = Certificate((check,), {"observations": 7, "of": 7, "forward_solves": 9.0, "budget": 20.0}, hashes, 0.0)

    def certify(*_, optimizers, **__):
        asked.extend(type(o).__name__ for o in optimizers)
        return found

    monkeypatch.setattr(certificates, "certify", certify)
    stages = (
        "~stages",
        "+stages={first: {optimizer: {name: levenberg_marquardt}, max_iterations: 1}, "
        "last: {optimizer: {name: lbfgs}, max_iterations: 1}}",
    )
    code, _, err = pdefit_inside("fit", *JOB, *stages, "render=false", "hydra.run.dir=two")
    assert code == 0, err
    assert asked == ["LevenbergMarquardt", "LBFGS"]


def test_a_note_that_several_checks_share_is_said_once():
    checks = [
        Check(
            f"{path}: tangent against differences", 1e-9, 1e-6, True, note="beside a kink", detail={"finding": "right"}
        )
        for path in ("all controls", "flux")
    ]
    found = Certificate(tuple(checks), {"observations": 5, "of": 5}, {}, 0.0)
    assert certificates._praise(found, "here") == "gradient certified here; all controls, flux: beside a kink"
