"""Conversion between the units of a file and those of a model."""

import dataclasses
import functools
import math
import re
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from pdefit._util.errors import PdefitError

if TYPE_CHECKING:
    import pint.facets.plain

# longer texts are no units, and parsing time grows with length
_LONGEST = 80
_LARGEST_EXPONENT = 12

# spellings that pint does not know, and frequent ones, so that it need not be imported
_SPELLINGS = {
    "days": "day", "d": "day", "hours": "h", "hour": "h", "minutes": "min", "minute": "min", "seconds": "s", "second": "s",
    "sec": "s", "secs": "s", "milliseconds": "ms", "millisecond": "ms", "msec": "ms", "AU": "au",
    "degrees_east": "degree", "µm": "um", "μm": "um", "µs": "us", "μs": "us", "percent": "%", "": "1",
}  # fmt: skip

_NAME = re.compile(r"[^\W\d]+")
_NAMED = re.compile(r"([^\W\d]+)((?:(?:\^|\*\*)-?\d+)?)")
_NUMBER = r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"
_PIECE = re.compile(
    rf"\s*(?:(?P<number>{_NUMBER})|(?P<name>[A-Za-zµμΩ°Å_]+|%)|(?P<operator>[*·⋅./])|(?P<open>\()|(?P<close>\)))"
)
# ^2 and, behind a name or a bracket, 2 and -1 as in `mm s-1`
_POWER = re.compile(rf"\s*\^\s*([-+]?\s*{_NUMBER})")
_BARE_POWER = re.compile(rf"\s*\^?\s*([-+]?\s*{_NUMBER})")
_RAISED = re.compile("⁻?[⁰¹²³⁴⁵⁶⁷⁸⁹]+")
_DIGITS = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")


@dataclasses.dataclass(frozen=True)
class Conversion:
    """The linear map `factor * x + offset` from one unit to another. The default changes nothing."""

    factor: float = 1.0
    offset: float = 0.0

    def values(self, x: np.ndarray) -> np.ndarray:
        """Values in the new unit."""
        return x if self == Conversion() else np.asarray(x * self.factor + self.offset)

    def deviations(self, x: np.ndarray) -> np.ndarray:
        """Differences and standard deviations in the new unit. They are scaled, and no zero point is shifted."""
        return np.asarray(x * abs(self.factor))


def conversion(unit: str | None, expected: str | None) -> Conversion:
    """The conversion from one unit to another.

    Units are products of names with whole exponents: `mm`, `um`, `mm/s`, `mm s-1`, `mm^2/s`, `m**2`, `W/(m2 K)`, `10
    um`, `%`. `degC` includes its zero point where it stands alone, and is refused in a product.

    Where one side is None or "1", nothing is known of the unit, and values are taken as they are. The exception is per
    cent of "1", which are divided by 100.

    **Arguments:**

    - `unit`: the unit of the values, such as a file states it.
    - `expected`: the unit of the model.

    **Errors:** PdefitError where one unit cannot become the other, or a text is no unit.
    """
    have, want = (_SPELLINGS.get(u.strip(), u.strip()) for u in (unit or "1", expected or "1"))
    if (have, want) == ("%", "1"):
        return Conversion(0.01)
    if have == "degrees_north":
        raise PdefitError("a latitude is no colatitude; store theta = 90 - latitude in degree, and u_theta southward")
    if have == want or "1" in (have, want):
        return Conversion()
    return _convert(have, want)


@functools.lru_cache(maxsize=256)
def unit_in_system(unit: str, length: str, time: str) -> str:
    """The unit of a number in a system, from the unit that its class declares: `um^2/s` of `mm^2/s` on a grid in um.

    The words `length` and `time` stand for the system's own units. In a unit of lengths and times alone, such as
    `mm^2/s`, a name of a length stands for that of the grid. Any other unit, such as `mol/m^3`, stays as it is.

    **Arguments:**

    - `unit`: as it is declared.
    - `length`, `time`: the system's units; "1" where it has none.

    **Errors:** PdefitError where the declared unit of time is another than the system's, or that of lengths is no length.
    """
    length = length if length == "1" or _NAME.fullmatch(length) else f"({length})"
    own, names = {"length": length, "time": time}, set(_NAME.findall(unit)) - {"length", "time"}
    if not names <= {length, time} and (length, time) != ("1", "1"):
        lengths, times = ({name for name in names if _measures(name, base)} for base in ("m", "s"))
        if names == lengths | times:
            # pixels are lengths on a camera, and names that nobody knows may be, too
            no_length = bool(lengths) and (_measures(length, "s") or _measures(length, "rad")) and length != "1"
            if no_length or any(not _measures(x, time) or conversion(x, time) != Conversion() for x in times):
                raise PdefitError(
                    f"A parameter is declared in {unit}, but the system has lengths in {length} and times in {time}; "
                    f"correct length_unit, or write that unit with the words length and time"
                )
            own |= {} if length == "1" else dict.fromkeys(lengths, length)
    written = _NAMED.sub(lambda m: "1" if own.get(m[1]) == "1" else own.get(m[1], m[1]) + m[2], unit)
    return written.replace("/1", "") if written != unit else unit


