"""A spiral wave in a dish, filmed by a camera: the record of `experiment=reaction/spiral_film`.

    ./run python scripts/make_spiral_film.py [--check]

Solves the FitzHugh-Nagumo equations without pdefit: 192 x 192 cosines, exact diffusion and Runge-Kutta steps of the
reaction in turn. A camera of 64 x 64 pixels records the activator. Writes data/reaction/spiral_film.tif, the film, and
spiral_truth.h5, both fields of every pixel in the first frame and after one rotation. `pdefit import film` makes
spiral_film.h5 of the film. `--check` halves the step in addition. Takes a minute.
"""

import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import tifffile
from scipy.fft import dctn, idctn

OUT = Path(__file__).parent.parent / "data" / "reaction"
# mm^2/s, 1/s, 1/s
D, EXCITATION, RECOVERY, BETA, GAMMA = 0.0015, 0.8, 0.072, 0.7, 0.5
# mm and s; the frame after one rotation of 46 s
EDGE, SPIN_UP, BETWEEN, FRAMES, ROTATION = 1.28, 240.0, 1.0, 61, 46
PIXELS, FINER, DT = 64, 3, 0.02
# counts for one unit of u, counts of u = 0, the blur of the lens in pixels, and the noise as a part of the range
GAIN, OFFSET, BLUR, NOISE, SEED = 50.0, 120.0, 0.8, 0.02, 0


def waves(n):
    """Squared wave numbers of the cosines of n x n cells."""
    k = np.pi * np.arange(n) / EDGE
    return k[:, None] ** 2 + k**2


def damped(u, factors):
    """A field whose cosines are multiplied by the factors."""
    return idctn(factors * dctn(u))


def reaction(y):
    u, v = y
    return np.stack([EXCITATION * (u - u**3 / 3 - v), RECOVERY * (u + BETA - GAMMA * v)])


def step(y, dt):
    """A step of the classical Runge-Kutta method of the reaction."""
    a = reaction(y)
    b = reaction(y + dt / 2 * a)
    c = reaction(y + dt / 2 * b)
    d = reaction(y + dt * c)
    return y + dt / 6 * (a + 2 * b + 2 * c + d)


def run(y, duration, dt):
    """The state after a duration: half a step of diffusion, a step of the reaction, half a step of diffusion."""
    half = np.exp(-D * dt / 2 * waves(y.shape[-1]))
    y = np.stack([damped(y[0], half), y[1]])
    for _ in range(round(duration / dt)):
        y = step(y, dt)
        y[0] = damped(y[0], half**2)
    # the last half step was one too many
    return np.stack([damped(y[0], 1 / half), y[1]])


def turning(n):
    """An excited sector, and a recovery that falls behind it."""
    x = np.arange(n) + 0.5 - n / 2
    behind = np.arctan2(x, x[:, None]) / (2 * np.pi) % 1
    excited = behind < 0.3
    return np.stack([np.where(excited, 1.8, -1.2), np.where(excited, 5 * behind - 0.6, 1 - 16 / 7 * (behind - 0.3))])


def film(y, frames, dt):
    """Both fields at the frames, shape (frames, 2, n, n)."""
    found = [y]
    for _ in range(frames - 1):
        found.append(run(found[-1], BETWEEN, dt))
    return np.stack(found)


def pixels(fields):
    """Means over the pixels."""
    *front, n, _ = fields.shape
    return fields.reshape(*front, PIXELS, n // PIXELS, PIXELS, n // PIXELS).mean(axis=(-3, -1))


def recorded(u):
    """Counts of the camera, shape (frames, x, y)."""
    lens = np.exp(-((BLUR * EDGE / PIXELS) ** 2) * waves(u.shape[-1]) / 2)
    seen = GAIN * pixels(np.stack([damped(frame, lens) for frame in u])) + OFFSET
    sigma = NOISE * np.ptp(GAIN * u)
    noisy = seen + sigma * np.random.default_rng(SEED).normal(size=seen.shape)
    return np.clip(np.round(noisy), 0, 255).astype(np.uint8), sigma


def write_truth(fields):
    with h5py.File(OUT / "spiral_truth.h5", "w") as file:
        file.attrs.update(
            title="Activator and recovery of a spiral wave in the first frame of spiral_film.h5, and after one rotation",
            source="scripts/make_spiral_film.py of pdefit",
            license="CC0-1.0",
            history=f"FitzHugh-Nagumo equations on {PIXELS * FINER} x {PIXELS * FINER} cosines, exact diffusion and "
            f"Runge-Kutta steps of the reaction in turn with dt = {DT} s; means over pixels",
            equations="u_t = D lap u + excitation (u - u^3/3 - v), v_t = recovery (u + beta - gamma v)",
            D=D,
            excitation=EXCITATION,
            recovery=RECOVERY,
            beta=BETA,
            gamma=GAMMA,
        )
        x = (np.arange(PIXELS) + 0.5) * EDGE / PIXELS
        axes = {"time": (BETWEEN * np.array([0, ROTATION]), "s"), "x": (x, "mm"), "y": (x, "mm")}
        for axis, (values, unit) in axes.items():
            file.create_dataset(axis, data=values)
            file[axis].make_scale(axis)
            file[axis].attrs["units"] = unit
        for i, (name, what) in enumerate({"u": "activator", "v": "recovery"}.items()):
            data = file.create_dataset(name, data=fields[:, i].astype(np.float32), compression="gzip", shuffle=True)
            data.attrs.update(units="1", long_name=what)
            for k, axis in enumerate(axes):
                data.dims[k].attach_scale(file[axis])


def write_film(counts):
    # rows of an image run down, and y runs up
    tifffile.imwrite(
        OUT / "spiral_film.tif",
        counts.transpose(0, 2, 1)[:, ::-1],
        imagej=True,
        resolution=(PIXELS / EDGE, PIXELS / EDGE),
        metadata={"axes": "TYX", "unit": "mm", "finterval": BETWEEN},
    )
    files = OUT / "spiral_film.tif", "--out", OUT / "spiral_film.h5"
    subprocess.run(["pdefit", "import", "film", *files, "name=activator", "force=true"], check=True)
    with h5py.File(OUT / "spiral_film.h5", "r+") as file:
        file.attrs.update(title="Film of a spiral wave, of which only the activator is seen", license="CC0-1.0")


def main() -> None:
    OUT.mkdir(exist_ok=True)
    start = run(turning(PIXELS * FINER), SPIN_UP, DT)
    fields = film(start, FRAMES, DT)
    counts, sigma = recorded(fields[:, 0])
    write_film(counts)
    write_truth(pixels(fields)[[0, ROTATION]])
    print(f"noise of {sigma:.2f} counts, values from {counts.min()} to {counts.max()}")
    if "--check" in sys.argv:
        half = film(start, FRAMES, DT / 2)
        print(f"half the step moves u by {np.abs(half - fields)[:, 0].max():.1e}")


if __name__ == "__main__":
    main()
