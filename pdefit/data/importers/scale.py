"""The scale of a recording: the length of a pixel and the time between frames."""

import dataclasses
import math
import re
from collections.abc import Mapping

from pdefit._util.errors import PdefitError, unknown
from pdefit.data.units import conversion

SCALE_OPTIONS = ("pixel", "frame", "delay", "scale")
_PIXELS, _FRAMES = {"px", "pix", "pixel", "pixels"}, {"frame", "frames", "dt"}
_QUANTITY = re.compile(r"\s*([0-9.]+(?:[eE][-+]?\d+)?)\s*(\D.*)")
_SPEED = re.compile(r"\s*(\w+)\s*(?:/\s*(\w+)|[*· ]\s*(\w+?)\s*(?:\^|\*\*)?(?:-1|⁻¹))\s*")


@dataclasses.dataclass(frozen=True)
class Scale:
    """Length of a pixel and time between frames, where they are known.

    **Arguments:**

    - `pixel`: length of a pixel in m; None where it is not stated.
    - `frame`: time between frames in s; None where it is not stated.
    - `delay`: time between the two images of a pair in s; by default `frame`.
    - `unknown`: whether pixels and frames stay the units.
    """

    pixel: float | None = None
    frame: float | None = None
    delay: float | None = None
    unknown: bool = False

    def length(self, unit: str) -> tuple[float, str]:
        """Factor of lengths in `unit`, and the unit that they have then: "m" or "pixel"."""
        return self._to(unit, _PIXELS, self.pixel, "pixel", "m")

    def time(self, unit: str) -> tuple[float, str]:
        """Factor of times in `unit`, and the unit that they have then: "s" or "frame"."""
        return self._to(unit, _FRAMES, self.frame, "frame", "s")

    def velocity(self, unit: str) -> tuple[float, str]:
        """Factor of velocities in `unit`, such as "px/frame", and the unit that they have then."""
        found = _SPEED.fullmatch(unit)
        if found is None:
            raise PdefitError(f"'{unit}' is no unit of a velocity; write for example m/s or pixel/frame")
        length, to = self.length(found[1])
        pair = dataclasses.replace(self, frame=self.delay or self.frame)
        time, per = pair.time(found[2] or found[3])
        return length / time, f"{to}/{per}"

    def _to(self, unit: str, names: set[str], size: float | None, own: str, si: str) -> tuple[float, str]:
        if unit.strip().lower() not in names:
            return conversion(unit, si).factor, si
        if self.unknown:
            return 1.0, own
        if size is None:
            raise PdefitError(
                f"The files state no physical units, only {own}s; add pixel=LENGTH (such as 19.53um) and frame=TIME (such as "
                f"2ms), or scale=unknown"
            )
        return size, si


def scale_of(options: Mapping[str, str]) -> Scale:
    """The scale that `pixel=19.53um frame=2ms delay=100us` or `scale=unknown` state."""
    if options.get("scale", "unknown") != "unknown":
        raise PdefitError(
            f"scale expects unknown, but got '{options['scale']}'; write pixel=LENGTH frame=TIME for a known one"
        )
    given = {key: _quantity(key, options[key], unit) for key, unit in _EXPECTED.items() if key in options}
    if given and "scale" in options:
        raise PdefitError(f"scale=unknown and {next(iter(given))}= contradict each other; keep one of them")
    return Scale(**given, unknown="scale" in options)


_EXPECTED = {"pixel": "m", "frame": "s", "delay": "s"}


def _quantity(key: str, text: str, unit: str) -> float:
    """A length in m or a time in s, such as "19.53um"."""
    found = _QUANTITY.fullmatch(text)
    if found and unit == "s" and found[2].strip() == "m":
        raise PdefitError(f"{key}={text} is a length in metres; write {found[1]}min for minutes, or {found[1]}ms")
    try:
        value = float(found[1]) * conversion(found[2], unit).factor if found else math.nan
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise PdefitError(f"{key} expects a positive number with a unit, such as {_EXAMPLES[unit]}, but got '{text}'")
    return value


_EXAMPLES = {"m": "19.53um", "s": "2ms"}


def refuse_unknown(kind: str, options: Mapping[str, str], known: tuple[str, ...]) -> None:
    """Refuse options that a kind of files does not have.

    **Arguments:**

    - `kind`: name of the kind, such as "piv".
    - `options`: those that were given.
    - `known`: the names of those that exist.
    """
    for name in options:
        if name not in known:
            raise unknown(f"option of import {kind}", name, known)
