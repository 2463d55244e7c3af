"""Frames of a twin, and those after them that may be further apart."""

import numpy as np
import pytest

from pdefit._util.errors import PdefitError
from pdefit.cli.config._reader import read_section
from pdefit.cli.config.sources import Times
from pdefit.cli.run import from_twin as module
from pdefit.cli.run.build import build_experiment
from pdefit.cli.run.source import fitted_frames, frame_times
from pdefit.inverse.fit.unstable_steps import share_of_limit
from pdefit.inverse.objective.compiled import VALUE

FRONT = ("experiment=reaction/fisher_front", "twin=self", "system.grid.shape=[80]", "dt=0.05")


def times(**changes):
    return read_section(
        Times, {"start": 0.0, "stop": 2.0, "count": 5, "fit_until": None, "forecast": None, **changes}, "times"
    )


def test_without_a_forecast_all_frames_are_fitted():
    np.testing.assert_array_equal(frame_times(times()), [0.0, 0.5, 1.0, 1.5, 2.0])
    assert times().last_fitted is None and times(fit_until=1.0).last_fitted == 1.0


def test_a_time_that_was_typed_is_that_of_its_frame():
    """0.1 * 19 is 1.9000000000000001."""
    assert fitted_frames(times(fit_until=1.9), 0.1 * np.arange(1, 25)) == 19


def test_frames_of_the_forecast_follow_and_are_not_fitted():
    cfg = times(forecast={"stop": 8.0, "count": 3})
    np.testing.assert_array_equal(frame_times(cfg), [0.0, 0.5, 1.0, 1.5, 2.0, 4.0, 6.0, 8.0])
    assert cfg.last_fitted == 2.0
    assert times(fit_until=1.0, forecast={"stop": 8.0, "count": 3}).last_fitted == 1.0
    assert frame_times(times(forecast={"stop": 8.0, "count": 1}))[-2:].tolist() == [2.0, 8.0]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"forecast": {"stop": 2.0, "count": 3}}, "a stop after times.stop = 2"),
        ({"forecast": {"stop": 1.0, "count": 3}}, "a stop after times.stop = 2"),
        ({"forecast": {"stop": 4.0, "count": 10**15}}, "frames"),
        ({"stop": 0.0}, "start < stop"),
        ({"start": None}, "times expects start < stop"),
    ],
)
def test_times_that_cannot_be(changes, words):
    with pytest.raises(PdefitError) as error:
        frame_times(times(**changes))
    assert words in str(error.value) and "\n" not in str(error.value)


def test_a_twin_goes_on_into_its_forecast(compose):
    exp = build_experiment(
        compose(*FRONT, "times={start: 0, stop: 2, count: 5, fit_until: null, forecast: {stop: 6, count: 2}}")
    )
    assert exp.source.record.ts.tolist() == [0.0, 0.5, 1.0, 1.5, 2.0, 4.0, 6.0] and exp.fitted == 5
    assert exp.functional.observations.ts[-1] == 2.0 and exp.source.true_states.u.shape == (7, 80)


def test_of_data_from_a_file_frames_are_there_already(compose):
    with pytest.raises(PdefitError, match=r"for data from a file set times\.fit_until"):
        build_experiment(compose("experiment=particles/solar_system", "times.forecast={stop: 30000, count: 3}"))


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (("twin=independent", "dt=0.05"), 0.025),
        (("twin=independent", "dt=0.05", "twin.dt=0.01"), 0.01),
        (("twin=self", "dt=0.05"), 0.05),
        (("twin=self", "dt=0.05", "twin.dt=null"), 0.025),
        (("twin=self", "dt=0.05", "twin.dt=0.01"), 0.01),
    ],
)
def test_the_twins_own_step(compose, monkeypatch, overrides, expected):
    seen, real = [], module.kept_film

    def watched(twin, *arguments):
        seen.append(twin.dt)
        return real(twin, *arguments)

    monkeypatch.setattr(module, "kept_film", watched)
    exp = build_experiment(
        compose("experiment=reaction/fisher_front", "system.grid.shape=[80]", "times.count=5", *overrides)
    )
    assert seen == [expected] and exp.functional.dt == 0.05


def test_without_any_step_a_twin_of_itself_takes_the_models(compose):
    low = ("controls.D.guess=0.2", "controls.r.guess=0.2")
    exp = build_experiment(
        compose("experiment=reaction/fisher_front", "twin=self", "system.grid.shape=[80]", "noise=0.0", *low)
    )
    # the truth is reproduced to round-off, by steps that suit it too and that a fit may choose again
    truth = exp.functional.controls.theta(exp.truth)
    assert float(VALUE(exp.functional, truth)) < 1e-20
    assert exp.functional.asked_dt is None and share_of_limit(exp.functional, truth) < 0.6
