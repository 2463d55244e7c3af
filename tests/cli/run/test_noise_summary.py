import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest

from pdefit._util.errors import PdefitError
from pdefit.cli.run.build import build_experiment
from pdefit.data.noise import describe

FRONT = ("experiment=reaction/fisher_front", "times.start=null", "times.stop=null", "times.count=null")


@pytest.fixture(scope="module")
def made(compose, tmp_path_factory) -> Path:
    """The record of the shipped experiment as a laboratory's file, with the truth's noise beside it."""
    path = tmp_path_factory.mktemp("noise") / "film.h5"
    record = build_experiment(compose("experiment=reaction/fisher_front")).source.record
    with h5py.File(path, "w") as file:
        file["time"], file["intensity"] = record.ts, np.asarray(record.values["u"])
        file.attrs["sigma"] = float(np.ravel(record.sigma["u"])[0])
    return path


@pytest.fixture
def film(made, tmp_path) -> Path:
    """A copy of it."""
    return shutil.copy(made, tmp_path / "film.h5")


def _data(film: Path, sigma: str) -> tuple[str, ...]:
    return (*FRONT, "~twin", "noise=0", f"data={{path: {film}, variables: {{u: intensity}}{sigma}}}")


@pytest.mark.parametrize("sigma", [", sigma: auto", ", sigma: {u: auto}"])
def test_sigma_auto_is_found_and_told(compose, film, sigma):
    exp = build_experiment(compose(*_data(film, sigma)))
    with h5py.File(film) as file:
        true = float(file.attrs["sigma"])  # pyright: ignore[reportArgumentType]
    assert exp.source.noise["u"].sigma == pytest.approx(true, rel=0.05)
    np.testing.assert_array_equal(np.unique(exp.functional.observations.sigma["u"]), exp.source.noise["u"].sigma)
    (line,) = describe(exp.source.noise)
    assert line.startswith("sigma of u = 0.0") and "order" in line
    assert [*exp.source.noise] == ["u"] and exp.source.unstated == ()


def test_what_is_kept_for_the_forecast_is_not_looked_at(compose, film):
    before = build_experiment(compose(*_data(film, ", sigma: auto"))).source.noise["u"]
    with h5py.File(film, "r+") as file:
        # times up to 6 s, of 12, are fitted
        file["intensity"][25:] = np.random.default_rng(0).normal(size=(24, 320))  # pyright: ignore[reportIndexIssue]
    assert build_experiment(compose(*_data(film, ", sigma: auto"))).source.noise["u"] == before


def test_a_stated_sigma_is_kept_and_a_missing_one_is_remembered(compose, film):
    stated, unstated = (build_experiment(compose(*_data(film, s))) for s in (", sigma: {u: 0.07}", ""))
    assert float(np.ravel(stated.functional.observations.sigma["u"])[0]) == 0.07 and stated.source.unstated == ()
    assert unstated.source.unstated == ("u",)


def test_noise_is_added_to_what_is_stored(compose, film):
    clean, noisy, stated, again = (
        build_experiment(compose(*_data(film, text)))
        for text in ("", ", noise: 0.1", ", noise: 0.1, sigma: {u: 0.07}", ", noise: 0.1")
    )
    values, added = (np.asarray(exp.source.record.values["u"]) for exp in (clean, noisy))
    size = 0.1 * np.ptp(values)
    # 15 680 draws: their standard deviation is known to 0.6 %
    assert np.std(added - values) == pytest.approx(size, rel=0.03)
    np.testing.assert_allclose(noisy.functional.observations.sigma["u"], size)
    assert noisy.source.unstated == () and any("noise of 0.1 times its range added" in line for line in noisy.remarks)
    np.testing.assert_array_equal(np.asarray(again.source.record.values["u"]), added)
    np.testing.assert_array_equal(np.asarray(stated.source.record.values["u"]), added)
    np.testing.assert_allclose(stated.functional.observations.sigma["u"], np.hypot(0.07, size))


@pytest.mark.parametrize(
    ("sigma", "words"),
    [
        (", noise: -0.1", ("data.noise", "-0.1")),
        (", noise: much", ("data.noise", "much")),
        (", sigma: automatic", ("data.sigma", "auto")),
        (", sigma: {v: auto}", ("'v'",)),
        (", sigma: {u: automatic}", ("'automatic'",)),
    ],
)
def test_a_mistake_is_one_sentence(compose, film, sigma, words):
    with pytest.raises(PdefitError) as error:
        build_experiment(compose(*_data(film, sigma)))
    for word in words:
        assert word in str(error.value)
