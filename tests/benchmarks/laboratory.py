"""Baselines without equations for the laboratory flows of data/piv, and scores of runs on them.

    ./run python tests/benchmarks/laboratory.py [soap_film active_nematic cavity wake]
    ./run python tests/benchmarks/laboratory.py FILE runs/RUN [FITTED]

The first prints tables for the named flows, by default for all. The second compares the velocity in fields.h5 of a run with
the vectors of a file, such as data/piv/soap_film.h5, frame by frame. With FITTED, a copy of the file with gaps to which the run
was fitted, only the vectors in the gaps count.

An error is the root mean square length of the difference, over all vectors that both fields have. It is divided by the root
mean square speed of all that were observed in the frame, or in a gap ("of speed"), or by that of their deviation from their own
mean ("of fluctuation").
Frames count from 1.
"""

import sys
import warnings
from pathlib import Path
from typing import NamedTuple

import h5py
import numpy as np
from gap_filling import gaussian_process, harmonic, likeliest, thin_plate
from scipy.interpolate import CubicSpline, RegularGridInterpolator

DATA = Path(__file__).parents[2] / "data" / "piv"
HELD_OUT = (2, 5, 8)
GAPS = (8, 12, 16)


class Score(NamedTuple):
    """Error in parts of the speed and of the fluctuation, its root mean square, and the vectors that it is taken over."""

    of_speed: float
    of_fluctuation: float
    error: float
    vectors: int

    def __str__(self):
        speed, fluctuation = 100 * self.of_speed, 100 * self.of_fluctuation
        return f"{speed:6.2f} % of speed {fluctuation:6.2f} % of fluctuation {self.vectors:5d} vectors"


class Vectors(NamedTuple):
    """Vectors (T, nx, ny, 2) at times (T,) and positions (nx,), (ny,), NaN where missing."""

    ts: np.ndarray
    x: np.ndarray
    y: np.ndarray
    values: np.ndarray


def load(file) -> Vectors:
    """The vectors of a file, or of the data set of this name."""
    path = Path(file) if Path(file).suffix else DATA / f"{file}.h5"
    with h5py.File(path) as opened:
        clock = "nominal_time" if "nominal_time" in opened else "time"
        axes = [np.asarray(opened[name], float) for name in (clock, "x", "y")]
        return Vectors(*axes, np.stack([np.asarray(opened[c], float) for c in "uv"], -1))


def score(predicted, observed, where=None) -> Score:
    """The error of predicted vectors (..., 2), over those that both have and `where` (...) is true."""
    seen = np.isfinite(observed).all(-1) & (True if where is None else where)
    counted = seen & np.isfinite(predicted).all(-1)
    wrong, true = (predicted - observed)[counted], observed[seen]
    return _scored(wrong, true, true - true.mean(axis=0))


def _scored(wrong, true, around) -> Score:
    error, speed, fluctuation = (np.sqrt(np.mean(np.sum(a**2, axis=-1))) for a in (wrong, true, around))
    return Score(error / speed, error / fluctuation, error, len(wrong))


def noise(values) -> dict[int, float]:
    """Standard deviation of the noise of a component, from differences in time of first to fourth order.

    It does not depend on the order where the flow is steady. Elsewhere it falls until the motion is gone. Noise that stays
    from frame to frame does not show.
    """
    variances = {1: 2, 2: 6, 3: 20, 4: 70}
    found = {}
    for order, variance in variances.items():
        if order < len(values):
            found[order] = float(np.sqrt(np.nanmean(np.diff(values, order, axis=0) ** 2) / variance))
    return found


def noise_line(values) -> str:
    rms = np.sqrt(np.nanmean(values**2))
    parts = (f"order {order} {100 * s / rms:.2f} %" for order, s in noise(values).items())
    return f"noise of a component by differences in time, of its root mean square: {', '.join(parts)}"


