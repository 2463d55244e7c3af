"""Networks in place of a rate that nobody knows."""

import equinox as eqx
import jax
import jax.numpy as jnp


class Rate(eqx.Module):
    """A rate as a small network of a few states, each divided by its usual size.

    The last layer starts small, so that the unknown rate is nearly zero at first and the known rest decides.

    **Arguments:**

    - `inputs`: the usual size of each state that it depends on.
    - `width`: neurons in each of two hidden layers; default 8.
    - `size`: the usual size of the rate; default 1.
    - `seed`: of the weights.
    """

    net: eqx.nn.MLP
    inputs: tuple[float, ...] = eqx.field(static=True)
    size: float = eqx.field(static=True)

    def __init__(self, inputs: tuple[float, ...], width: int = 8, size: float = 1.0, seed: int = 0):
        net = eqx.nn.MLP(len(inputs), "scalar", width, 2, jnp.tanh, key=jax.random.key(seed), dtype=float)
        self.net = eqx.tree_at(lambda n: n.layers[-1], net, replace_fn=lambda x: jax.tree.map(lambda w: 0.1 * w, x))
        self.inputs, self.size = inputs, size

    def __call__(self, *states: jax.Array) -> jax.Array:
        return self.size * self.net(jnp.stack(states) / jnp.asarray(self.inputs))
