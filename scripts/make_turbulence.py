"""Forced turbulence in a plane, seen through a window: the twin of `experiment=flow/window`.

    ./run python scripts/make_turbulence.py [--check]

Solves the vorticity equation in a periodic box of 2 pi, on a `pdefit.FourierGrid` with ETDRK4. Writes
data/flow/turbulent_window.h5: velocity and pressure at 48 x 48 points of a window, which are evaluated from the Fourier
series itself. `--check` runs the tests of the method and of the result in addition. Takes half a minute.
"""

import sys
from pathlib import Path
from typing import NamedTuple

import h5py
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import pdefit

jax.config.update("jax_enable_x64", True)

OUT = Path(__file__).parent.parent / "data" / "flow" / "turbulent_window.h5"
VISCOSITY, DRAG, AMPLITUDE, WAVENUMBER = 0.015, 0.1, 1.5, 4
SEED, SPIN_UP, FRAMES, BETWEEN = 0, 30.0, 25, 0.03
# points along an edge of the box, and the steps of the spin-up and of the record
COARSE, FINE, DT_SPIN_UP, DT = 128, 256, 0.01, 0.003
CORNER, EDGE, VECTORS = (1.0, 2.0), 2 * np.pi / 3, 48


class State(NamedTuple):
    w: Float[Array, "nx ny"] = pdefit.field(doc="vorticity")


class Turbulence(pdefit.SpectralSystem):
    """Vorticity of a plane flow: w_t + u . grad w = viscosity lap w - drag w + curl f, f = amplitude sin(k y) along x."""

    viscosity: Array = pdefit.parameter(doc="kinematic viscosity")
    drag: Array = pdefit.parameter(doc="linear drag")
    amplitude: Array = pdefit.parameter(doc="largest force per mass")

    def eigenvalues(self):
        return State(self.viscosity * self.grid.laplacian_symbol() - self.drag)

    def nonlinear(self, t, y, args):
        grid = self.grid
        u, v = map(grid.from_modes, velocity_modes(grid, grid.to_modes(y.w)))
        carried = grid.symbol(1, 0) * grid.to_modes(u * y.w) + grid.symbol(1, 1) * grid.to_modes(v * y.w)
        curl = -self.amplitude * WAVENUMBER * jnp.cos(WAVENUMBER * grid.mesh()[1])
        return State(grid.dealias(grid.to_modes(curl * jnp.ones(grid.shape)) - carried))

    def init(self, key):
        """Random waves of 2 to 8 periods with a root mean square vorticity of 3."""
        modes, square = self.grid.to_modes(jax.random.normal(key, self.grid.shape)), -self.grid.laplacian_symbol()
        w = self.grid.from_modes(jnp.where((square > 4) & (square < 64), modes, 0))
        return State(3 * w / jnp.std(w))


def velocity_modes(grid, w):
    """Modes of both components of the velocity from those of the vorticity."""
    square = -grid.laplacian_symbol()
    stream = w / np.where(square > 0, square, 1) * (square > 0)
    return grid.symbol(1, 1) * stream, -grid.symbol(1, 0) * stream


def pressure_modes(grid, w):
    """Modes of the kinematic pressure, lap p = 2 (u_x v_y - u_y v_x). The force has no divergence."""
    u, v = velocity_modes(grid, w)
    slopes = [grid.from_modes(grid.symbol(1, axis) * c) for c in (u, v) for axis in (0, 1)]
    square = -grid.laplacian_symbol()
    return -grid.to_modes(2 * (slopes[0] * slopes[3] - slopes[1] * slopes[2])) / np.where(square > 0, square, 1)


def at(grid, modes, x, y):
    """The Fourier series of a real field at all pairs of positions, shape (len(x), len(y))."""
    rows = np.exp(1j * np.outer(x, grid.numbers(0).ravel()))
    last = grid.numbers(1).ravel()
    # modes along the last axis stand for their complex conjugates too
    columns = np.exp(1j * np.outer(last, y)) * np.where((last > 0) & (2 * last < grid.shape[1]), 2, 1)[:, None]
    return np.real(rows @ np.asarray(modes) @ columns) / np.prod(grid.shape)