def soap_film():
    """Forecasts of the fifth frame from the four before it; in common: over the vectors that all frames have."""
    w = load("soap_film").values
    baselines = {
        "persistence": w[3],
        "linear": 2 * w[3] - w[2],
        "half linear": 1.5 * w[3] - 0.5 * w[2],
        "linear, two frames": w[3] + (w[3] - w[1]) / 2,
        "quadratic": 3 * w[3] - 3 * w[2] + w[1],
        "cubic": 4 * w[3] - 6 * w[2] + 4 * w[1] - w[0],
    }
    common = np.isfinite(w).all(axis=(0, -1))
    for name, predicted in baselines.items():
        print(
            f"  frame 5, {name:20s} {score(predicted, w[4])}   {100 * score(predicted, w[4], common).of_speed:6.2f} % in common"
        )
    print(f"  {noise_line(w)}")


def active_nematic():
    """Frames 2, 5 and 8 from the others."""
    ts, _, _, w = load("active_nematic")
    kept = np.array([k for k in range(len(w)) if k + 1 not in HELD_OUT])
    cubic = CubicSpline(ts[kept], np.nan_to_num(w[kept]))(ts)
    # a spline through vectors that are missing in a frame is none
    cubic[:, ~np.isfinite(w[kept]).all(axis=(0, -1))] = np.nan
    for k in (frame - 1 for frame in HELD_OUT):
        both = {
            "persistence": w[k - 1],
            "linear": (w[k - 1] + w[k + 1]) / 2,
            "cubic spline": cubic[k],
        }
        for name, predicted in both.items():
            print(f"  frame {k + 1}, {name:14s} {score(predicted, w[k])}")
    print(f"  {noise_line(w)}")


def cavity():
    """Whether the flow is steady: frames against the mean of the others."""
    _, x, y, w = load("cavity")
    for k in range(len(w)):
        print(f"  frame {k + 1}, mean of the others {score(np.nanmean(np.delete(w, k, axis=0), axis=0), w[k])}")
    print(f"  {noise_line(w)}")
    mean = np.nanmean(w, axis=0)
    speed = np.where(np.isfinite(w).all(-1).sum(axis=0) >= 4, np.linalg.norm(mean, axis=-1), np.nan)
    i, j = np.unravel_index(np.nanargmax(speed), speed.shape)
    print(f"  largest mean speed {speed[i, j]:.0f} pixel/s at x = {x[i]:.0f}, y = {y[j]:.0f}")


