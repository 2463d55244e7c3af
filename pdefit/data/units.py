"""Conversion between the units of a file and those of a model."""

import dataclasses
import functools
import math
import re
from typing import Any

import numpy as np

from pdefit._util.errors import PdefitError

# longer texts are no units, and parsing time grows with length
_LONGEST = 80
_LARGEST_EXPONENT = 12

# spellings that pint does not know, and frequent ones, so that it need not be imported
_SPELLINGS = {
    "days": "day", "d": "day", "hours": "h", "hour": "h", "minutes": "min", "minute": "min", "seconds": "s", "second": "s",
    "sec": "s", "secs": "s", "milliseconds": "ms", "millisecond": "ms", "msec": "ms", "AU": "au",
    "µm": "um", "μm": "um", "µs": "us", "μs": "us", "percent": "%", "": "1",
}  # fmt: skip

_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|(?P<name>[A-Za-zµμΩ°Å_]+|%)|(?P<power>\*\*|\^)"
    r"|(?P<raised>⁻?[⁰¹²³⁴⁵⁶⁷⁸⁹]+)|(?P<sign>[-+])|(?P<times>[*·⋅.])|(?P<over>/)|(?P<open>\()|(?P<close>\)))"
)
_RAISED = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")


@dataclasses.dataclass(frozen=True)
class Conversion:
    """From one unit to another: `factor * x + offset`."""

    factor: float = 1.0
    offset: float = 0.0

    def values(self, x: np.ndarray) -> np.ndarray:
        """Values in the other unit."""
        return x if self == Conversion() else x * self.factor + self.offset

    def deviations(self, x: np.ndarray) -> np.ndarray:
        """Differences and standard deviations in the other unit: no zero point is shifted."""
        return x * abs(self.factor)


def conversion(unit: str | None, expected: str | None) -> Conversion:
    """From `unit` to `expected`.

    Units are products of names with whole exponents: `mm`, `um`, `mm/s`, `mm s-1`, `mm^2/s`, `m**2`, `W/(m2 K)`, `10 um`,
    `degC` (with its zero point where it stands alone, refused in a product), `%`. No unit, or "1", on either side promises
    nothing: values are taken as they are. One thing is certain even then: per cent of "1" are divided by 100.
    PdefitError where one cannot become the other, or a text is no unit.
    """
    have, want = (_SPELLINGS.get(u.strip(), u.strip()) for u in (unit or "1", expected or "1"))
    if (have, want) == ("%", "1"):
        return Conversion(0.01)
    if have == want or "1" in (have, want):
        return Conversion()
    return _convert(have, want)


@functools.lru_cache(maxsize=256)
def _convert(have: str, want: str) -> Conversion:
    pint, registry = _pint()
    old, new = _Parser(have).unit(), _Parser(want).unit()
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
    # decibels and the like are no multiples
    straight = math.isclose(points[2] - points[1], factor, rel_tol=1e-6)
    if not (straight and math.isfinite(factor) and math.isfinite(offset) and factor != 0):
        raise PdefitError(f"'{have}' is no multiple of '{want}'; convert the file")
    return Conversion(factor, offset)


@functools.cache
def _pint() -> tuple[Any, Any]:
    """The library and its registry, on first use: they take half a second."""
    import pint

    return pint, pint.UnitRegistry(cache_folder=None)


class _Parser:
    """Reads a unit by a grammar of its own: pint would evaluate any expression, and never end on some."""

    def __init__(self, text: str):
        self.text = text
        if len(text) > _LONGEST:
            raise PdefitError(f"A unit of {len(text)} characters is no unit; write for example mm/s")
        self.tokens: list[tuple[str, str]] = []
        position = 0
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None or match.lastgroup is None:
                raise self._error()
            self.tokens.append((match.lastgroup, match[match.lastgroup]))
            position = match.end()

    def unit(self) -> Any:
        """The whole text as a quantity of pint."""
        pint, _ = _pint()
        try:
            found = self._product()
        except (pint.errors.PintError, ArithmeticError, ValueError, TypeError, AttributeError, AssertionError):
            raise self._error() from None
        if self.tokens or not (math.isfinite(found.magnitude) and found.magnitude > 0):
            raise self._error()
        return found

    def _error(self) -> PdefitError:
        return PdefitError(f"'{self.text}' is no unit that is known; write for example mm/s, um, day, degC or 1")

    def _next(self, *kinds: str) -> str | None:
        """The next token, if it is of one of these kinds."""
        return self.tokens.pop(0)[1] if self.tokens and self.tokens[0][0] in kinds else None

    def _product(self) -> Any:
        found = self._factor()
        while self.tokens and self.tokens[0][0] not in ("close", "power", "sign", "raised"):
            if self._next("over"):
                found = found / self._factor()
            else:
                self._next("times")
                found = found * self._factor()
        return found

    def _factor(self) -> Any:
        """A number, a name with its exponent, or a product in brackets with its."""
        _, registry = _pint()
        if (number := self._next("number")) is not None:
            return registry.Quantity(float(number)) ** self._exponent(bare=False)
        if self._next("open"):
            inside = self._product()
            if self._next("close") is None:
                raise self._error()
        elif (name := self._next("name")) is not None:
            name = _SPELLINGS.get(name, name)
            inside = registry.Quantity(1.0, "percent" if name == "%" else name)
        else:
            raise self._error()
        exponent = self._exponent(bare=True)
        # a zero point cannot be raised, not even to the power 1
        return inside if exponent == 1 else inside**exponent

    def _exponent(self, *, bare: bool) -> int:
        """^2, **2, ² and, after a name, 2 and -1 as in `mm s-1`."""
        if (raised := self._next("raised")) is not None:
            text = raised.translate(_RAISED)
        elif self._next("power") or (bare and self.tokens and self.tokens[0][0] in ("number", "sign")):
            text = (self._next("sign") or "") + (self._next("number") or "")
        else:
            return 1
        if not re.fullmatch(r"[+-]?\d{1,2}", text) or abs(int(text)) > _LARGEST_EXPONENT:
            raise self._error()
        return int(text)
