"""A small neural network as an unknown term."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from pdefit._util.errors import PdefitError
from pdefit.systems.terms.base import AbstractTerm

# the part of usual weights that the last layer starts with
_SMALL = 0.1
# layers and neurons of a layer at most: more could neither be compiled nor be learned
_LAYERS, _NEURONS = 50, 1000


class Network(AbstractTerm):
    """A term as a small neural network of a few inputs, nearly zero at first, so that the known terms dominate.

    For an unknown function of two inputs or more. With one input `Series` needs fewer numbers. It can absorb known
    terms of the same inputs, which `pdefit identify` reports.

    **Arguments:**

    - `inputs`: the names of its inputs.
    - `sizes`: the typical size of each input, by which it is divided. By default 1, and in an experiment taken from
      data.
    - `size`: the typical size of the term; default as `sizes`.
    - `width`, `depth`: the neurons of a hidden layer, up to 1000, and the number of hidden layers, up to 50; default 8,
      2.
    - `seed`: the seed of the weights; default 0.
    """

    net: eqx.nn.MLP
    inputs: tuple[str, ...] = eqx.field(static=True)
    sizes: tuple[float, ...] | None = eqx.field(static=True)
    size: float | None = eqx.field(static=True)

    def __init__(
        self,
        inputs: Sequence[str],
        sizes: Sequence[float] | None = None,
        size: float | None = None,
        width: int = 8,
        depth: int = 2,
        seed: int = 0,
    ):
        self.inputs = tuple(inputs)
        self.sizes = None if sizes is None else tuple(map(float, sizes))
        self.size = None if size is None else float(size)
        given = (*(self.sizes or ()), 1.0 if self.size is None else self.size)
        if not self.inputs or self.sizes and len(self.sizes) != len(self.inputs) or min(given) <= 0:
            raise PdefitError(
                f"A network expects an input or more, and positive sizes, one for each, but got {list(self.inputs)} and {sizes}"
            )
        if not (1 <= width <= _NEURONS and 1 <= depth <= _LAYERS):
            raise PdefitError(
                f"A network expects 1 to {_LAYERS} layers of 1 to {_NEURONS} neurons, but got width {width}, depth {depth}"
            )
        net = eqx.nn.MLP(len(self.inputs), "scalar", width, depth, jnp.tanh, key=jax.random.key(seed), dtype=float)
        last = jax.tree.map(lambda w: _SMALL * w, net.layers[-1])
        self.net = eqx.tree_at(lambda n: n.layers[-1], net, last)

    def scaled(self, sizes, size):
        return eqx.tree_at(lambda n: n.net, Network(self.inputs, self.sizes or sizes, self.size or size), self.net)

    def __call__(self, *values: Array) -> Array:
        sizes = self.sizes or (1.0,) * len(self.inputs)
        scaled = jnp.broadcast_arrays(*(jnp.asarray(x) / s for x, s in zip(values, sizes, strict=True)))
        rows = jnp.stack([x.ravel() for x in scaled], axis=-1)
        return (self.size or 1.0) * jax.vmap(self.net)(rows).reshape(scaled[0].shape)
