"""The voltage of heart tissue, filmed by a camera of 8 bits: the record of `experiment=cardiac/voltage_only_film`.

    ./run python scripts/make_voltage_film.py [FOLDER [CELLS STOP [smooth] [euler] [exact]]]

The tissue has the hard switches of the BOCF equations and takes steps of RK4 of 0.025 ms, where the experiment has smooth
switches and longer steps. Both have the same cells. A wave that turns, kicked three times, is filmed once per ms with the
shutter open for 0.4 ms. The lens blurs, the dye bleaches, and pixels are lost in a disc and along an edge. Counts have 8 bits
and noise of 2 % of their range.

Writes voltage_film.h5 to data/cardiac, 64 x 64 cells and 200 ms, or to FOLDER, CELLS x CELLS and until STOP; then
voltage_truth.h5, all four fields in the first frame, too. `smooth` gives the truth smooth switches, `euler` steps of Euler's
method of 0.1 ms, and `exact` leaves out the rounding to 8 bits. Takes a minute.
"""

import dataclasses
import sys
from pathlib import Path

import diffrax
import h5py
import jax
import numpy as np
from scipy.fft import dctn, idctn

import pdefit

jax.config.update("jax_enable_x64", True)

OUT = Path(__file__).parent.parent / "data" / "cardiac"
# cm, and ms: between frames, the shutter, samples of it, steps
CELL, BETWEEN, EXPOSURE, SAMPLE, STEP = 0.1, 1.0, 0.4, 0.1, 0.025
# counts for one unit of u, counts of u = 0, cm, and the noise as a part of the range
GAIN, OFFSET, BLUR, NOISE, SEED = 110.0, 40.0, 0.08, 0.02, 0
# the logarithm of what bleaching leaves of the gain, linear between the beginning and the end of a film
BLEACHED = -0.1
# no count: a pixel that was lost
LOST = 255
HISTORY = (
    f"BOCF equations with hard switches, RK4 with dt = {STEP} ms; exposure, blur, bleaching, noise and rounding in turn"
)


def start(cells: int):
    """The smooth equations with their true numbers, and the state of the first frame."""
    shape = [f"system.grid.shape=[{cells},{cells}]", f"system.grid.extent=[{cells * CELL},{cells * CELL}]"]
    experiment = pdefit.load_experiment("cardiac/voltage_only", [*shape, "times={stop: 1.0, count: 3, forecast: null}"])
    truth = experiment.truth
    assert truth is not None
    return truth.system, truth.y0


def exposed(system, y0, stop: float, euler: bool) -> np.ndarray:
    """Means of the voltage while the shutter is open, by Simpson's rule, (frames, x, y)."""
    n = round(EXPOSURE / SAMPLE)
    frames = BETWEEN * np.arange(round(stop / BETWEEN) + 1)
    ts = (frames[:, None] + SAMPLE * np.arange(n + 1)).ravel()
    voltage = pdefit.instruments.Select(("u",))
    solver, step = (diffrax.Euler(), SAMPLE) if euler else (pdefit.solvers.RK4(), STEP)
    seen = pdefit.simulate(system, y0, ts, solver=solver, dt=step, observe=voltage)
    weights = np.where(np.arange(n + 1) % 2, 4.0, 2.0) / (3 * n)
    weights[[0, -1]] /= 2
    u = np.asarray(seen.values["u"]).reshape(len(frames), n + 1, *y0.u.shape)
    return np.einsum("fkxy,k->fxy", u, weights)


def recorded(u: np.ndarray, exact: bool) -> tuple[np.ndarray, float]:
    """Counts of the camera with LOST where there is none, and the standard deviation of their noise."""
    cells = u.shape[-1]
    k = np.pi * np.arange(cells) / (cells * CELL)
    lens = np.exp(-(BLUR**2) * (k[:, None] ** 2 + k**2) / 2)
    blurred = np.stack([idctn(lens * dctn(frame)) for frame in u])
    fading = np.exp(BLEACHED * np.linspace(0, 1, len(u)))[:, None, None]
    clean = GAIN * fading * blurred + OFFSET
    sigma = NOISE * np.ptp(clean)
    counts = clean + sigma * np.random.default_rng(SEED).normal(size=clean.shape)
    if not exact:
        counts = np.clip(np.round(counts), 0, LOST - 1)
    x = np.arange(cells) - 0.7 * cells
    counts[:, (x[:, None] ** 2 + (x + 0.3 * cells) ** 2) < (cells / 12) ** 2] = LOST
    counts[:, :, 0] = LOST
    return counts, sigma


def write(path: Path, title: str, ts: np.ndarray, fields: dict[str, np.ndarray], long_name: str, **attributes):
    """A file with axes time, x and y."""
    cells = next(iter(fields.values())).shape[-1]
    x = (np.arange(cells) + 0.5) * CELL
    with h5py.File(path, "w") as file:
        file.attrs.update(
            title=title, source="scripts/make_voltage_film.py of pdefit", license="CC0-1.0", history=HISTORY
        )
        axes = {"time": (ts, "ms"), "x": (x, "cm"), "y": (x, "cm")}
        for axis, (values, unit) in axes.items():
            file[axis] = values
            file[axis].make_scale(axis)
            file[axis].attrs["units"] = unit
        for name, values in fields.items():
            data = file.create_dataset(name, data=values, compression="gzip", shuffle=True)
            data.attrs.update(units="1", long_name=long_name, **attributes)
            for k, axis in enumerate(axes):
                data.dims[k].attach_scale(file[axis])


def main(words: list[str]):
    folder = Path(words[0]) if words else OUT
    folder.mkdir(exist_ok=True)
    cells, stop = (int(words[1]), float(words[2])) if len(words) > 1 else (64, 200.0)
    system, y0 = start(cells)
    filmed = system if "smooth" in words else dataclasses.replace(system, is_smooth=False)
    counts, sigma = recorded(exposed(filmed, y0, stop, "euler" in words), "exact" in words)
    kind = np.float32 if "exact" in words else np.uint8
    title = "Film of the voltage of heart tissue by a camera"
    ts = BETWEEN * np.arange(len(counts))
    write(
        folder / "voltage_film.h5",
        title,
        ts,
        {"intensity": counts.astype(kind)},
        "counts of the camera",
        _FillValue=kind(LOST),
    )
    if words:
        true = {name: np.asarray(getattr(y0, name))[None] for name in "uvws"}
        write(
            folder / "voltage_truth.h5",
            "All fields of heart tissue in the first frame",
            ts[:1],
            true,
            "voltage or gate",
        )
    seen = counts[counts != LOST]
    print(
        f"noise of {sigma:.2f} counts, values from {seen.min():.0f} to {seen.max():.0f}, {len(seen) / counts.size:.1%} seen"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
