"""Gaps in the wake of data/piv/wake.h5, filled by fits of flow/wake_gaps.

    ./run python tests/benchmarks/wake_gaps.py [alone|together] [SETTING ...]
    ./run python tests/benchmarks/wake_gaps.py make

`alone` fits each field by itself (default), and `together` all three fields of the film. The squares are those that
`laboratory.py wake` fills without equations, and errors are as there. `make` writes data/piv/wake_gaps.h5, with one square
of each size in every field.
"""

import shutil
import sys
import tempfile
from pathlib import Path

import h5py
import jax
import numpy as np

jax.config.update("jax_enable_x64", True)

from laboratory import DATA, GAPS, gaps, load, score

import pdefit
from pdefit.integrate.forward_runs import frames

# the rows and columns that the experiment takes
WINDOW = (1, 56), (1, 61)


def with_gaps(path: Path, gap: np.ndarray) -> None:
    """Writes the wake without the vectors of a gap (nx, ny)."""
    shutil.copy(DATA / "wake.h5", path)
    with h5py.File(path, "r+") as file:
        for name in "uv":
            file[name][...] = np.where(gap, np.nan, file[name][:])


def filled(path: Path, settings: list[str]) -> np.ndarray:
    """The vectors that a fit finds at all of its frames, (T, nx, ny, 2), NaN outside of its window."""
    experiment = pdefit.load_experiment("flow/wake_gaps", [f"data.path={path}", *settings])
    fit = experiment.fit()
    observe, ts = jax.jit(fit.problem.observe), experiment.source.record.ts
    found = np.full((len(ts), *load(path).values.shape[1:]), np.nan)
    (x0, x1), (y0, y1) = WINDOW
    for k, seen in enumerate(_states(fit, ts)):
        values = observe(ts[k], seen, None)
        found[k, x0:x1, y0:y1] = np.stack([values[c] for c in "uv"], -1)
    return found


def _states(fit, ts):
    problem = fit.problem
    yield problem.y0
    yield from frames(problem.system, problem.y0, ts[1:], fit.functional.numerics(problem), t0=float(ts[0]))


def main(alone: bool, settings: list[str], count: int = 6, seed: int = 0):
    """Errors over the squares of each size."""
    flow = load("wake")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "gap.h5"
        for edge in GAPS:
            predicted, observed = [], []
            for gap in gaps(flow, edge, count, seed):
                with_gaps(path, gap)
                # a run from just before a frame to a time before the next one has that frame only, as its second time
                each = [[f"times.start={t - 1e-4}", f"times.stop={t + 1e-3}"] for t in flow.ts] if alone else []
                ours = [filled(path, [*settings, *span])[1] for span in each] if alone else filled(path, settings)
                predicted.append(np.stack(ours)[:, gap])
                observed.append(flow.values[:, gap])
            total = score(np.concatenate(predicted, 1), np.concatenate(observed, 1))
            print(f"  {edge:2d} x {edge:2d} {total}", flush=True)


def make():
    """data/piv/wake_gaps.h5."""
    chosen: list[np.ndarray] = []
    for edge in sorted(GAPS, reverse=True):
        free = (g for seed in range(20) for g in gaps(load("wake"), edge, 6, seed))
        chosen.append(next(g for g in free if not any((g & other).any() for other in chosen)))
    with_gaps(DATA / "wake_gaps.h5", np.any(chosen, axis=0))
    with h5py.File(DATA / "wake_gaps.h5", "r+") as file:
        told = f"squares of {', '.join(map(str, GAPS))} vectors removed from every field"
        file.attrs["history"] = f"{file.attrs['history']}; {told}"
        u, kept = file["u"][:], file.attrs["import_notes"].splitlines()[:-1]
        file.attrs["import_notes"] = "\n".join(
            [*kept, f"{np.isnan(u).sum()} of {u.size} vectors are missing (NaN), most of them in {told}."]
        )


if __name__ == "__main__":
    kind, *settings = sys.argv[1:] or ["alone"]
    make() if kind == "make" else main(kind == "alone", settings)
