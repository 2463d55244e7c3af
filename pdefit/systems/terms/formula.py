"""Formulas as terms, with constants that can be fitted."""

from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from pdefit._util.errors import PdefitError, unknown
from pdefit.systems.terms.base import AbstractTerm
from pdefit.systems.terms.expression import Expression


class Formula(AbstractTerm):
    """A term given by a formula, such as `c1 * x * y - c2 * y^2`, with constants that can be controls.

    For the form found for a learned term, and for proposed forms. It is read by a grammar of numbers, names, + - * / ^
    and a few functions, and is never run as code.

    **Arguments:**

    - `formula`: the text.
    - `inputs`: the names of its inputs.
    - `constants`: the values of all other names, by name; default none.
    """

    constants: dict[str, Array]
    expression: Expression = eqx.field(static=True)
    inputs: tuple[str, ...] = eqx.field(static=True)

    def __init__(self, formula: str, inputs: Sequence[str], constants: Mapping[str, Any] | None = None):
        self.expression, self.inputs = Expression.parse(formula), tuple(inputs)
        self.constants = {name: jnp.asarray(x, float) for name, x in (constants or {}).items()}
        for name in self.expression.names:
            if name not in (*self.inputs, *self.constants):
                raise unknown(f"input or constant of the formula {formula!r}", name, (*self.inputs, *self.constants))
        if twice := {*self.inputs} & {*self.constants}:
            raise PdefitError(
                f"In the formula {formula!r} {', '.join(sorted(twice))} is an input and a constant; rename one"
            )

    def __call__(self, *values: Array) -> Array:
        found = self.expression({**self.constants, **dict(zip(self.inputs, values, strict=True))})
        # a constant, too, has a value at every point
        return jnp.broadcast_to(found, jnp.broadcast_shapes(*map(jnp.shape, values)))