def box(points):
    return pdefit.FourierGrid((points, points), (2 * np.pi, 2 * np.pi))


def run(w, ts, dt, amplitude=AMPLITUDE, drag=DRAG):
    """Vorticity at the times, shape (T, n, n)."""
    system = Turbulence(box(len(w)), VISCOSITY, drag, amplitude)
    return np.asarray(
        pdefit.solve(system, State(jnp.asarray(w)), ts, t0=float(ts[0]), solver=pdefit.solvers.ETDRK4(), dt=dt).w
    )


def refined(w, points):
    """The same Fourier series on a finer grid."""
    places = 2 * np.pi * np.arange(points) / points
    grid = box(len(w))
    return at(grid, grid.to_modes(w), places, places)


def window(w, x, y):
    """Velocity and pressure of every frame at the places, each (T, len(x), len(y)); the pressure has a mean of zero."""
    grid, found = box(w.shape[1]), []
    for frame in w:
        modes = grid.to_modes(frame)
        found.append([at(grid, m, x, y) for m in (*velocity_modes(grid, modes), pressure_modes(grid, modes))])
    u, v, p = np.moveaxis(np.array(found), 1, 0)
    return u, v, p - p.mean(axis=(1, 2), keepdims=True)


def derived(w, u, v, spacing):
    """Scales of the flow: averages over the box, and over the window where the name says so."""
    grid, speed, gradient = box(w.shape[1]), [], []
    for frame in w:
        modes = grid.to_modes(frame)
        speed.append(sum(np.mean(np.asarray(grid.from_modes(m)) ** 2) for m in velocity_modes(grid, modes)))
        gradient.append(sum(np.mean(np.asarray(grid.from_modes(grid.symbol(1, i) * modes)) ** 2) for i in (0, 1)))
    rms = np.sqrt(np.mean(speed) / 2)
    return {
        "rms_velocity": rms,
        "rms_velocity_window": np.sqrt(np.mean(u**2 + v**2) / 2),
        "rms_vorticity": np.std(w),
        "reynolds_number": rms / (VISCOSITY * WAVENUMBER),
        "turnover_time": np.pi / WAVENUMBER / rms,
        # of the enstrophy cascade: viscosity^(1/2) / (rate of dissipation of enstrophy)^(1/6)
        "dissipation_length_in_spacings": VISCOSITY**0.5 / (VISCOSITY * np.mean(gradient)) ** (1 / 6) / spacing,
        "cell_reynolds_number_96": np.sqrt(np.mean(u**2 + v**2) / 2) * EDGE / 96 / VISCOSITY,
        "largest_motion_per_frame_in_spacings": np.sqrt(np.max(u**2 + v**2)) * BETWEEN / spacing,
    }


def write(ts, x, y, fields, numbers):
    OUT.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(OUT, "w") as file:
        file.attrs.update(
            title="Velocity and pressure in a window of forced two-dimensional turbulence, without noise",
            source="scripts/make_turbulence.py of pdefit",
            license="CC0-1.0",
            history=f"vorticity equation in a periodic box of 2 pi on {FINE} x {FINE} points, 2/3 rule, ETDRK4 with dt = {DT}, "
            f"after a spin-up on {COARSE} x {COARSE} points to t = {SPIN_UP} with dt = {DT_SPIN_UP}; series at the "
            f"points; seed {SEED}; JAX {jax.__version__}, NumPy {np.__version__}, pdefit {pdefit.__version__}",
            equations="u_t + u . grad u = - grad p + viscosity lap u - drag u + force, div u = 0",
            force=f"({AMPLITUDE} sin({WAVENUMBER} y), 0)",
            viscosity=VISCOSITY,
            drag=DRAG,
            force_amplitude=AMPLITUDE,
            force_wavenumber=WAVENUMBER,
            import_notes="The first 20 frames are meant for fits, the last 5 for forecasts.\n"
            "The pressure is kinematic, and its mean over the window is zero in every frame.",
            **numbers,
        )
        for axis, values in {"time": ts, "x": x, "y": y}.items():
            file.create_dataset(axis, data=values)
            file[axis].make_scale(axis)
            file[axis].attrs["units"] = "1"
        for (name, what), values in zip(
            {"u": "velocity along x", "v": "velocity along y", "p": "kinematic pressure"}.items(), fields, strict=True
        ):
            data = file.create_dataset(name, data=values.astype(np.float32), compression="gzip", shuffle=True)
            data.attrs.update(units="1", long_name=what)
            for i, axis in enumerate(("time", "x", "y")):
                data.dims[i].attach_scale(file[axis])


