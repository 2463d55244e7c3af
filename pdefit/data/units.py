"""Conversion between the units of a file and those of a model."""

import dataclasses
import functools
import math
import re
from types import ModuleType
from typing import TYPE_CHECKING, Any

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
        """Differences and standard deviations in the new unit: scaled, without a shift of the zero point."""
        return np.asarray(x * abs(self.factor))


def conversion(unit: str | None, expected: str | None) -> Conversion:
    """The conversion from one unit to another.

    Units are products of names with integer exponents: `mm`, `um`, `mm/s`, `mm s-1`, `mm^2/s`, `m**2`, `W/(m2 K)`,
    `10 um`, `%`. `degC` includes its zero point if it stands alone, and is refused in a product.

    If one side is None or "1", the unit is unknown and values are not converted, except that per cent of "1" are
    divided by 100.

    **Arguments:**

    - `unit`: the unit of the values, for example as stated in a file.
    - `expected`: the unit of the model.

    **Errors:** PdefitError if a unit cannot be converted to the other, or a text is no unit.
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
def unit_in_system(unit: str, length: str, time: str, name: str = "A parameter") -> str:
    """Unit of a number in a system: the unit declared by its class, with the system's own for `length` and `time`.

    Equations combine numbers with the spacing of the grid and with rates, so a unit of lengths and times alone must be
    the system's: `mm^2/s` is refused on a grid in um. Any other unit, such as `mol/m^3`, stays as it is.

    **Arguments:**

    - `unit`: the declared unit.
    - `length`, `time`: the system's units; "1" if it has none.
    - `name`: the name of what is declared, for errors.

    **Errors:** PdefitError for another unit of length or time than the system's.
    """
    own = {"length": length, "time": time}
    others = set(_NAME.findall(unit)) - {*own, length, time}
    powers = {other: found for other in others if (found := _powers(other))}
    if len(powers) == len(others) and not all(_agrees(other, *p, length, time) for other, p in powers.items()):
        words = {length: "length", time: "time"}
        for other, of in powers.items():
            each = " ".join(f"{word}^{power:g}" for word, power in zip(own, of, strict=True) if power)
            words[other] = each.removesuffix("^1") if each.count("^") == 1 and each.endswith("^1") else f"({each})"
        told = " and ".join(f"{word}s in {u}" for word, u in own.items() if u != "1")
        raise PdefitError(
            f"{name} is declared in {unit}, but the system has {told}; correct length_unit or time_unit, or declare "
            f"{_NAMED.sub(lambda m: words.get(m[1], m[1]) + m[2], unit)} and give numbers in the system's units"
        )
    own["length"] = length if length == "1" or _NAME.fullmatch(length) else f"({length})"
    written = _NAMED.sub(lambda m: "1" if own.get(m[1]) == "1" else own.get(m[1], m[1]) + m[2], unit)
    return written.replace("/1", "") if written != unit else unit


def _powers(name: str) -> tuple[float, float] | None:
    """Powers of length and time in a unit; None for a unit with other dimensions, or without any."""
    try:
        found: dict[str, Any] = dict(_quantity(name).dimensionality)
    except PdefitError:
        return None
    # pixels are the lengths of a camera
    powers = float(found.pop("[length]", 0) + found.pop("[printing_unit]", 0)), float(found.pop("[time]", 0))
    return powers if any(powers) and not found else None


def _agrees(name: str, lengths: float, times: float, length: str, time: str) -> bool:
    """True if a unit of lengths and times agrees with the system's own units."""
    own = [(unit, power) for unit, power in ((length, lengths), (time, times)) if power]
    try:
        factor = conversion(name, " ".join(f"({unit})^{power:g}" for unit, power in own)).factor
    except PdefitError:
        factor = math.nan
    return any(unit == "1" for unit, _ in own) or math.isclose(factor, 1, rel_tol=1e-9)


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
    """The library and its registry, loaded on first use because they take half a second."""
    import pint

    return pint, pint.UnitRegistry(cache_folder=None)


def _quantity(text: str) -> "pint.facets.plain.PlainQuantity":
    """A unit as a quantity of pint.

    pint evaluates any expression, and never terminates on some. So it receives a new text that contains only
    floating-point numbers, names, products, brackets and small integer exponents.
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


def is_unit(text: str) -> bool:
    """True if a text is a known unit."""
    try:
        return bool(_quantity(text))
    except PdefitError:
        return False


def _written_for_pint(text: str) -> str:
    """A unit in Python syntax; ValueError if it does not follow the grammar."""
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
