"""pdefit doctor on the command line: exit code, sentence and doctor.json of experiments and runs."""

import json
import shutil

import jax.numpy as jnp
import pytest
from pdefit_reaction import FisherKPP

import pdefit
from pdefit.cli import main

JOB = ("experiment=reaction/fisher_front", "system.grid.shape=[80]", "times.count=13", "max_iterations=3")


@pytest.fixture
def sick(monkeypatch):
    """Equations that fail where the growth rate is far from the truth, which the twin is made with."""
    healthy = FisherKPP.vector_field

    def vector_field(self, t, y, args):
        rate = healthy(self, t, y, args)
        late = (self.r > 1.5) & (t > 1.0)
        return rate._replace(u=rate.u + jnp.where(late, jnp.log(y.u - 2), 0.0))

    monkeypatch.setattr(FisherKPP, "vector_field", vector_field)


def read(folder):
    return json.loads((folder / "doctor.json").read_text())


def test_a_healthy_experiment_and_a_run(fitted, pdefit_inside, tmp_path):
    code, out, err = pdefit_inside("doctor", *JOB, "hydra.run.dir=asked")
    assert code == 0 and "Healthy: J = " in " ".join(out.split()), err
    found = read(tmp_path / "asked")
    assert found["healthy"] and found["kind"] == "healthy" and found["gradient_norm"] > 0
    assert found["largest_value"]["field"] == "u" and (tmp_path / "asked" / "DONE").exists()

    shutil.copytree(fitted.run, tmp_path / "run")
    code, out, err = pdefit_inside("doctor", "run")
    assert code == 0, err
    again, summary = read(tmp_path / "run"), json.loads((tmp_path / "run" / "summary.json").read_text())
    assert again["healthy"] and again["loss"] == pytest.approx(summary["loss_final"], rel=1e-9)


def test_a_sick_experiment_is_told_in_one_sentence(pdefit_inside, tmp_path, sick):
    # another grid: programs that were compiled for the equations as they are would be used again
    job = (*JOB, "system.grid.shape=[96]", "controls.r.guess=2.0")
    code, out, err = pdefit_inside("doctor", *job, "hydra.run.dir=asked")
    words = " ".join(err.split())
    assert code == 1 and err.count("error:") == 1 and "Traceback" not in err
    assert "u becomes NaN at x = " in words and "log in run/test_doctor.py" in words and "safe_div" in words
    found = read(tmp_path / "asked")
    assert not found["healthy"] and found["kind"] == "state" and found["field"] == "u"
    assert 1.0 < found["time"] < 1.5 and found["line"]["file"] == __file__ and "jnp.log" in found["line"]["text"]
    assert (tmp_path / "asked" / "FAILED").read_text().strip() == found["sentence"]


def test_what_is_no_run_cannot_be_examined(pdefit_inside):
    code, _, err = pdefit_inside("doctor", "nowhere")
    assert code == 1 and "not the directory of a run" in err


def test_the_verb_is_told_in_the_usage(pdefit_inside):
    assert "doctor experiment=NAME" in main.USAGE and callable(pdefit.doctor)
    code, out, _ = pdefit_inside("--help")
    assert code == 0 and "doctor experiment=NAME" in out
