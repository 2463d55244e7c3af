"""A small fit of a system of the zoo, whose data and guess a seed draws.

Only arrays change from seed to seed, so that the programs of a case are compiled once.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import pdefit
from zoo.equations import Flow, SplitFlow, State


@dataclasses.dataclass(frozen=True)
class Case:
    """A fit: `build` makes the problem at parameters, or (`make`) a flow of a rate is the problem.

    `at` are the nominal values of parameters a, b, c (None: a parameter of the class by name), `free` those that are estimated;
    `spread` how far a guess is drawn from the truth.
    """

    rate: Callable | None
    at: tuple[Any, ...]
    u0: Any
    ts: np.ndarray
    dt: float
    free: dict[str, Any] = dataclasses.field(
        default_factory=lambda: {"a": pdefit.transforms.Log(), "b": pdefit.transforms.Log()}
    )
    spread: float = 0.2
    noise: float = 0.01
    solver: Any = None
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    args: Any = None
    observe: Any = pdefit.instruments.ObserveAll()  # noqa: RUF009
    symbol: Callable | None = None
    length: float = 1.0
    recordings: int = 1
    driver: Any = None
    # of a plugin: from parameters by name to a system, in place of a flow
    system: Callable | None = None

    def _system(self, values: dict[str, Any]) -> Any:
        if self.system is not None:
            return self.system(**values)
        if self.symbol is not None:
            return SplitFlow(self.rate, **values, symbol=self.symbol, length=self.length)
        return Flow(self.rate, **values)

    @property
    def _names(self) -> tuple[str, ...]:
        if self.system is None:
            return ("a", "b", "c")[: len(self.at)]
        return tuple(n for n in self.free if n not in ("y0", "nodes", "args"))

    def _one(self, rng: np.random.Generator, values: dict[str, Any], guess: dict[str, Any], key: Any) -> Any:
        truth, wrong = self._system(values), self._system(guess)
        y0 = truth.init(None) if self.u0 is None else State(jnp.asarray(self.u0))
        factor = 1 + 0.02 * rng.normal()
        # fields of a plugin keep their meaning; numbers move a little
        y0 = y0 if self.u0 is None else jax.tree.map(lambda x: factor * x, y0)
        solver = {} if self.solver is None else {"solver": self.solver}
        steps = {} if "steps" in self.options else {"dt": self.dt}
        data = pdefit.simulate(truth, y0, self.ts, dt=self.dt, observe=self.observe, args=self.args, **solver)
        # numbers that are not finite would be masked: the fit would run on less data, or on none
        assert all(np.isfinite(x).all() for x in data.values.values()), f"simulation at {values} is not finite"
        data = pdefit.add_noise(data, self.noise, key)
        problem = pdefit.Problem(wrong, y0, self.observe, args=self.args)
        return pdefit.Functional(problem, data, self.free, **steps, **solver, **self.options)

    def draw(self, seed: int, off: float = 1.0) -> Any:
        """The objective of a seed: data of drawn parameters, and a guess off by `spread`, or this part of it."""
        rng = np.random.default_rng(seed)
        values, guess = {}, {}
        for name, value in zip(self._names, self.at, strict=True):
            values[name] = _moved(value, 0.1 * self.spread * rng.normal(), rng)
            guess[name] = _moved(values[name], off * self.spread * rng.normal(), rng)
            if name not in self.free:
                guess[name] = values[name]
        parts = [self._one(rng, values, guess, jax.random.key(97 * seed + k)) for k in range(self.recordings)]
        return parts[0] if self.recordings == 1 else pdefit.Recordings(parts)


def _moved(value: Any, by: float, rng: np.random.Generator) -> Any:
    """A number times e^by; the weights of a network with as much noise."""
    if not isinstance(value, eqx.Module):
        return value * np.exp(by)
    arrays, rest = eqx.partition(value, eqx.is_inexact_array)
    moved = jax.tree.map(lambda x: x * (1 + by * jnp.asarray(rng.normal(size=x.shape))), arrays)
    return eqx.combine(moved, rest)
