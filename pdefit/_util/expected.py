"""Rules for configuration values, each with the words of its error message."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Annotated, Any, NamedTuple

from pdefit._util.errors import PdefitError
from pdefit._util.memory import size_in_bytes
from pdefit._util.trees import is_traced

# largest 64-bit integer: JAX holds seeds and counts of iterations in one
_LARGEST = 2**63 - 1


@dataclasses.dataclass(frozen=True)
class Expected:
    """A rule for values of an annotated type.

    **Arguments:**

    - `words`: what is expected, as it follows "expects" in an error.
    - `test`: whether a value is valid.
    - `convert`: maps a valid value to the entry of the section.
    - `remedy`: what to do about an invalid number, if the words do not say it.
    - `each`: whether an entry of a mapping or list is valid, so that an error names the invalid entry.
    """

    words: str
    test: Callable[[Any], bool]
    convert: Callable[[Any], Any] = lambda value: value
    remedy: str = ""
    each: Callable[[Any], bool] | None = None

    def but(self, value: Any, path: str) -> str:
        """The end of an error message, with the invalid value."""
        wrong = f"got {value!r}"
        if self.each is not None and isinstance(value, Mapping | list | tuple):
            entries = value.items() if isinstance(value, Mapping) else enumerate(value)
            wrong = next((f"{path}.{k} is {entry!r}" for k, entry in entries if not self.each(entry)), wrong)
        return f"{wrong}; {self.remedy}" if self.remedy and is_number(value) else wrong


class Read(NamedTuple):
    """A parser of a setting, attached to its type with `Annotated`.

    **Arguments:**

    - `read`: the function, called with the value and its path (for errors).
    - `expected`: the expected value in error messages: a phrase, or the settings class that lists the valid keys; by
      default derived from the annotated type.
    """

    read: Callable[[Any, str], Any]
    expected: str | type | None = None


def is_number(value: Any) -> bool:
    """True if the value is one finite number."""
    return isinstance(value, int | float) and is_measure(value) and math.isfinite(float(value))


def is_measure(value: Any) -> bool:
    """True if the value is a number or the text of one, not NaN: YAML reads 1e-3 without a dot as text."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return False
    try:
        return not math.isnan(float(value))
    except (ValueError, OverflowError):
        return False


def is_whole(value: Any, least: int = 0) -> bool:
    """True if the value is a 64-bit integer not below `least`."""
    return is_index(value) and least <= value <= _LARGEST


def is_text(value: Any) -> bool:
    return isinstance(value, str)


def count(least: int = 1, remedy: str = "") -> Expected:
    """The rule for integers not below `least`."""
    return Expected(f"a whole number >= {least}", lambda value: is_whole(value, least), remedy=remedy)


def is_index(value: Any) -> bool:
    """True if the value is an integer; negative ones count from the end."""
    return isinstance(value, int) and not isinstance(value, bool)


def mapping_of(words: str, test: Callable[[Any], bool], least: int = 0, most: int | float = math.inf) -> Expected:
    """The rule for mappings with `least` to `most` entries whose values pass a test."""

    def fits(value: Any) -> bool:
        return isinstance(value, Mapping) and least <= len(value) <= most and all(map(test, value.values()))

    return Expected(words, fits, dict, each=test)


def is_size(value: Any) -> bool:
    """True if the value is a number of bytes, or a text such as "2 GB"."""
    try:
        return size_in_bytes(value, "") >= 0
    except PdefitError:
        return False


def is_list(value: Any, test: Callable[[Any], bool]) -> bool:
    """True if the value is a list whose entries all pass a test."""
    return isinstance(value, list | tuple) and all(map(test, value))


def check_rule(owner: str, name: str, hint: Any, value: Any) -> None:
    """Refuse a Python argument that breaks the rule of its annotation.

    **Arguments:**

    - `owner`, `name`: the class or function, and the name of the argument.
    - `hint`, `value`: the annotation, and the value; a traced value is accepted.
    """
    plain = value if is_traced(value) else getattr(value, "item", lambda: value)()
    for rule in getattr(hint, "__metadata__", ()):
        if isinstance(rule, Expected) and not is_traced(value) and (is_text(plain) or not rule.test(plain)):
            raise PdefitError(f"{name} of {owner} expects {rule.words}, but got {value!r}")


def check_fields(module: Any) -> None:
    """Refuse a dataclass instance with a field that breaks the rule of its annotation."""
    for field in dataclasses.fields(module):
        check_rule(type(module).__name__, field.name, field.type, getattr(module, field.name))


Number = Annotated[float, Expected("a number", is_number, float)]
WholeNumber = Annotated[int, Expected("a whole number", is_whole)]
Count = Annotated[int, count()]
Time = Annotated[float, Expected("a time", is_number, float)]
TimeStep = Annotated[float, Expected("a positive time step (e.g. 0.1)", lambda x: is_number(x) and x > 0, float)]
Share = Annotated[float, Expected("a number from 0 to 1", lambda x: is_measure(x) and 0 <= float(x) <= 1, float)]
Size = Annotated[str | float, Expected("a size like '2 GB'", is_size)]
# numbers of a control
Positive = Annotated[float, Expected("a positive number", lambda x: is_measure(x) and 0 < float(x) < math.inf, float)]
NonNegative = Annotated[float, Expected("a number of 0 or more", lambda x: is_number(x) and x >= 0, float)]
Pair = Annotated[
    tuple[float, float],
    Expected("two numbers", lambda x: is_list(x, is_measure) and len(x) == 2, lambda x: tuple(map(float, x))),
]
