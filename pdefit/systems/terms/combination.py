"""A weighted sum of a term and candidate formulas, from which a regression selects."""

import equinox as eqx
from jaxtyping import Array, Float

from pdefit.systems.terms.base import AbstractTerm
from pdefit.systems.terms.expression import Expression


class Combination(AbstractTerm):
    """A term w g + sum_j c_j f_j / s_j of a term g and formulas f_j, such as a learned term and candidates for its form.

    **Arguments:**

    - `inputs`: the names of the inputs of g.
    - `base`, `weight`: g and w.
    - `coefficients`: c, (n,), in the unit of the term.
    - `constants`: the value of `constant` in each formula that contains it, in order, (m,).
    - `sizes`: s_j, the typical size of each formula, (n,).
    - `expressions`: f_j, formulas of the inputs and the constant.
    - `constant`: the name of the constant, which no input has.
    """

    inputs: tuple[str, ...] = eqx.field(static=True)
    base: AbstractTerm
    weight: Float[Array, ""]
    coefficients: Float[Array, " n"]
    constants: Float[Array, " m"]
    sizes: Float[Array, " n"]
    expressions: tuple[Expression, ...] = eqx.field(static=True)
    constant: str = eqx.field(static=True)

    def __call__(self, *values: Array) -> Array:
        named = dict(zip(self.inputs, values, strict=True))
        total, constants = self.weight * self.base(*values), iter(self.constants)
        for c, f, size in zip(self.coefficients, self.expressions, self.sizes, strict=True):
            own = {self.constant: next(constants)} if self.constant in f.names else {}
            total = total + c / size * f(named | own)
        return total
