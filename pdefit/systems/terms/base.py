"""The interface of terms: pointwise functions of a few inputs, which may be unknowns of an equation."""

import abc

import equinox as eqx
from jaxtyping import Array


class AbstractTerm(eqx.Module):
    """A pointwise function of named inputs, whose arrays can be controls.

    A system holds it as a parameter and calls it with arrays. `with_unknown` adds it to the equation of a field, and
    then calls it with the fields named by its inputs.

    **Arguments:**

    - `inputs`: the names of its inputs: fields of the state, or `t`.
    """

    inputs: eqx.AbstractVar[tuple[str, ...]]

    def scaled(self, sizes: tuple[float, ...], size: float) -> "AbstractTerm":
        """The term adapted to typical sizes of inputs and values, if its sizes were left open; unchanged by default.

        **Arguments:** `sizes`, `size`: the typical sizes of each input, and of the term.
        """
        return self

    @abc.abstractmethod
    def __call__(self, *values: Array) -> Array:
        """Value at every point.

        **Arguments:**

        - `values`: an array for each input, in order, of shapes that broadcast.
        """
