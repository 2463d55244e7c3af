"""Expressions: formulas of numbers and names as trees, which are evaluated and printed, but never run as code."""

import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from pdefit._util.errors import PdefitError

# a formula that a person reads; limits of what a file may hold
_LONGEST, _DEEPEST = 500, 30
FUNCTIONS: dict[str, Callable[[Any], Array]] = {
    "exp": jnp.exp, "log": jnp.log, "sqrt": jnp.sqrt, "sin": jnp.sin, "cos": jnp.cos, "tanh": jnp.tanh, "abs": jnp.abs,
}  # fmt: skip
_PIECE = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)|(?P<name>[A-Za-z_]\w*(?:\.\w+|\[\d+\])*)|(?P<sign>[-+*/^()]))",
    re.A,
)
# what is not written as it is read
_LATEX = {"/": r"\frac{{{}}}{{{}}}", "sqrt": r"\sqrt{{{}}}", "abs": r"\left|{}\right|"}
# how tightly an operation binds, and how tightly its arguments must, to stand in it without brackets
_TIGHT = {"+": 1, "-": 1, "*": 2, "/": 2, "negative": 3, "^": 4}
_LEAST = {"+": (1, 2), "-": (1, 2), "*": (2, 3), "/": (2, 3), "negative": (4,), "^": (5, 3)}


@dataclasses.dataclass(frozen=True)
class Expression:
    """A node in the tree of a formula.

    **Arguments:**

    - `kind`: `number`, `name`, one of + - * / ^, `negative`, or the name of a function.
    - `parts`: the operands.
    - `value`: the number, or the name.
    """

    kind: str
    parts: tuple["Expression", ...] = ()
    value: float | str = 0.0

    @staticmethod
    def parse(text: str, *, paths: bool = False) -> "Expression":
        """Expression from a text of numbers, names, + - * / ^, brackets, and functions such as sin and exp.

        **Arguments:**

        - `text`: the formula, such as `0.9 * x * y / (1 + y^2)`.
        - `paths`: whether a name may be the path of a number, such as `gm.Mars` or `k[1]`; default False.

        **Errors:** PdefitError if it is no formula, is longer than 500 characters, or nests deeper than 30 times.
        """
        return _Reader(text, paths).whole()

    @property
    def names(self) -> tuple[str, ...]:
        """Names in the expression, each once, in order."""
        own = (str(self.value),) if self.kind == "name" else ()
        return tuple(dict.fromkeys((*own, *(n for part in self.parts for n in part.names))))

    def with_names(self, known: Mapping[str, "Expression"]) -> "Expression":
        """The expression with some names replaced by expressions.

        **Arguments:** `known`: the replacement of each name.
        """
        if self.kind == "name":
            return known.get(str(self.value), self)
        return dataclasses.replace(self, parts=tuple(part.with_names(known) for part in self.parts))

    def __call__(self, values: Mapping[str, Array]) -> Array:
        """The value at every point.

        **Arguments:** `values`: an array for each name, of shapes that broadcast.
        """
        if self.kind == "number":
            # of no precision of its own, so that float32 stays float32
            return jnp.asarray(self.value)
        if self.kind == "name":
            return values[str(self.value)]
        first, *rest = self.parts
        if self.kind == "^" and rest[0].kind == "number" and float(rest[0].value).is_integer():
            # whole powers have a derivative at 0
            return first(values) ** int(float(rest[0].value))
        return _OPERATIONS[self.kind](*(part(values) for part in self.parts))

    def __str__(self) -> str:
        """Text that `parse` reads as the same expression."""
        if self.kind == "number":
            return repr(self.value).removesuffix(".0")
        if self.kind == "name":
            return str(self.value)
        if self.kind in FUNCTIONS:
            return f"{self.kind}({self.parts[0]})"
        if self.kind == "negative":
            return f"-{self._within(0, str)}"
        space = "" if self.kind == "^" else " "
        return f"{self._within(0, str)}{space}{self.kind}{space}{self._within(1, str)}"

    def latex(self, words: Mapping[str, str] | None = None) -> str:
        """The formula in LaTeX.

        **Arguments:** `words`: the spelling of some names, such as `{"c1": "0.9"}`.
        """
        words = words or {}

        def write(node: "Expression") -> str:
            return node.latex(words)

        if self.kind == "number":
            mantissa, _, power = f"{self.value:.4g}".partition("e")
            return rf"{mantissa} \cdot 10^{{{int(power)}}}" if power else mantissa
        if self.kind == "name":
            return words.get(str(self.value)) or _spelled(str(self.value))
        if self.kind == "negative":
            return f"-{self._within(0, write)}"
        if self.kind == "^":
            return f"{self._within(0, write)}^{{{write(self.parts[1])}}}"
        if self.kind in ("+", "-", "*"):
            sign = r"\," if self.kind == "*" else self.kind
            return f"{self._within(0, write)} {sign} {self._within(1, write)}"
        form = _LATEX.get(self.kind, rf"\{self.kind}\left({{}}\right)")
        return form.format(*(write(part) for part in self.parts))

    def _within(self, i: int, write: Callable[["Expression"], str]) -> str:
        """An operand as written in this expression, in brackets if it binds less tightly."""
        part = self.parts[i]
        return write(part) if _TIGHT.get(part.kind, 9) >= _LEAST[self.kind][i] else f"({write(part)})"


