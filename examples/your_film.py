"""Your own film: read a file with units, find its noise, fit it."""

import tempfile
from pathlib import Path

import h5py
import jax
import numpy as np
import pdefit
from pdefit_reaction import FisherKPP

jax.config.update("jax_enable_x64", True)
path = Path(tempfile.mkdtemp()) / "film.h5"

# --- a film as a microscope writes it: micrometres, minutes, counts, a lost pixel -----

minutes, micrometres = np.linspace(0.0, 0.1, 31), 250.0 + 500.0 * np.arange(60)
# the exact front for D = 0.8 mm^2/s and r = 1.2 1/s, which is at 8 mm at the start
place = 8.0 + 5 * np.sqrt(1.2 * 0.8 / 6) * 60 * minutes[:, None]
counts = 4000 / (1 + np.exp((micrometres / 1000 - place) / np.sqrt(6 * 0.8 / 1.2))) ** 2
counts += 80 * np.random.default_rng(0).normal(size=counts.shape)
counts[:, 37] = np.nan
with h5py.File(path, "w") as file:
    file["time"], file["x"], file["intensity"] = minutes, micrometres, counts
    for name, unit in (("time", "min"), ("x", "um"), ("intensity", "1")):
        file[name].attrs["units"] = unit
    # the brightest pixel has density 1
    file["intensity"].attrs["scale_factor"] = 1 / 4000
    file["x"].make_scale()
    file["intensity"].dims[1].attach_scale(file["x"])

# --- reading it: values and times arrive in the units of the model --------------------

# one cell for each pixel: 60 pixels of 500 um
grid = pdefit.CartesianGrid(shape=(60,), extent=(30.0,), length_unit="mm")
guess = FisherKPP(grid, D=2.0, r=0.5, front=8.0)
film = pdefit.read_observations(path, {"u": "intensity"}, time_unit=guess.time_unit)
noise = pdefit.estimate_noise(film, "u")
seen = film.mask["u"]
print(f"{film.ts.size} frames, {seen.sum()} of {seen.size} values seen")
print(f"noise: sigma = {noise.sigma:.4f}, known to {100 * noise.error:.0f} %")
film = film.with_sigma({"u": noise.sigma})

# --- the fit: two numbers, and the profile at the start (the first frame is noisy) ----

positive = pdefit.transforms.Log()
start = pdefit.Control(guess=pdefit.guesses.FromData())
problem = pdefit.Problem(guess, guess.init(None))
J = pdefit.Functional(problem, film, {"D": positive, "r": positive, "y0": {"u": start}})
found = pdefit.fit(J)
known = pdefit.intervals(found.functional, found.theta, sigma_stated=True)
for i, name in enumerate("Dr"):
    low, best, high = known.low[i], known.estimate[i], known.high[i]
    print(f"{name} = {best:.3f}, 95 % interval {low:.3f} to {high:.3f}")
print(pdefit.judge(found))
