"""The spread of the state and of derived fields over draws of the posterior."""

import jax
import numpy as np
import xarray

from pdefit.cli.run.build import build_experiment
from pdefit.cli.run.posterior import DRAWS, write_spread
from pdefit.inverse.uncertainty.field_posterior import field_posterior

SMALL = (
    "experiment=flow/kolmogorov",
    "dtype=float64",
    "system.grid.shape=[8,8]",
    "system.force.wavenumber=1",
    "initial.duration=2.0",
    "times={start: 0.0, stop: 0.4, count: 3, forecast: {stop: 0.6, count: 1}}",
    "observe.stride=[1,1]",
    "~controls.viscosity",
    "~controls.drag",
    "~stages.main",
)


def test_the_spread_at_the_start_is_that_of_the_posterior(compose, tmp_path):
    # the state at the start is linear in the unknowns
    settings = compose(*SMALL)
    exp = build_experiment(settings)
    posterior = field_posterior(exp.functional, exp.functional.theta0, rank=60, sigma_stated=True)
    draws = posterior.draws(DRAWS, jax.random.key(settings.seed))
    assert not write_spread(tmp_path, "small", exp, settings, draws, exp.first)
    with xarray.open_dataset(tmp_path / "spread.h5", engine="h5netcdf") as kept:
        assert kept["pressure_std"].dims == ("time", "x", "y") and kept["pressure_std"].shape == (3, 8, 8)
        np.testing.assert_allclose(kept["time"], [0.0, 0.2, 0.4])
        assert all(np.all(kept[f"{name}_std"] > 0) for name in ("u", "v", "pressure"))
        ratio = np.stack([kept[f"{x}_std"].values[0] / posterior.standard_deviation[f"y0.{x}"] for x in "uv"])
    # 24 draws know a standard deviation to 15 %, and its mean over the field to a few percent
    np.testing.assert_allclose(np.sqrt(np.mean(ratio**2)), 1.0, atol=0.1)
    np.testing.assert_allclose(ratio, 1.0, atol=5 * 0.15)
