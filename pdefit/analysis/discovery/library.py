"""Libraries of candidate formulas for an unknown term."""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence

from pdefit._util.errors import PdefitError, unknown
from pdefit.systems.terms.expression import FUNCTIONS, Expression

# more formulas than this make a search take minutes
_MOST = 200
# the name of a constant in a candidate that is fitted with its coefficient
CONSTANT = "K"
# functions of an input with such a constant, which may have any unit: of Michaelis and Menten, and of Hill
SATURATING = {"saturation": "{0} / (K + {0})", "hill": "{0}^2 / (K^2 + {0}^2)"}


@dataclasses.dataclass(frozen=True)
class TermLibrary:
    """Candidate formulas for learned terms, and the largest size of a set.

    Monomials suit rates that are products of state variables. Functions and own formulas are for suspected mechanisms;
    each one more makes it harder to identify the right ones.

    **Arguments:**

    - `degree`: the largest degree of a monomial; default 3. The constant is among them.
    - `functions`: of single inputs: `exp`, `log`, `sqrt`, `sin`, `cos`, `tanh`, `abs`, of inputs without a unit; and
      `saturation` x / (K + x) and `hill` x^2 / (K^2 + x^2), alone and times each other input, with any K.
    - `formulas`: by term, or for all terms, further formulas such as `x / (0.5 + y)`. One may hold a constant `K`, which
      is fitted.
    - `most`: the largest number of terms in a set, over all fields; default 6.
    """

    degree: int = 3
    functions: Sequence[str] = ()
    formulas: Mapping[str, Sequence[str]] | Sequence[str] = ()
    most: int = 6

    def __post_init__(self):
        for name in self.functions:
            if name not in (*FUNCTIONS, *SATURATING):
                raise unknown("function of a library", name, (*FUNCTIONS, *SATURATING))

    def of(self, term: str, inputs: Sequence[str], units: Mapping[str, str] | None = None) -> tuple[Expression, ...]:
        """The candidates of one term.

        **Arguments:**

        - `term`: its name.
        - `inputs`: the names of its inputs.
        - `units`: the unit of each input; default "1".

        **Errors:** PdefitError for formulas that do not parse or use unknown names, and for more than 200 candidates.
        """
        if CONSTANT in inputs:
            raise PdefitError(
                f"{CONSTANT} stands for a constant in candidates, and is an input of {term}; rename the input"
            )
        powers = sorted(
            (p for p in itertools.product(range(self.degree + 1), repeat=len(inputs)) if sum(p) <= self.degree),
            key=lambda p: (sum(p), [-n for n in p]),
        )
        found = [_monomial(inputs, p) for p in powers]
        plain = [n for n in inputs if (units or {}).get(n, "1") == "1"]
        for name in self.functions:
            if name in FUNCTIONS:
                found += [Expression(name, (Expression("name", value=n),)) for n in plain]
                continue
            alone = {n: SATURATING[name].format(n) for n in inputs}
            texts = [*alone.values(), *(f"{m} * ({alone[n]})" for n in inputs for m in inputs if m != n)]
            found += [Expression.parse(text) for text in texts]
        own = self.formulas.get(term, ()) if isinstance(self.formulas, Mapping) else self.formulas
        for text in own:
            one = Expression.parse(text)
            if strange := [n for n in one.names if n not in (*inputs, CONSTANT)]:
                raise PdefitError(
                    f"The candidate {text!r} holds {', '.join(strange)}, and the inputs are {', '.join(inputs)}"
                )
            if one.names == (CONSTANT,):
                raise PdefitError(f"The candidate {text!r} holds no input; the constant 1 is in every library")
            found.append(one)
        found = [*dict.fromkeys(found)]
        if len(found) > _MOST:
            raise PdefitError(
                f"A library of {len(found)} candidates is larger than {_MOST}; take a lower degree, or fewer inputs"
            )
        return tuple(found)


def _monomial(inputs: Sequence[str], powers: Sequence[int]) -> Expression:
    """The product of powers of inputs; 1 for none."""
    out: Expression | None = None
    for name, power in zip(inputs, powers, strict=True):
        if power:
            factor = Expression("name", value=name)
            factor = factor if power == 1 else Expression("^", (factor, Expression("number", value=float(power))))
            out = factor if out is None else Expression("*", (out, factor))
    return out or Expression("number", value=1.0)
