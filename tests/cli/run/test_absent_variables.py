"""Variables that one of many recordings lacks, and gaps of one variable."""

import numpy as np
import pytest

import pdefit
from pdefit.inverse.objective.compiled import VALUE

EQUATIONS = '''
"""Two lines that share a slope."""
from typing import NamedTuple
import jax
import jax.numpy as jnp
import pdefit

class State(NamedTuple):
    u: jax.Array
    v: jax.Array

class Slopes(pdefit.AbstractSystem):
    time_unit = "s"
    a: jax.Array = pdefit.parameter(positive=False)
    def vector_field(self, t, y, args):
        return State(jnp.full_like(y.u, self.a), jnp.full_like(y.v, -self.a))
    def init(self, key):
        return State(jnp.zeros(()), jnp.zeros(()))
'''
EXPERIMENT = """
# Two lines.
system: {name: slopes, a: 2.0}
data: {path: both.csv, variables: {u: u, v: v}, sigma: {u: 0.5, v: v_sd}, time: t}
dt: 0.5
controls: {a: identity}
"""
TS = np.array([0.0, 1.0, 2.0, 4.0])
FILES = {
    "both.csv": "t,u,v,v_sd\n0,0,0,.1\n1,1,-1,.2\n2,,-2,.3\n4,4,-4,.4\n",
    "without.csv": "t,u\n0,0\n1,1\n2,2\n4,4\n",
    "empty.csv": "t,u,v,v_sd\n0,0,,\n1,1,,\n2,2,,\n4,4,,\n",
    "positive.csv": "t,u,v,v_sd\n0,0,1,.1\n1,1,1,.2\n2,2,2,.3\n4,4,3,.4\n",
    "nothing.csv": "t,w\n0,0\n1,1\n2,2\n4,4\n",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("absent")
    for name, content in {**FILES, "slopes.py": EQUATIONS, "slopes.yaml": EXPERIMENT}.items():
        (folder / name).write_text(content)
    return folder


def many(folder, *names):
    """Recordings that lie in these files."""
    return "{" + ", ".join(f"{name}: {{data: {{path: {folder / name}.csv}}}}" for name in names) + "}"


def load(folder, *names, settings=()):
    """The experiment on recordings in these files."""
    given = [f"recordings={many(folder, *names)}", *settings]
    return pdefit.load_experiment(folder / "slopes.yaml", given, equations=folder / "slopes.py")


def test_a_recording_without_a_column_is_one_without_values_and_counts_what_it_has(folder):
    exp = load(folder, "both", "without", "empty")
    both, *others = (part.observations for part, _ in exp.functional.parts(exp.functional.theta0))
    np.testing.assert_array_equal(both.mask["u"], [True, True, False, True])
    for data in others:
        assert np.all(data.mask["u"]) and not np.any(data.mask["v"]) and np.all(data.sigma["v"] == 1)
    for name in ("without", "empty"):
        assert f"{name}: '{name}.csv' has no value of v, so the fit compares none there" in exp.remarks
    # the guess of the slope is 2, and the truth is 1: every prediction is off by t
    assert exp.functional.observed_values == 3 + 4 + 4 + 4
    lost = (1 + 16) / 0.25 + np.sum((TS / [0.1, 0.2, 0.3, 0.4]) ** 2) + 2 * np.sum(TS**2) / 0.25
    np.testing.assert_allclose(VALUE(exp.functional, exp.functional.theta0), lost / 2, rtol=1e-12)


@pytest.mark.parametrize("sigma", ["poisson", "log_normal", "{constant: auto}"])
def test_noise_that_follows_the_prediction_has_no_size_where_a_variable_is_absent(folder, sigma):
    exp = load(folder, "without", "empty", "positive", settings=[f"data.sigma.v={sigma}"])
    found = np.asarray(exp.functional.observations.sigma["v"])
    assert np.all(np.isfinite(found)) and np.all(found > 0.1)


def test_a_variable_without_any_value_is_refused(folder, pdefit_inside):
    with pytest.raises(pdefit.PdefitError, match="No record has a value of v; correct data.variables"):
        load(folder, "without", "empty")
    with pytest.raises(pdefit.PdefitError, match="nothing: All values of 'u' in 'nothing.csv' are missing"):
        load(folder, "both", "nothing")
    words = ("fit", str(folder / "slopes.py"), str(folder / "slopes.yaml"))
    code, _, err = pdefit_inside(*words, f"members={many(folder, 'without', 'empty')}")
    assert code == 1 and "No record has a value of v" in err
    code, _, err = pdefit_inside(*words, f"data.path={folder / 'empty.csv'}")
    assert code == 1 and "All values of 'v' in 'empty.csv' are missing" in " ".join(err.split())
