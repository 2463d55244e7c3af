"""The rod without pdefit: its exact solution, its data, and the estimates that least squares by scipy find in them."""

from pathlib import Path
from typing import Any

import h5py
import numpy as np
from scipy.linalg import expm
from scipy.optimize import least_squares

CELLS, STOP = 8, 2.0
TRUTH = np.array([0.02, 0.5])
X = (np.arange(CELLS) + 0.5) / CELLS
START = 1e4 * (1 + 0.5 * np.cos(2 * np.pi * X))
TIMES = np.linspace(0.0, STOP, 17)
# a pulse of heat, between frames
PULSE = {"times": [0.0, 0.3, 0.31, 0.81, 0.82, 2.0], "values": [0.0, 0.0, 4e3, 4e3, 0.0, 0.0]}
# a dose, and an infusion from a time to another
DOSE, INFUSION = (1.0, 2e3), (0.47, 0.47 + 0.85, 1.5e3 / 0.85)
POINTS = np.array([0.1, 0.35, 0.52, 0.71, 0.93])
GAIN, OFFSET, BLUR, SHARE = 2.0, 500.0, 0.08, 0.25


def _laplacian() -> np.ndarray:
    one = np.eye(CELLS)
    return CELLS**2 * (np.roll(one, 1, 0) + np.roll(one, -1, 0) - 2 * one)


def states(theta: np.ndarray, y0: np.ndarray, ts: np.ndarray, pulse: bool, doses: bool) -> np.ndarray:
    """The states at times, the first of which is that of y0, without any step: exponentials of matrices."""
    rates = theta[0] * _laplacian() - theta[1] * np.eye(CELLS)
    # the heat is linear between knots, so it and its slope are two more unknowns
    inside = [*PULSE["times"] * pulse, *(DOSE[0], *INFUSION[:2]) * doses]
    ends = np.union1d(ts, [t for t in inside if ts[0] < t < ts[-1]])
    y, kept = np.asarray(y0, float), [y0]
    for a, b in zip(ends[:-1], ends[1:], strict=True):
        low, high = np.interp([a, b], PULSE["times"], PULSE["values"]) if pulse else np.zeros(2)
        if doses and INFUSION[0] <= a < INFUSION[1]:
            low, high = low + INFUSION[2], high + INFUSION[2]
        # a frame at that time was kept before
        y = y + DOSE[1] * (doses and a == DOSE[0])
        whole = np.zeros((CELLS + 2, CELLS + 2))
        whole[:CELLS, :CELLS], whole[:CELLS, CELLS], whole[CELLS, CELLS + 1] = rates, 1.0, 1.0
        y = (expm(whole * (b - a)) @ np.concatenate([y, [low, (high - low) / (b - a)]]))[:CELLS]
        kept += [y] if np.isin(b, ts) else []
    return np.array(kept)


def seen(y: np.ndarray, instrument: str) -> np.ndarray:
    """Observations of states by an instrument, (T, cells)."""
    if instrument == "points":
        at = POINTS * CELLS - 0.5
        low = np.floor(at).astype(int)
        return y[:, low % CELLS] * (low + 1 - at) + y[:, (low + 1) % CELLS] * (at - low)
    if instrument == "camera":
        waves = 2 * np.pi * np.fft.rfftfreq(CELLS, 1 / CELLS)
        return GAIN * np.fft.irfft(np.fft.rfft(y) * np.exp(-((waves * BLUR) ** 2) / 2), CELLS) + OFFSET
    return y + SHARE * np.roll(y, 1, axis=1) if instrument == "own" else y


def sigma(mean: np.ndarray, noise: str) -> np.ndarray:
    """The standard deviation of the noise of values."""
    known = {"counts": np.sqrt(np.abs(mean)), "prediction": np.sqrt(50.0**2 + (0.01 * mean) ** 2)}
    return known.get(noise, np.full_like(mean, 100.0))


class Rod:
    """One record: the choices that it depends on, and its data.

    **Arguments:** `chosen`: the names of the choices by axis; `seed`: of the noise.
    """

    def __init__(self, chosen: dict[str, str], seed: int = 0):
        self.instrument, self.noise = chosen["instrument"], chosen["noise"]
        self.heated = chosen["steps"] == "jumps", chosen["events"] == "doses"
        self.before = chosen["start"] == "before"
        self.free = chosen["start"] == "unknown" or chosen["formulation"] == "nodes"
        self.windows = chosen["formulation"] == "windows"
        # one interval earlier
        self.ts = TIMES[1:] if self.before else TIMES
        mean = self.predicted(TRUTH, START)
        random = np.random.default_rng(seed)
        self.values = mean + sigma(mean, self.noise) * random.standard_normal(mean.shape)

    def predicted(self, theta: np.ndarray, y0: np.ndarray) -> np.ndarray:
        """The values that are compared with the data."""
        whole = states(theta, y0, TIMES, *self.heated)
        return seen(whole[1:] if self.before else whole, self.instrument)

    def write(self, path: Path) -> Path:
        """The data in a file."""
        with h5py.File(path, "w") as file:
            file["time"], file["u"] = self.ts, self.values
        return path

    def residuals(self, x: np.ndarray, deviation: np.ndarray) -> np.ndarray:
        theta, y0 = np.exp(x[:2]), x[2:] * 1e4 if self.free else START
        if not self.windows:
            return ((self.predicted(theta, y0) - self.values) / deviation).ravel()
        # each window starts from its first frame, or from what is known where nothing is seen
        parts, first = [], len(TIMES) - len(self.ts)
        for a in range(0, 16, 8):
            begin = START if a < first else self._state(a - first)
            y = seen(states(theta, begin, TIMES[a : a + 9], *self.heated), self.instrument)[1:]
            frames = slice(a + 1 - first, a + 9 - first)
            parts.append((y - self.values[frames]) / deviation[frames])
        return np.concatenate(parts).ravel()

    def _state(self, frame: int) -> np.ndarray:
        """The state that the instrument shows in a frame."""
        at_zero = seen(np.zeros((1, CELLS)), self.instrument)[0]
        matrix = (seen(np.eye(CELLS), self.instrument) - at_zero).T
        return np.linalg.solve(matrix, self.values[frame] - at_zero)

    def prediction(self, x: np.ndarray) -> np.ndarray:
        """The values at x, which give the noise its size."""
        return self.predicted(np.exp(x[:2]), x[2:] * 1e4 if self.free else START)


def estimate(records: list[Rod]) -> tuple[np.ndarray, np.ndarray]:
    """D and k from all records together, with their standard errors: least squares, with the sigma of the prediction."""
    own = CELLS if records[0].free else 0
    x = np.concatenate([np.log(TRUTH), *[START / 1e4 for _ in records if own]])
    place = [np.r_[0:2, 2 + e * own : 2 + (e + 1) * own] for e in range(len(records))]
    found: Any = None
    for _ in range(6):
        sizes = [sigma(r.prediction(x[p]), r.noise) for r, p in zip(records, place, strict=True)]

        def residuals(x: np.ndarray, sizes: list[np.ndarray] = sizes) -> np.ndarray:
            return np.concatenate([r.residuals(x[p], s) for r, p, s in zip(records, place, sizes, strict=True)])

        found = least_squares(residuals, x, xtol=1e-13, ftol=1e-13, gtol=1e-13)
        x = found.x
        if records[0].noise not in ("counts", "prediction"):
            break
    deviation = np.sqrt(np.diag(np.linalg.inv(found.jac.T @ found.jac))[:2])
    return np.exp(x[:2]), np.exp(x[:2]) * deviation
