"""The interface of terms: functions of a few inputs, point by point, that an equation may hold as unknowns."""

import abc

import equinox as eqx
from jaxtyping import Array


class AbstractTerm(eqx.Module):
    """A function of named inputs, point by point, whose arrays can be controls.

    A system holds it as a parameter and calls it with arrays. `with_unknown` adds it to the equation of a field, and then
    calls it with the fields that its inputs name.

    **Arguments:**

    - `inputs`: the names of what it depends on: fields of the state, or `t`.
    """

    inputs: eqx.AbstractVar[tuple[str, ...]]

    def scaled(self, sizes: tuple[float, ...], size: float) -> "AbstractTerm":
        """The term for inputs and values of some usual sizes, if it has sizes that were left open; itself by default.

        **Arguments:** `sizes`, `size`: of each input, and of the term.
        """
        return self

    @abc.abstractmethod
    def __call__(self, *values: Array) -> Array:
        """The value at every point.

        **Arguments:**

        - `values`: an array for each input, in their order, of shapes that broadcast.
        """
