"""The result of a design: expected intervals, candidate observations and cadences."""

import dataclasses
import math
from typing import Any

import numpy as np
from jaxtyping import Float

from pdefit._util.errors import with_space

# an interval that grows by this factor more than fewer values explain has lost what the record resolved
LOST = 1.25


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A further observation, and the intervals with it.

    **Arguments:**

    - `kind`: `frame` (at one more time), `field` (at every frame of the record once more, or a hidden one), `place` (a
      part of a variable at every frame once more) or `recording` (a repeat).
    - `words`: its description.
    - `half`: the half width of every interval with it, relative to the value of the unknown, (p,).
    - `variable`, `time`, `place`: the variable, the time, and the centre of the part if it has one.
    - `axes`: the axes of the place, with their units.
    - `is_second`: whether it is a second observation, in addition to the best one of its kind.
    """

    kind: str
    words: str
    half: Float[np.ndarray, " p"]
    variable: str = ""
    time: float | None = None
    place: tuple[float, ...] | None = None
    axes: tuple[str, ...] = ()
    is_second: bool = False


@dataclasses.dataclass(frozen=True)
class Cadence:
    """A sampling cadence, with its number of frames and its intervals.

    **Arguments:**

    - `every`: n keeps every n-th frame; 0.5 and 0.25 take twice and four times as many.
    - `frames`: the number of informative frames.
    - `half`: the half width of every interval, relative to the value of the unknown, (p,).
    - `lost`: the factor by which each interval grew beyond the square root of the number of frames, (p,).
    """

    every: float
    frames: int
    half: Float[np.ndarray, " p"]
    lost: Float[np.ndarray, " p"]


@dataclasses.dataclass(frozen=True)
class Design:
    """Expected intervals of an experiment, and further observations that would shorten them.

    **Arguments:**

    - `names`, `units`: the name and unit of every element of theta.
    - `estimate`, `low`, `high`: its value, and the ends of its 95 % interval, (p,).
    - `half`: the half width of that interval, relative to the value, (p,); infinite if it is undetermined. For a value
      of zero it is in the unit of the value.
    - `target`: the index of the element to be determined better.
    - `candidates`: further observations: each kind in the order of its gain, then a second recording, then the best
      pairs.
    - `cadences`: records with other numbers of frames, the densest first.
    - `ts`, `time_unit`: the times of the record, and their unit.
    """

    names: tuple[str, ...]
    units: tuple[str, ...]
    estimate: Float[np.ndarray, " p"]
    low: Float[np.ndarray, " p"]
    high: Float[np.ndarray, " p"]
    half: Float[np.ndarray, " p"]
    target: int
    candidates: tuple[Candidate, ...]
    cadences: tuple[Cadence, ...]
    ts: Float[np.ndarray, " T"]
    time_unit: str

    @property
    def undetermined(self) -> tuple[str, ...]:
        """Names of the unknowns that the record would not determine."""
        return tuple(name for name, half in zip(self.names, self.half, strict=True) if not np.isfinite(half))

    def best(self, kind: str, second: bool = False) -> Candidate | None:
        """The candidate of a kind with the shortest interval of the target; None if there is no candidate."""
        return next((c for c in self.candidates if c.kind == kind and c.is_second == second), None)

    def shrink(self, candidate: Candidate) -> Float[np.ndarray, " p"]:
        """Interval widths with a candidate, relative to the widths without it, (p,)."""
        return np.where(np.isfinite(self.half), candidate.half / np.where(self.half > 0, self.half, 1.0),
                        np.where(np.isfinite(candidate.half), 0.0, 1.0))  # fmt: skip

    def width(self, half: Float[np.ndarray, " p"] | None = None, k: int | None = None) -> str:
        """Half width as text, such as ±3 % or undetermined; default: the target's."""
        k = self.target if k is None else k
        x = float((self.half if half is None else half)[k])
        if not math.isfinite(x):
            return "undetermined"
        return f"±{x:.3g}" if self.estimate[k] == 0 else f"±{100 * x:.3g} %"

    @property
    def enough(self) -> Cadence | None:
        """The coarsest cadence that loses no interval by more than the factor `LOST`; None if no cadence qualifies."""
        found = None
        for one in self.cadences:
            if one.every >= 1:
                if np.any(one.lost > LOST):
                    break
                found = one
        return found

    def sentence(self) -> str:
        """The best further observation as one sentence."""
        name, best = self.names[self.target], self.best("frame")
        repeat = self.best("recording")
        if best is None or not np.isfinite(best.half[self.target]):
            return f"No single further frame would determine {name}."
        again = f"; a second recording to {self.width(repeat.half)}" if repeat else ""
        shorter = f"from {self.width()} to {self.width(best.half)}{again}"
        return f"{best.words}{with_space(self.time_unit)} would shrink the interval of {name} {shorter}."

    def rows(self) -> list[dict[str, Any]]:
        """Table rows: the plan, each candidate and each cadence, with the intervals of all unknowns."""
        found = [self._row("now", "as planned", self.half)]
        for c in self.candidates:
            shrink = {f"shrink {n}": x for n, x in zip(self.names, self.shrink(c).tolist(), strict=True)}
            known = {"variable": c.variable, "time": c.time, **shrink}
            found.append(self._row(c.kind + " 2" * c.is_second, c.words, c.half) | known)
        each = ((f"every {c.every:g} frames", c) for c in self.cadences)
        return found + [self._row("cadence", words, c.half) | {"frames": c.frames} for words, c in each]

    def _row(self, kind: str, words: str, half: np.ndarray) -> dict[str, Any]:
        halves = {f"half {n}": x for n, x in zip(self.names, half.tolist(), strict=True)}
        return {"kind": kind, "what": words, "variable": "", "time": None, "frames": None, **halves}

    def record(self) -> dict[str, Any]:
        """The content of design.json."""
        columns = ("control", "unit", "value", "low", "high", "half")
        intervals = zip(self.names, self.units, self.estimate, self.low, self.high, self.half, strict=True)
        return {
            "target": self.names[self.target],
            "undetermined": self.undetermined,
            "sentence": self.sentence(),
            "time_unit": self.time_unit,
            "times": self.ts,
            "lost": LOST,
            "enough": None if self.enough is None else self.enough.every,
            "intervals": [dict(zip(columns, row, strict=True)) for row in intervals],
            "candidates": [
                {"what": c.words, "second": c.is_second, "shrink": self.shrink(c)}
                | {name: getattr(c, name) for name in ("kind", "variable", "time", "place", "axes", "half")}
                for c in self.candidates
            ],
            "cadences": [dataclasses.asdict(c) for c in self.cadences],
        }

    def __str__(self) -> str:
        """One line for each unknown with its interval, and the sentence."""
        across = max(map(len, self.names), default=0)
        lines = [
            f"{name:<{across}}  {x:<10.5g} {self.width(k=k):<14} {unit}".rstrip()
            for k, (name, x, unit) in enumerate(zip(self.names, self.estimate, self.units, strict=True))
        ]
        return "\n".join([*lines, self.sentence()])
