"""Events of a configuration in a simulation and in the truth of a twin."""

import h5py
import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console

import pdefit
from pdefit._util.errors import PdefitError
from pdefit.cli.config.settings import Job
from pdefit.cli.run.build import build_experiment
from pdefit.cli.run.from_data import about_events
from pdefit.cli.run.simulate import run_simulate

PREY = ("experiment=populations/lotka_volterra", "twin=self", "render=false", "dt=0.25", "solver=heun", "times.stop=3",
        "times.count=4", "times.fit_until=null", "~controls.y0", "stages=levenberg_marquardt", "noise=0.01")  # fmt: skip
EXTINCT = "events=[{time: 1, state: prey, set: 0}]"


class Body(pdefit.AbstractSystem):
    """One pool that is emptied."""

    time_unit = "h"

    def vector_field(self, t, y, args):
        return -y

    def init(self, key):
        return jnp.zeros(())


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_a_simulation_shows_the_state_before_and_after(compose, tmp_path):
    run_simulate(Job(compose(*PREY, EXTINCT), tmp_path, "x", Console(quiet=True)))
    with h5py.File(tmp_path / "fields.h5") as film:
        prey = np.asarray(film["prey_predicted"])
    assert np.all(prey[:2] > 0) and np.all(prey[2:] == 0)


def test_a_twin_has_the_events_of_its_model(compose):
    functional = build_experiment(compose(*PREY, EXTINCT)).functional
    prey = np.asarray(functional.observations.values["prey"])
    assert np.all(prey[:2] > 0.1) and np.all(np.abs(prey[2:]) < 0.1)
    assert list(functional.problem.events.time) == [1.0]


def test_a_run_tells_how_many_events_there_are():
    ts = np.array([0.0, 30.0, 48.0])
    system, events = Body(), [pdefit.Event(0.0, "y", amount=1.0, every=24.0, count=4)]
    problem = pdefit.Problem(system, jnp.zeros(()), events=events)
    told = about_events(problem, pdefit.Observations.build(ts, {"y": ts}))
    assert told == ("events: 4 of y, from t = 0 h to 72 h, 2 not before the last frame; steps end there",)
    assert about_events(pdefit.Problem(system, jnp.zeros(())), pdefit.Observations.build(ts, {"y": ts})) == ()


def test_an_event_of_no_field_is_refused_before_anything_is_compiled(compose):
    with pytest.raises(PdefitError, match="No field .events. is called 'wolf'; there are: predator, prey"):
        build_experiment(compose(*PREY, "events=[{time: 1, state: wolf, amount: 1}]"))
    with pytest.raises(PdefitError, match="The trajectory begins at t = 0, after the event at -1"):
        build_experiment(compose(*PREY, "events=[{time: -1, state: prey, amount: 1}]"))