def _measures(name: str, base: str) -> bool:
    """Test for a name of what another unit measures."""
    try:
        conversion(name, base)
    except PdefitError:
        return False
    return True


@functools.lru_cache(maxsize=256)
def _convert(have: str, want: str) -> Conversion:
    pint, registry = _pint()
    old, new = _quantity(have), _quantity(want)
    try:
        points = [
            registry.Quantity(x * old.magnitude, old.units).to(new.units).magnitude / new.magnitude
            for x in (0.0, 1.0, 2.0)
        ]
    except pint.DimensionalityError:
        raise PdefitError(f"'{have}' and '{want}' do not measure the same; convert the file") from None
    except (pint.errors.PintError, ArithmeticError, ValueError, TypeError):
        raise PdefitError(f"'{have}' cannot be converted to '{want}'; convert the file") from None
    offset, factor = points[0], points[1] - points[0]
    # a logarithmic unit such as the decibel is no multiple of another
    straight = math.isclose(points[2] - points[1], factor, rel_tol=1e-6)
    if not (straight and math.isfinite(factor) and math.isfinite(offset) and factor != 0):
        raise PdefitError(f"'{have}' is no multiple of '{want}'; convert the file")
    return Conversion(factor, offset)


@functools.cache
def _pint() -> "tuple[ModuleType, pint.UnitRegistry]":
    """The library and its registry, loaded when they are first used, because they take half a second."""
    import pint

    return pint, pint.UnitRegistry(cache_folder=None)


def _quantity(text: str) -> "pint.facets.plain.PlainQuantity":
    """A unit as a quantity of pint.

    pint evaluates any expression, and never ends on some. So it is given a new text of numbers in floating point,
    names, products, brackets and small whole exponents only.
    """
    if len(text) > _LONGEST:
        raise PdefitError(f"A unit of {len(text)} characters is no unit; write for example mm/s")
    pint, registry = _pint()
    try:
        found = registry.Quantity(registry.parse_expression(_written_for_pint(text)))
        if math.isfinite(found.magnitude) and found.magnitude > 0:
            return found
    except (pint.errors.PintError, ArithmeticError, ValueError, TypeError, AttributeError, AssertionError):
        pass
    raise PdefitError(f"'{text}' is no unit that is known; write for example mm/s, um, day, degC or 1")


def _written_for_pint(text: str) -> str:
    """A unit in the syntax of Python. ValueError where it is none of the grammar."""
    text = _RAISED.sub(lambda raised: f"^{raised[0].translate(_DIGITS)} ", text).replace("**", "^").rstrip()
    written, position, ended = [], 0, False
    while position < len(text):
        piece = _PIECE.match(text, position)
        if piece is None or piece.lastgroup is None:
            raise ValueError
        kind, token, position = piece.lastgroup, piece[piece.lastgroup], piece.end()
        follows = kind in ("operator", "close")
        if follows and not ended:
            raise ValueError
        if ended and not follows:
            written.append("*")
        if kind == "name":
            token = _SPELLINGS.get(token, token).replace("%", "percent")
        elif kind == "number":
            token = repr(float(token))
        elif kind == "operator" and token != "/":
            token = "*"
        written.append(token)
        ended = kind in ("number", "name", "close")
        if ended and (power := (_POWER if kind == "number" else _BARE_POWER).match(text, position)):
            position = power.end()
            exponent = power[1].replace(" ", "")
            if not re.fullmatch(r"[+-]?\d{1,2}", exponent) or abs(int(exponent)) > _LARGEST_EXPONENT:
                raise ValueError
            # a zero point cannot be raised, not even to the power 1
            if int(exponent) != 1:
                written.append(f"** {int(exponent)}")
    if text.count("(") != text.count(")"):
        raise ValueError
    return " ".join(written)
