"""Libraries of candidate formulas for an unknown term."""

import itertools
from collections.abc import Mapping, Sequence

from pdefit._util.errors import PdefitError
from pdefit.systems.terms.expression import Expression

# more formulas than this make a search take minutes
_MOST = 200


def library(
    inputs: Sequence[str],
    degree: int = 3,
    functions: Sequence[str] = (),
    formulas: Sequence[str] = (),
    units: Mapping[str, str] | None = None,
) -> tuple[Expression, ...]:
    """Candidate formulas of some inputs: monomials, functions of single inputs, and formulas of one's own.

    **Arguments:**

    - `inputs`: the names of the inputs.
    - `degree`: the largest degree of a monomial; default 3. The constant is among them.
    - `functions`: such as `sin`, each of every input that has no unit.
    - `formulas`: texts such as `x / (0.5 + x)`, of inputs and numbers.
    - `units`: the unit of each input; default "1".
    """
    powers = sorted(
        (p for p in itertools.product(range(degree + 1), repeat=len(inputs)) if sum(p) <= degree),
        key=lambda p: (sum(p), [-n for n in p]),
    )
    found = [_monomial(inputs, p) for p in powers]
    plain = [n for n in inputs if (units or {}).get(n, "1") == "1"]
    found += [Expression(f, (Expression("name", value=n),)) for f in functions for n in plain]
    for text in formulas:
        one = Expression.parse(text)
        if strange := [n for n in one.names if n not in inputs]:
            raise PdefitError(
                f"The candidate {text!r} holds {', '.join(strange)}, and the inputs are {', '.join(inputs)}"
            )
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