_OPERATIONS: dict[str, Callable[..., Array]] = {
    "+": jnp.add, "-": jnp.subtract, "*": jnp.multiply, "/": jnp.divide, "^": jnp.power, "negative": jnp.negative, **FUNCTIONS,
}  # fmt: skip


def _spelled(name: str) -> str:
    """A name in LaTeX: a letter with its index, or upright."""
    found = re.fullmatch(r"([A-Za-z])_?(\d*)", name, re.A)
    if found is None:
        return rf"\mathrm{{{name}}}".replace("_", r"\_")
    return f"{found[1]}_{{{found[2]}}}" if found[2] else found[1]


class _Reader:
    """A reader of formulas by recursive descent."""

    def __init__(self, text: object, paths: bool = False):
        if not isinstance(text, str) or len(text) > _LONGEST:
            raise PdefitError(
                f"A formula is a text of at most {_LONGEST} characters, such as 'x * y', but got {text!r:.60}"
            )
        self.text, self.at, self.depth, self.pieces = text, 0, 0, list[tuple[str, str]]()
        place = 0
        while text[place:].strip():
            found = _PIECE.match(text, place)
            if found is None:
                raise self.wrong(f"'{text[place:].strip()[0]}' is no part of one")
            if found["name"] and not (paths or found["name"].isidentifier()):
                raise self.wrong(f"'{found['name']}' is no name")
            self.pieces.append((str(found.lastgroup), found[str(found.lastgroup)]))
            place = found.end()

    def wrong(self, why: str) -> PdefitError:
        shown = self.text if len(self.text) <= 60 else self.text[:57] + "..."
        return PdefitError(
            f"The formula {shown!r} cannot be read: {why}; write numbers, names, + - * / ^, brackets and "
            f"{', '.join(FUNCTIONS)}"
        )

    def next(self) -> tuple[str, str]:
        return self.pieces[self.at] if self.at < len(self.pieces) else ("end", "")

    def take(self, *signs: str) -> str | None:
        """The next sign, if it is one of these."""
        kind, text = self.next()
        if kind != "sign" or text not in signs:
            return None
        self.at += 1
        return text

    def whole(self) -> Expression:
        found = self.sum()
        if self.next()[0] != "end":
            raise self.wrong(f"'{self.next()[1]}' is not expected there")
        return found

    def sum(self) -> Expression:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise self.wrong(f"it nests deeper than {_DEEPEST} times")
        left = self.product()
        while sign := self.take("+", "-"):
            left = Expression(sign, (left, self.product()))
        self.depth -= 1
        return left

    def product(self) -> Expression:
        left = self.signed()
        while sign := self.take("*", "/"):
            left = Expression(sign, (left, self.signed()))
        return left

    def signed(self) -> Expression:
        minus = 0
        while self.take("-"):
            minus += 1
        return Expression("negative", (self.power(),)) if minus % 2 else self.power()

    def power(self) -> Expression:
        base = self.atom()
        if not self.take("^"):
            return base
        self.depth += 1
        if self.depth > _DEEPEST:
            raise self.wrong(f"it nests deeper than {_DEEPEST} times")
        exponent = self.signed()
        self.depth -= 1
        return Expression("^", (base, exponent))

    def atom(self) -> Expression:
        kind, text = self.next()
        self.at += 1
        if kind == "number":
            if float(text) == float("inf"):
                raise self.wrong(f"{text} is too large a number")
            return Expression("number", value=float(text))
        if kind == "name" and self.take("("):
            if text not in FUNCTIONS:
                raise self.wrong(f"'{text}' is no function")
            return Expression(text, (self.closed(),))
        if kind == "name":
            return Expression("name", value=text)
        if (kind, text) == ("sign", "("):
            return self.closed()
        raise self.wrong("it ends too early" if kind == "end" else f"'{text}' is not expected there")

    def closed(self) -> Expression:
        inside = self.sum()
        if not self.take(")"):
            raise self.wrong("a bracket is not closed")
        return inside
