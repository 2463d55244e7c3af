"""Reference runs of the classic equations that ship no original data, by other methods than pdefit's.

    ./run python scripts/make_classics.py

Writes data/classics/kuramoto_sivashinsky.h5 (integrating factors with the classical Runge-Kutta method, in NumPy) and
data/classics/lorenz.h5 (the eighth-order method of Dormand and Prince, in SciPy). Takes a quarter of a minute.
"""

from pathlib import Path

import h5py
import numpy as np
import scipy
from scipy.integrate import solve_ivp

OUT = Path(__file__).parent.parent / "data" / "classics"


def kuramoto_sivashinsky(length: float, points: int, dt: float, every: int, frames: int):
    """Positions, times and states of u_t = -u u_x - u_xx - u_xxxx from cos(q x) (1 + sin(q x)), q = 2 pi / length.

    The linear part is taken out by an integrating factor; products are computed on all points and their upper third is
    removed.
    """
    x = length * np.arange(points) / points
    k = 2 * np.pi / length * np.arange(points // 2 + 1)
    kept = 3 * np.arange(points // 2 + 1) < points
    half = np.exp(dt / 2 * (k**2 - k**4))

    def slope(v):
        return -0.5j * k * kept * np.fft.rfft(np.fft.irfft(v, points) ** 2)

    v = np.fft.rfft(np.cos(2 * np.pi * x / length) * (1 + np.sin(2 * np.pi * x / length)))
    found = [np.fft.irfft(v, points)]
    for step in range(1, every * frames + 1):
        a = dt * slope(v)
        b = dt * slope(half * (v + a / 2))
        c = dt * slope(half * v + b / 2)
        d = dt * slope(half * (half * v + c))
        v = half * (half * v + half * a / 6 + (b + c) / 3) + d / 6
        if step % every == 0:
            found.append(np.fft.irfft(v, points))
    return x, dt * every * np.arange(frames + 1), np.array(found)


def lorenz(stop: float, frames: int):
    """Times and states (x, y, z) from (-8, 7, 27) with sigma = 10, rho = 28, beta = 8/3."""

    def rate(_, u):
        x, y, z = u
        return [10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z]

    t = np.linspace(0.0, stop, frames)
    found = solve_ivp(rate, (0.0, stop), [-8.0, 7.0, 27.0], "DOP853", t, rtol=1e-12, atol=1e-12)
    return t, found.y


def write(name: str, title: str, history: str, axes: dict, fields: dict) -> None:
    """One HDF5 file, with time as the first axis of every field."""
    OUT.mkdir(parents=True, exist_ok=True)
    with h5py.File(OUT / name, "w") as file:
        file.attrs.update(title=title, history=history, license="CC0-1.0", source="scripts/make_classics.py of pdefit")
        for axis, values in axes.items():
            file.create_dataset(axis, data=values)
            file[axis].make_scale(axis)
            file[axis].attrs["units"] = "1"
        for field, values in fields.items():
            # single precision is finer than the error of any measurement
            data = file.create_dataset(field, data=values.astype(np.float32), compression="gzip", shuffle=True)
            data.attrs.update(units="1", long_name=field)
            for i, axis in enumerate(axes):
                data.dims[i].attach_scale(file[axis])


def main() -> None:
    length = 32 * np.pi
    x, t, u = kuramoto_sivashinsky(length, 128, 1 / 1024, 1024, 150)
    other = kuramoto_sivashinsky(length, 128, 1 / 512, 512, 50)[2]
    print(f"Kuramoto-Sivashinsky: twice the step moves u by {np.abs(other - u[:51]).max():.1e} up to t = 50")
    history = "integrating factor, classical Runge-Kutta, dt = 1/1024, 2/3 rule; NumPy " + np.__version__
    write(
        "kuramoto_sivashinsky.h5",
        "u_t = -u u_x - u_xx - u_xxxx with period 32 pi, from cos(x/16) (1 + sin(x/16))",
        history,
        {"time": t, "x": x},
        {"u": u},
    )
    t, states = lorenz(20.0, 1001)
    write(
        "lorenz.h5",
        "Lorenz 1963 with sigma = 10, rho = 28, beta = 8/3, from (-8, 7, 27)",
        "DOP853, rtol = atol = 1e-12; SciPy " + scipy.__version__,
        {"time": t},
        dict(zip("xyz", states, strict=True)),
    )


if __name__ == "__main__":
    main()
