"""A camera in a configuration."""

import h5py
import numpy as np
import pytest

import pdefit
from pdefit.cli.run.build import build_experiment
from pdefit.cli.run.fields import write_film

TIME, X = np.arange(5.0), np.arange(20.0) + 0.5
U = 0.5 + 0.3 * np.sin(0.2 * X - TIME[:, None])
FRONT = ("~twin", "noise=0", "times.count=null", "system.grid={shape: [20], extent: [20.0], origin: [0.0]}",
         "times.fit_until=null", "+data.variables.u=u", "+data.sigma.u=auto")  # fmt: skip
CAMERA = "observe={name: camera, fields: u, gain: 100.0, offset: 20.0, saturation: 95.0, exposure: 0.1, blur: 0.5, \
knots: [0.0, 4.0], bleaching: [0.0, -0.1]}"


@pytest.fixture
def path(tmp_path):
    counts = 20.0 + 100.0 * U * np.exp(-0.025 * TIME[:, None])
    with h5py.File(tmp_path / "u.h5", "w") as file:
        file["u"], file["time"], file["x"] = counts, TIME, X
    return tmp_path / "u.h5"


def test_saturated_values_are_missing_everywhere_and_a_guess_is_a_field(path):
    unknown = (
        "+controls.observe={gain: {transform: log}, blur: {transform: log}, "
        "bleaching: {transform: identity, prior: {normal: [0.0, 0.2]}}}"
    )
    made = pdefit.load_experiment(
        "reaction/fisher_front",
        [*FRONT, f"+data.path={path}", CAMERA, unknown, "+controls.y0.u={guess: data}"],
    )
    lost = 20.0 + 100.0 * U * np.exp(-0.025 * TIME[:, None]) >= 95.0
    assert lost.any()
    for record in (made.source.record, made.functional.observations):
        np.testing.assert_array_equal(~np.asarray(record.mask["u"]), lost)
    assert f"{lost.sum()} values of u are saturated and count as missing" in made.remarks
    guess = np.asarray(made.functional.problem.y0.u)
    np.testing.assert_allclose(guess[~lost[0]], U[0][~lost[0]], rtol=1e-6)
    controls = made.functional.controls
    assert {c.path: c.unit for c in controls.items if c.path != "y0.u"} == {
        "D": "mm^2/s",
        "r": "1/s",
        "observe.gain": "1",
        "observe.blur": "mm",
        "observe.bleaching": "1",
    }


def test_a_film_shows_counts_as_they_were_observed(path, compose, tmp_path):
    settings = compose("experiment=reaction/fisher_front", *FRONT, f"+data.path={path}", f"++{CAMERA}", "dtype=float32")
    exp = build_experiment(settings)
    found = pdefit.fit(exp.functional, max_iterations=1)
    write_film(exp, found, settings.store, tmp_path / "fields.h5", "front")
    with h5py.File(tmp_path / "fields.h5") as film:
        shown = film["u_observed"][()]
        assert film["u_state_predicted"].shape == shown.shape
    counts = 20.0 + 100.0 * U * np.exp(-0.025 * TIME[:, None])
    np.testing.assert_array_equal(np.isnan(shown), counts >= 95.0)
    np.testing.assert_allclose(shown[counts < 95.0], counts[counts < 95.0], rtol=1e-5)


def test_a_twin_is_seen_by_the_camera(tmp_path):
    camera = "observe={name: camera, gain: 100.0, exposure: 0.1, saturation: 90.0}"
    small = ("system.grid.shape=[20]", "times.count=5", "times.fit_until=null")
    made = pdefit.load_experiment("reaction/fisher_front", [*small, camera])
    record = made.source.record
    assert 50 < float(np.max(record.values["u"])) < 90 and not np.all(record.mask["u"])
