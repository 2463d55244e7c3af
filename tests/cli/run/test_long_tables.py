"""Many recordings from one long table, without a list of them."""

import re

import numpy as np
import pytest
import yaml

import pdefit
from pdefit.inverse.objective.compiled import VALUE

EQUATIONS = '''
"""A dose that leaves the body at a constant rate, and what was excreted."""
from typing import NamedTuple
import jax
import jax.numpy as jnp
import pdefit

class State(NamedTuple):
    body: jax.Array
    urine: jax.Array

class Excretion(pdefit.AbstractSystem):
    time_unit = "h"
    k: jax.Array = pdefit.parameter(unit="mg/h")
    dose: float = 1.0
    def vector_field(self, t, y, args):
        return State(jnp.full_like(y.body, -self.k), jnp.full_like(y.urine, self.k))
    def init(self, key):
        return State(jnp.asarray(self.dose), jnp.asarray(0.0))
'''
EXPERIMENT = """
# Doses of two rats.
system: {name: excretion, k: 1.0}
data:
  path: rats.csv
  variables: {body: plasma, urine: excreted}
  long: {value: mg, time: hour, observable: variable, recording: rat}
  system: {dose: dose}
  sigma: {body: sd, urine: sd}
dt: 0.5
controls: {k: {transform: log, scope: experiment}}
"""
# k is 2 mg/h in Ada and 3 mg/h in Bob, of whom no urine was taken
TABLE = """rat,variable,hour,mg,sd,dose
Ada,plasma,0,10,0.1,10
Ada,plasma,2,6,0.1,10
Ada,excreted,1,2,0.2,10
Ada,excreted,2,4,0.2,10
Bob,plasma,1,17,0.1,20
Bob,plasma,0,20,0.1,20
Bob,plasma,3,11,0.1,20
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name, content in {"rats.csv": TABLE, "rats.yaml": EXPERIMENT, "rats.py": EQUATIONS}.items():
        (tmp_path / name).write_text(content)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def load(*settings):
    return pdefit.load_experiment("rats.yaml", settings, equations="rats.py")


def test_one_file_gives_each_recording_its_values_and_its_dose(folder):
    exp = load()
    ada, bob = exp.recordings.values()
    assert [*exp.recordings] == ["Ada", "Bob"] and "Bob: 'rats.csv (recording = Bob)' has no value of urine" in str(
        exp.remarks
    )
    assert [float(one.functional.problem.y0.body) for one in (ada, bob)] == [10, 20]
    assert bob.source.record.ts.tolist() == [0, 1, 3]
    # the guess of both rates is 1 mg/h
    lost = (2 / 0.1) ** 2 + (1 / 0.2) ** 2 + (2 / 0.2) ** 2 + (2 / 0.1) ** 2 + (6 / 0.1) ** 2
    np.testing.assert_allclose(VALUE(exp.functional, exp.functional.theta0), lost / 2, rtol=1e-12)


def test_one_recording_and_members_are_chosen_by_the_name_of_the_axis(folder):
    alone = load("data.select={recording: Ada}")
    assert not alone.recordings and float(alone.functional.problem.y0.body) == 10
    members = pdefit.load_members("rats.yaml", ["members=recording", "controls.k.scope=shared"], equations="rats.py")
    assert members.names == ("Ada", "Bob")
    with pytest.raises(pdefit.PdefitError, match="recordings.a expects data.select={recording: NAME}"):
        load("recordings={a: {}, b: {}}")


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (
            "Bob,plasma,1,17,0.1,20\nBob,plasma,0,20,0.1,20\n",
            "",
            "Recording Bob: 'rats.csv (recording = Bob)' has 1 frames",
        ),
        ("Bob,plasma,1,", "Bob,plasma,3,", "Rows 5 and 7 of 'rats.csv' both hold 'plasma' at hour = 3"),
        ("Bob,plasma,1,17,0.1", "Bob,plasma,1,17,0", "Recording Bob: sigma in 'rats.csv (recording = Bob)'"),
        ("11,0.1,20", "11,0.1,21", "'dose' in 'rats.csv' is 20 in row 5, but 21 later"),
    ],
)
def test_the_data_of_all_are_refused_before_anything_is_built(before, after, told, folder, monkeypatch):
    monkeypatch.setattr("pdefit.cli.run.build.build_single", lambda *_: pytest.fail("a recording was built"))
    (folder / "rats.csv").write_text(TABLE.replace(before, after))
    with pytest.raises(pdefit.PdefitError, match=re.escape(told)):
        load()


def test_a_single_value_is_a_recording_if_its_start_is_known(folder):
    (folder / "rats.csv").write_text(TABLE.replace("Bob,plasma,1,17,0.1,20\nBob,plasma,0,20,0.1,20\n", ""))
    bob = load("times.start=0").recordings["Bob"]
    assert bob.source.record.ts.tolist() == [0, 3]


@pytest.mark.parametrize("first", ["Ada", "Bob"])
def test_check_proposes_the_section_that_is_fitted(first, folder, pdefit_inside):
    """Of Bob, who is looked at if he is the first, nothing was excreted."""
    head, *rows = TABLE.splitlines(keepends=True)
    (folder / "rats.csv").write_text(head + "".join(sorted(rows, key=lambda row: not row.startswith(first))))
    code, out, err = pdefit_inside("check", "rats.csv", "time=hour", "picture=false")
    assert code == 0, err
    assert f"{first} is looked at" in out and "a number of each recording, of dose" in out
    proposed, data = yaml.safe_load(out[out.index("\ndata:") :])["data"], yaml.safe_load(EXPERIMENT)["data"]
    assert proposed.pop("variables") == {"plasma": "plasma", "excreted": "excreted"}
    assert proposed == {"path": "rats.csv", "sigma": {"plasma": "sd", "excreted": "sd"}, "long": data["long"]}
