"""One gradient of a trajectory that fits no memory: budgets held, plan against measurement, Taylor remainder.

    ./run python tests/benchmarks/long_gradient.py [--steps 100000] [--cells 256] [--device "64 MB"] [--file "256 MB"]

FitzHugh-Nagumo waves in a square, float64, Euler; the unknowns are three parameters and both initial fields. Checkpoints
lie in a file, and so do the frames that the run is compared with, which are read piece by piece.
"""

import argparse
import gc
import json
import tempfile
import time
from pathlib import Path
from typing import ClassVar, NamedTuple

from pdefit.cli.runtime.environment import prepare

prepare()

import diffrax
import h5py
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import pdefit
from pdefit.data.readers.frames import Frames
from pdefit.data.readers.observations import TargetFile
from pdefit.data.readers.source import source_of
from pdefit.integrate.forward_runs import Numerics, frames
from pdefit.output.store.adjoint_scratch import CheckpointFile
from tests.memory_meter import Meter

jax.config.update("jax_enable_x64", True)


class State(NamedTuple):
    """u: what is excited, v: what recovers."""

    u: Float[Array, "nx ny"]
    v: Float[Array, "nx ny"]


class FitzHughNagumo(pdefit.AbstractSystem):
    """u_t = D lap u + u - u^3/3 - v, v_t = eps (u + b - c v). Source: R. FitzHugh (1961), doi:10.1016/S0006-3495(61)86902-6."""

    time_unit: ClassVar[str] = "1"
    grid: pdefit.CartesianGrid
    D: Array = pdefit.parameter(positive=True)
    eps: Array = pdefit.parameter(positive=True)
    b: Array = pdefit.parameter()

    def vector_field(self, t, y, args):
        u, v = y
        return State(pdefit.diffuse(self.grid, self.D, u) + u - u**3 / 3 - v, self.eps * (u + self.b - 0.5 * v))

    def init(self, key):
        x, y = self.grid.mesh()
        return State(jnp.tanh((x - 30) / 2), 0.8 * jnp.tanh((y - 30) / 2))

    def coords(self):
        return {name: self.grid.coords(unit="1", long_name=name) for name in ("u", "v")}


def record(path: Path, truth: FitzHughNagumo, ts: np.ndarray, dt: float) -> None:
    """The frames of the truth, written one by one."""
    with h5py.File(path, "w") as file:
        file["time"] = ts
        kept = {n: file.create_dataset(n, (ts.size, *truth.grid.shape), dtype=np.float64) for n in ("u", "v")}
        found = frames(truth, truth.init(None), ts, Numerics(diffrax.Euler(), dt), t0=0.0, block=1)
        for i, y in enumerate(found):
            kept["u"][i], kept["v"][i] = y


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--cells", type=int, default=256)
    parser.add_argument("--frames", type=int, default=11)
    parser.add_argument("--device", default="64 MB")
    parser.add_argument("--file", default="256 MB")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()

    dt, (n, folder) = 0.005, (asked.cells, Path(tempfile.mkdtemp()))
    grid = pdefit.CartesianGrid(shape=(n, n), extent=(60.0, 60.0))
    truth = FitzHughNagumo(grid, D=1.0, eps=0.1, b=0.3)
    ts = np.linspace(0.0, dt * asked.steps, asked.frames)
    begin = time.perf_counter()
    record(folder / "frames.h5", truth, ts, dt)
    print(f"record of {ts.size} frames in {time.perf_counter() - begin:.0f} s", flush=True)

    guess = pdefit.Problem(FitzHughNagumo(grid, D=1.05, eps=0.098, b=0.29), truth.init(None))
    targets = TargetFile(Frames(*source_of(folder / "frames.h5", {"u": "u", "v": "v"})))
    # the functional itself is made of the first frame, and of zeros that take no memory
    first = targets.read(0, 1)
    nothing = {name: np.broadcast_to(x, (ts.size, *x.shape[1:])) for name, x in first.values.items()}
    data = pdefit.Observations.build(ts, nothing)
    controls = {"D": pdefit.transforms.Log(), "eps": pdefit.transforms.Log(), "b": pdefit.transforms.Identity()}
    controls |= {"y0": {"u": pdefit.Control(), "v": pdefit.Control()}}
    J = pdefit.Functional(guess, data, controls, solver=diffrax.Euler(), dt=dt)
    theta = J.theta0
    del data, nothing

    def open_file(like, slots):
        return CheckpointFile(folder / "checkpoints.h5", like, slots)

    driver = pdefit.drivers.Hosted(asked.device, host=0, file=asked.file, open_file=open_file, targets=targets)
    cost = driver.cost(J, tangents=False)
    print(cost, flush=True)
    hosted = driver.functional(J)
    gc.collect()
    meter = Meter()
    begin = time.perf_counter()
    value, gradient, growth = jax.block_until_ready(hosted.watched_gradient(theta))
    seconds, peak = time.perf_counter() - begin, meter.rise()
    planned = cost.planned_bytes + cost.host_bytes
    ratio = peak / planned, seconds / cost.seconds
    print(f"J = {value:.9g}, adjoint grew by {growth:.3g}")
    print(f"memory: planned {planned / 1e6:.1f} MB, measured {peak / 1e6:.1f} MB ({ratio[0]:.2f})")
    print(f"time: planned {cost.seconds:.1f} s, measured {seconds:.1f} s ({ratio[1]:.2f})", flush=True)

    v = jax.random.normal(jax.random.key(1), theta.shape)
    # fields of white noise hardly move anything: parameters and fields get directions of like effect
    v = v / jnp.linalg.norm(v) * jnp.where(jnp.arange(theta.size) < 3, 1.0, 30.0)
    slope, errors = float(jnp.vdot(gradient, v)), []
    for eps in (1.6e-2, 8e-3, 4e-3):
        begin = time.perf_counter()
        difference = float(hosted.value(theta + eps * v) - hosted.value(theta - eps * v)) / (2 * eps)
        errors.append(abs(difference / slope - 1))
        print(f"eps {eps:.0e}: {difference:.12g} against {slope:.12g}, {errors[-1]:.2e}"
              f" ({(time.perf_counter() - begin) / 2:.0f} s a forward run)", flush=True)  # fmt: skip
    rates = [float(np.log2(a / b)) for a, b in zip(errors, errors[1:], strict=False)]
    print(f"Taylor rates of central differences {rates}")
    driver.close()
    found = {"steps": asked.steps, "cells": n, "plan": cost.as_dict(), "peak_bytes": peak, "seconds": seconds,
             "memory_ratio": ratio[0], "time_ratio": ratio[1], "errors": errors, "rates": rates}  # fmt: skip
    if asked.out:
        asked.out.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