def check(start, w):
    """Print errors of the method on a known flow, and residuals of the equations on a dense export of the window."""
    mesh = box(64).mesh()
    decay = run(np.cos(3 * mesh[0]) * np.cos(3 * mesh[1]), np.array([0.0, 2.0]), 0.02, amplitude=0.0)
    print(
        f"Taylor-Green vortices: error {np.abs(decay[1] - decay[0] * np.exp(-2 * (18 * VISCOSITY + DRAG))).max():.1e}"
    )
    half = run(start, BETWEEN * np.arange(FRAMES), DT / 2)
    print(f"half the step changes the vorticity by {np.abs(half - w).max() / np.abs(w).max():.1e} of its maximum")
    last = box(FINE).to_modes(w[-1])
    print(
        f"the highest third of kept modes holds {np.sum(np.abs(last[57:86, :86]) ** 2) / np.sum(np.abs(last) ** 2):.1e}"
    )
    # centred differences of sixth order along both axes and in time, on 193 x 193 points every 0.003
    n, dt = 193, 0.003
    x, y = (c + EDGE * np.arange(n) / (n - 1) for c in CORNER)
    u, v, p = window(run(w[0], dt * np.arange(7), dt / 2), x, y)
    h, weights = EDGE / (n - 1), np.array([-1, 9, -45, 0, 45, -9, 1]) / 60

    def slope(f, axis):
        parts = (c * np.roll(f, 3 - i, axis) for i, c in enumerate(weights))
        return sum(parts) / (dt if axis == 0 else h)

    inside = (3, slice(8, -8), slice(8, -8))
    for name, c, own in (("u", u, AMPLITUDE * np.sin(WAVENUMBER * y)), ("v", v, 0.0)):
        lap = sum(slope(slope(c, axis), axis) for axis in (1, 2))
        terms = (
            slope(c, 0),
            u * slope(c, 1) + v * slope(c, 2),
            slope(p, 1 if name == "u" else 2),
            -VISCOSITY * lap,
            DRAG * c,
        )
        off = sum(terms) - own
        print(
            f"momentum along {name}: residual {np.std(off[inside]):.1e}, terms {[f'{np.std(t[inside]):.2g}' for t in terms]}"
        )
    print(f"divergence {np.std((slope(u, 1) + slope(v, 2))[inside]):.1e}, slope {np.std(slope(u, 1)[inside]):.2g}")


def main() -> None:
    rough = Turbulence(box(COARSE), VISCOSITY, DRAG, AMPLITUDE).init(jax.random.key(SEED)).w
    start = refined(run(rough, np.array([0.0, SPIN_UP]), DT_SPIN_UP)[1], FINE)
    # the finer grid forgets the coarser one
    start = run(start, np.array([0.0, 1.0]), DT)[1]
    ts = BETWEEN * np.arange(FRAMES)
    w = run(start, ts, DT)
    x, y = (c + EDGE * np.arange(VECTORS) / (VECTORS - 1) for c in CORNER)
    fields = window(w, x, y)
    numbers = derived(w, fields[0], fields[1], EDGE / (VECTORS - 1))
    write(ts, x, y, fields, numbers)
    print(f"{OUT.name}: {OUT.stat().st_size} bytes", *(f"{k} {v:.4g}" for k, v in numbers.items()), sep="\n  ")
    if "--check" in sys.argv:
        check(start, w)


if __name__ == "__main__":
    main()
