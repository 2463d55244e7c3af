"""A neural network learns a spiral: the training benchmark of DiffEqFlux and torchdiffeq, through `pdefit.fit`.

    ./run python tests/benchmarks/spiral_neural_ode.py [--seeds 3] [--iterations 500]

The truth is u' = A^T u^3 from (2, 0), seen at 30 times in [0, 1.5]; the model u' = N(u^3) with N one hidden layer of 50 tanh
and Glorot's uniform weights; 500 iterations of Adam at rate 0.05 on the sum of squares over all points.

Published: DiffEqFlux 2.7 s to 2.76e-2 (its defaults: 7.4 s to 4.90e-2), torchdiffeq 289 s to 5.96e-2, on a machine of 2019.
Source: C. Rackauckas, gist.github.com/ChrisRackauckas/4a4d526c15cc4170ce37da837bfc32c4.
"""

import argparse
import dataclasses
import time
from typing import Any, ClassVar

from pdefit.cli.runtime.environment import prepare

prepare()

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

import pdefit
from pdefit._util.trees import cast

jax.config.update("jax_enable_x64", True)

PUBLISHED = 2.761669e-2
TS = np.linspace(0.0, 1.5, 30)
# two steps from one point to the next
DT = 1.5 / 58


class Spiral(pdefit.AbstractSystem):
    """u' = A^T u^3."""

    time_unit: ClassVar[str] = "1"
    A: Array = pdefit.parameter()

    def vector_field(self, t, y, args):
        return self.A.T @ y**3

    def init(self, key):
        return jnp.asarray([2.0, 0.0])


class NeuralSpiral(pdefit.AbstractSystem):
    """u' = N(u^3) with a network N."""

    time_unit: ClassVar[str] = "1"
    net: eqx.nn.MLP = pdefit.parameter(doc="the right-hand side")

    def vector_field(self, t, y, args):
        return self.net(y**3)

    def init(self, key):
        return jnp.asarray([2.0, 0.0])


def network(seed: int) -> eqx.nn.MLP:
    """Dense(2 -> 50, tanh), Dense(50 -> 2), with Glorot's uniform weights and no biases."""
    key, *keys = jax.random.split(jax.random.key(seed), 3)
    net = eqx.nn.MLP(2, 2, 50, 1, activation=jnp.tanh, key=key, dtype=jnp.float64)
    glorot = jax.nn.initializers.glorot_uniform()
    weights = [glorot(k, layer.weight.shape, jnp.float64) for k, layer in zip(keys, net.layers, strict=True)]
    net = eqx.tree_at(lambda n: [layer.weight for layer in n.layers], net, weights)
    return eqx.tree_at(lambda n: [layer.bias for layer in n.layers], net, replace_fn=jnp.zeros_like)


def functional(seed: int, dtype: Any = jnp.float64, dt: float = DT) -> pdefit.Functional:
    """Half the sum of squares as a function of all weights and biases."""
    truth = Spiral(jnp.asarray([[-0.1, 2.0], [-2.0, -0.1]]))
    y0 = truth.init(None)
    data = pdefit.simulate(truth, y0, TS, solver=diffrax.Dopri8(), dt=0.005)
    problem = cast(pdefit.Problem(NeuralSpiral(network(seed)), y0), dtype)
    controls = {"net": pdefit.transforms.Identity()}
    return pdefit.Functional(
        problem, data, controls, solver=diffrax.Tsit5(), dt=dt, adjoint=pdefit.adjoints.Checkpointed(1)
    )


@dataclasses.dataclass(frozen=True)
class Training:
    """Sums of squares of the best and of the last iterate, and of the best with steps four times finer; seconds of all
    evaluations, and with compilation; iterations until the published sum of squares (None: not reached)."""

    best: float
    last: float
    finer: float
    seconds: float
    wall: float
    until: int | None


def train(seed: int, iterations: int = 500, dtype: Any = jnp.float64) -> Training:
    J = functional(seed, dtype)
    begin = time.perf_counter()
    found = pdefit.fit(J, [pdefit.Stage(pdefit.optimizers.Adam(learning_rate=0.05), iterations)])
    wall = time.perf_counter() - begin
    finer = eqx.filter_jit(functional(seed, dtype, DT / 4).value)(found.theta)
    losses = [2 * float(x) for x in (found.loss, found.history[-1].loss, finer)]
    until = next((r.iteration for r in found.history if 2 * r.loss <= PUBLISHED), None)
    return Training(*losses, seconds=found.seconds["evaluations"], wall=wall, until=until)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=500)
    asked = parser.parse_args()
    print(
        "| dtype | seed | sum of squares, best | last | best, finer steps | s | s with compilation | at 2.76e-2 after |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for dtype in (jnp.float64, jnp.float32):
        for seed in range(asked.seeds):
            found = train(seed, asked.iterations, dtype)
            numbers = [f"{x:.3e}" for x in (found.best, found.last, found.finer)]
            reached = (
                "-"
                if found.until is None
                else f"{found.until} it., {found.seconds * found.until / asked.iterations:.2f} s"
            )
            cells = [dtype.__name__, str(seed), *numbers, f"{found.seconds:.2f}", f"{found.wall:.2f}", reached]
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
