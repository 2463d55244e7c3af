"""Options of imports: lists of numbers such as `crop=[0,100,0,80]`, choices, and the scale of a recording."""

import dataclasses
import math
import re
from collections.abc import Collection, Mapping

from pdefit._util.errors import PdefitError, unknown
from pdefit.data.units import conversion

# the unit that each quantity is converted to, and an example
_QUANTITIES = {"pixel": ("m", "19.53um"), "frame": ("s", "2ms"), "delay": ("s", "2ms")}
SCALE_OPTIONS = (*_QUANTITIES, "scale")
PIXELS, _FRAMES = {"px", "pix", "pixel", "pixels"}, {"frame", "frames", "dt"}
_QUANTITY = re.compile(r"\s*([0-9.]+(?:[eE][-+]?\d+)?)\s*(\D.*)")
_SPEED = re.compile(r"\s*(\w+)\s*(?:/\s*(\w+)|[*· ]\s*(\w+?)\s*(?:\^|\*\*)?(?:-1|⁻¹))\s*")


def refuse_unknown(kind: str, options: Mapping[str, str], known: Collection[str]) -> None:
    """Refuse unknown options of a kind of files.

    **Arguments:**

    - `kind`: the name of the kind, such as "piv".
    - `options`: the given options.
    - `known`: the names of known options.
    """
    for name in options:
        if name not in known:
            raise unknown(f"option of import {kind}", name, known)


def choice(options: Mapping[str, str], key: str, valid: tuple[str, ...], remedy: str = "correct it") -> str | None:
    """The value of an option with a fixed set of words; None if it was not given."""
    value = options.get(key)
    if value is not None and value not in valid:
        raise PdefitError(f"{key} expects {' or '.join(valid)}, but got '{value}'; {remedy}")
    return value


def numbers(key: str, text: str, example: str, counts: tuple[int, ...], whole: bool = False) -> list[float]:
    """The numbers in a text such as "[64, 32]".

    **Arguments:**

    - `key`: name of the option.
    - `text`: its value, with or without brackets.
    - `example`: a valid value, for the error.
    - `counts`: the permitted numbers of entries; empty for any number.
    - `whole`: whether the entries must be non-negative integers.

    **Errors:** PdefitError for any other text.
    """
    try:
        values = [float(word) for word in text.strip().removeprefix("[").removesuffix("]").split(",")]
    except ValueError:
        values = []
    wrong = not all(map(math.isfinite, values)) or (whole and any(n < 0 or n != int(n) for n in values))
    if not values or wrong or (counts and len(values) not in counts):
        raise PdefitError(f"{key} expects {key}={example}, but got '{text}'; correct it")
    return values


def whole_numbers(key: str, text: str, example: str, counts: tuple[int, ...]) -> list[int]:
    """Non-negative integers in a text; arguments as in `numbers`."""
    return [int(n) for n in numbers(key, text, example, counts, whole=True)]


def number(key: str, text: str, least: int = 0) -> int:
    """The integer in a text, at least `least`."""
    value = whole_numbers(key, text, "2", (1,))[0]
    if value < least:
        raise PdefitError(f"{key} expects {least} or more, but got '{text}'; correct it")
    return value


@dataclasses.dataclass(frozen=True)
class Scale:
    """Length of a pixel and time between frames, if known.

    **Arguments:**

    - `pixel`: the length of a pixel in m; None if not stated.
    - `frame`: the time between frames in s; None if not stated.
    - `delay`: the time between the two images of a pair in s; by default `frame`.
    - `unknown`: whether pixels and frames remain the units.
    """

    pixel: float | None = None
    frame: float | None = None
    delay: float | None = None
    unknown: bool = False

    def completed(self, pixel: float | None = None, frame: float | None = None, delay: float | None = None) -> "Scale":
        """The scale, completed with values from files that the options do not state."""
        return self if self.unknown else Scale(self.pixel or pixel, self.frame or frame, self.delay or delay)

    def length(self, unit: str) -> tuple[float, str]:
        """Conversion factor for lengths in `unit`, and the resulting unit: "m" or "pixel"."""
        return self._to(unit, PIXELS, self.pixel, "pixel", "m")

    def time(self, unit: str) -> tuple[float, str]:
        """Conversion factor for times in `unit`, and the resulting unit: "s" or "frame"."""
        return self._to(unit, _FRAMES, self.frame, "frame", "s")

    def velocity(self, unit: str) -> tuple[float, str]:
        """Conversion factor for velocities in `unit`, such as "px/frame", and the resulting unit."""
        speed = _SPEED.fullmatch(unit)
        if speed is None:
            raise PdefitError(f"'{unit}' is no unit of a velocity; write for example m/s or pixel/frame")
        length, to = self.length(speed[1])
        pair = dataclasses.replace(self, frame=self.delay or self.frame)
        time, per = pair.time(speed[2] or speed[3])
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
    """The scale stated by `pixel=19.53um frame=2ms delay=100us` or `scale=unknown`."""
    none = choice(options, "scale", ("unknown",), "write pixel=LENGTH frame=TIME for a known one") is not None
    given = {key: _quantity(key, options[key]) for key in _QUANTITIES if key in options}
    if given and none:
        raise PdefitError(f"scale=unknown and {next(iter(given))}= contradict each other; keep one of them")
    return Scale(**given, unknown=none)


def _quantity(key: str, text: str) -> float:
    """A length in m or a time in s, such as "19.53um"."""
    (unit, example), words = _QUANTITIES[key], _QUANTITY.fullmatch(text)
    if words and unit == "s" and words[2].strip() == "m":
        raise PdefitError(f"{key}={text} is a length in metres; write {words[1]}min for minutes, or {words[1]}ms")
    try:
        value = float(words[1]) * conversion(words[2], unit).factor if words else math.nan
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise PdefitError(f"{key} expects a positive number with a unit, such as {example}, but got '{text}'")
    return value