def gaps(flow: Vectors, edge: int, count: int, seed: int):
    """Squares of so many vectors in the wake, with at least nine tenths of their vectors measured in every frame."""
    rng, measured = np.random.default_rng([seed, edge]), np.isfinite(flow.values).all(axis=(0, -1))
    wake = [np.flatnonzero((axis > a) & (axis < b)) for axis, a, b in ((flow.x, 0.0, 0.2), (flow.y, 0.07, 0.15))]
    found = []
    while len(found) < count:
        centre = [rng.choice(places) for places in wake]
        lower = [max(c - edge // 2, 2) for c in centre]
        gap = np.zeros(measured.shape, bool)
        gap[lower[0] : lower[0] + edge, lower[1] : lower[1] + edge] = True
        # the square ends before the cylinder
        if measured[gap].mean() >= 0.9 and flow.x[min(lower[0] + edge - 1, len(flow.x) - 1)] < 0.2:
            found.append(gap)
    return found


def wake(count: int = 6, seed: int = 0):
    """Squares of the wake, filled from the vectors around them, each frame by itself."""
    flow = load("wake")
    x, y = flow.x, flow.y
    print(f"  {noise_line(flow.values - np.nanmean(flow.values, axis=(0, 1, 2)))}, without the mean")
    for edge in GAPS:
        wrong, true, around, chosen = {}, [], [], []
        for gap in gaps(flow, edge, count, seed):
            first = np.where(gap[..., None], np.nan, flow.values[0])
            # the frames are too close in time to differ in scales
            scales = [likeliest(x, y, first, gap, solenoidal) for solenoidal in (True, False)]
            chosen.append(scales[0])
            for frame in flow.values:
                masked = np.where(gap[..., None], np.nan, frame)
                filled = {
                    "mean around": np.where(gap[..., None], np.nanmean(masked[_near(gap)], axis=0), frame),
                    "harmonic": harmonic(x, y, masked),
                    "thin plate": thin_plate(x, y, masked, gap),
                    "smoothed thin plate": thin_plate(x, y, masked, gap, smoothing=1.0),
                    "Gaussian process": gaussian_process(x, y, masked, gap, scales[1], solenoidal=False),
                    "without divergence": gaussian_process(x, y, masked, gap, scales[0]),
                }
                counted = gap & np.isfinite(frame).all(-1)
                for name, field in filled.items():
                    wrong.setdefault(name, []).append((field - frame)[counted])
                true.append(frame[counted])
                around.append(true[-1] - true[-1].mean(axis=0))
        true, around = np.concatenate(true), np.concatenate(around)
        for name, parts in wrong.items():
            worst = max(np.sqrt(np.mean(np.sum(p**2, -1))) for p in parts)
            total = _scored(np.concatenate(parts), true, around)
            print(f"  {edge:2d} x {edge:2d}, {name:20s} {total}   worst {worst:.4f} m/s")
        size, scales = np.sqrt(np.mean(np.sum(around**2, -1))), np.median(chosen, axis=0)
        print(f"           fluctuation {size:.4f} m/s; length, rough length and size {scales.round(2)}", flush=True)


def _near(gap):
    """A frame of two vectors around a gap."""
    inside = np.argwhere(gap)
    near = np.zeros_like(gap)
    lower, upper = inside.min(axis=0) - 2, inside.max(axis=0) + 3
    near[lower[0] : upper[0], lower[1] : upper[1]] = True
    return near & ~gap


def predicted(run, flow: Vectors, kind: str = "predicted") -> np.ndarray:
    """The velocity of a run at the vectors of a file, (T, nx, ny, 2).

    It is interpolated by cubic splines from where the run has each component. NaN is at places outside those, and at times
    that the run lacks.
    """
    found = np.full(flow.values.shape, np.nan)
    with h5py.File(Path(run) / "fields.h5") as file:
        ts = np.asarray(file["time"], float)
        for c, name in enumerate("uv"):
            data = file[f"{name}_{kind}"]
            axes = [np.asarray(file[dim[0].name], float) for dim in list(data.dims)[1:]]
            mesh = np.stack(np.meshgrid(flow.x, flow.y, indexing="ij"), -1)
            for i, t in enumerate(flow.ts):
                k = int(np.argmin(np.abs(ts - t)))
                if np.isclose(ts[k], t, rtol=0, atol=1e-6 * max(np.ptp(flow.ts), 1e-300)):
                    field = np.asarray(data[k], float)
                    if np.isfinite(field).all():
                        found[i, ..., c] = RegularGridInterpolator(axes, field, "cubic", bounds_error=False)(mesh)
    return found


def score_run(file, run, fitted=None) -> list[Score | None]:
    """The score of every frame of a file in a run, None for frames that the run lacks.

    **Arguments:**

    - `fitted`: a file with the same frames, some vectors of which are missing. Only those count.
    """
    flow, scores = load(file), []
    hidden, found = None if fitted is None else np.isnan(load(fitted).values).any(-1), predicted(run, flow)
    for k, (ours, seen) in enumerate(zip(found, flow.values, strict=True)):
        where = None if hidden is None else hidden[k]
        there = (np.isfinite(ours) & np.isfinite(seen)).all(-1) & (True if where is None else where)
        scores.append(score(ours, seen, where) if there.any() else None)
        print(f"  frame {k + 1}, t = {flow.ts[k]:g}: {scores[-1] or 'nothing to compare'}")
    common = np.isfinite(found + flow.values).all(axis=(0, -1))
    if fitted is None and common.any():
        pairs = zip([*found, flow.values[:-1].mean(axis=0)], [*flow.values, flow.values[-1]], strict=True)
        *ours, mean = (100 * score(a[common], b[common]).of_speed for a, b in pairs)
        print(f"  {common.sum()} vectors that all have, in % of their speed: {', '.join(f'{x:.1f}' for x in ours)};")
        print(f"  the last frame from the mean of those before it {mean:.1f}")
    return scores


def main(arguments):
    flows = {f.__name__: f for f in (soap_film, active_nematic, cavity, wake)}
    if arguments and arguments[0] not in flows:
        score_run(*arguments)
        return
    for name in arguments or flows:
        print(f"{name}: {flows[name].__doc__}")
        with warnings.catch_warnings():
            # a mean over vectors that are missing in every frame
            warnings.simplefilter("ignore", RuntimeWarning)
            flows[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
