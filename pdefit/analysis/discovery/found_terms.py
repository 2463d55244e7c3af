"""Fitted sets of formulas for learned terms."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float

from pdefit.analysis.discovery.library import CONSTANT
from pdefit.systems.terms.expression import Expression


@dataclasses.dataclass(frozen=True)
class Summand:
    """A formula with its coefficient.

    **Arguments:**

    - `expression`: the formula, with K for its constant, if it has one.
    - `coefficient`, `error`: its factor, and the standard error of the factor.
    - `constant`, `constant_error`: K, and its standard error; None without one.
    """

    expression: Expression
    coefficient: float
    error: float
    constant: float | None = None
    constant_error: float | None = None

    def __str__(self) -> str:
        known = {} if self.constant is None else {CONSTANT: Expression("number", value=float(f"{self.constant:.4g}"))}
        return f"{self.coefficient:.4g} {self.expression.with_names(known)}"


@dataclasses.dataclass(frozen=True)
class FoundTerms:
    """A fitted set of formulas for learned terms.

    **Arguments:**

    - `terms`: the summands of each term, by its name.
    - `chi2`: the misfit, in units of the noise.
    - `criterion`: chi2 and the penalty on the number of terms.
    - `theta`: the point of the refit, with coefficients of all candidates, (p,).
    - `held_out`: chi2 per value at later frames, predicted from the first frame; None without later frames.
    """

    terms: Mapping[str, tuple[Summand, ...]]
    chi2: float
    criterion: float
    theta: Float[np.ndarray, " p"]
    held_out: float | None = None

    @property
    def forms(self) -> frozenset[tuple[str, Expression]]:
        """Formulas without their numbers, each with the name of its term."""
        return frozenset((name, one.expression) for name, own in self.terms.items() for one in own)

    def __str__(self) -> str:
        """All terms on one line."""
        return "; ".join(f"{name}: {_sum(own)}" for name, own in self.terms.items())


def _sum(summands: Sequence[Summand]) -> str:
    return " + ".join(map(str, summands)).replace("+ -", "- ") or "0"
