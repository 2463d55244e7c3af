"""The voltage of heart tissue in which no wave starts: the record of `experiment=cardiac/ap_fits_bocf`.

    ./run python scripts/make_bocf_films.py [waves]

Tissue of 64 x 64 cells of 0.1 cm obeys the BOCF equations and takes steps of RK4 of 0.05 ms. A frame every 5 ms has 8 bits, of
0.006 each, and noise of 0.005. Writes bocf_quiet_film.h5 to data/cardiac. `waves` writes bocf_waves_film.h5, too, which is not
shipped: waves turn in it, with a frame every 2 ms in the first half second and then every 10 ms. Takes a minute.
"""

import sys
from pathlib import Path

import h5py
import jax
import numpy as np

import pdefit

jax.config.update("jax_enable_x64", True)

OUT = Path(__file__).parent.parent / "data" / "cardiac"
# cells, cm and ms
CELLS, CELL, STEP = 64, 0.1, 0.05
# one count, the count of u = 0, and the noise of u
COUNT, ZERO, NOISE, SEED = 0.006, 10, 0.005, 0
QUIET = np.arange(0.0, 1001.0, 5.0)
WAVES = np.concatenate([np.arange(0.0, 501.0, 2.0), np.arange(510.0, 2001.0, 10.0)])


def voltage(experiment: str, settings: list[str], ts: np.ndarray) -> np.ndarray:
    """The voltage at the frames, (frames, x, y)."""
    grid = [f"system.grid.shape=[{CELLS},{CELLS}]", f"system.grid.extent=[{CELLS * CELL},{CELLS * CELL}]"]
    truth = pdefit.load_experiment(experiment, [*grid, *settings]).truth
    assert truth is not None
    seen = pdefit.instruments.Select(("u",))
    run = pdefit.simulate(truth.system, truth.y0, ts, solver=pdefit.solvers.RK4(), dt=STEP, observe=seen)
    return np.asarray(run.values["u"])


def write(name: str, title: str, ts: np.ndarray, u: np.ndarray) -> None:
    """A file of counts with axes time, x and y."""
    noisy = u + NOISE * np.random.default_rng(SEED).normal(size=u.shape)
    x = (np.arange(CELLS) + 0.5) * CELL
    with h5py.File(OUT / name, "w") as file:
        file.attrs.update(
            title=title,
            source="scripts/make_bocf_films.py of pdefit",
            license="CC0-1.0",
            history=f"BOCF equations with smooth switches, RK4 with dt = {STEP} ms; noise of {NOISE}, rounded to {COUNT}",
        )
        for axis, (values, unit) in {"time": (ts, "ms"), "x": (x, "cm"), "y": (x, "cm")}.items():
            file.create_dataset(axis, data=values).make_scale(axis)
            file[axis].attrs["units"] = unit
        counts = np.clip(np.round(noisy / COUNT) + ZERO, 0, 255).astype(np.uint8)
        data = file.create_dataset("voltage", data=counts, compression="gzip", compression_opts=9, shuffle=True)
        data.attrs.update(units="1", long_name="scaled voltage", scale_factor=COUNT, add_offset=-ZERO * COUNT)
        for k, axis in enumerate(("time", "x", "y")):
            data.dims[k].attach_scale(file[axis])
    print(
        f"{name}: u from {u.min():.3f} to {u.max():.3f}, variance {np.var(u[ts <= 500]):.4f} in the first half second"
    )


def main() -> None:
    # the plateau of the kicked cells has not ended
    short = ["times={start: 0.0, stop: 1.0, count: 3}", "initial.interval=250"]
    quiet = voltage("cardiac/bocf_quiet", short, QUIET)
    write("bocf_quiet_film.h5", "Voltage of heart tissue in which no wave starts", QUIET, quiet)
    if "waves" not in sys.argv:
        return
    waves = voltage("cardiac/voltage_only", ["times={start: 0.0, stop: 1.0, count: 3, forecast: null}"], WAVES)
    write("bocf_waves_film.h5", "Voltage of heart tissue in which waves turn", WAVES, waves)


if __name__ == "__main__":
    main()
