"""How fast neighboring trajectories part: the largest Lyapunov exponent."""

import dataclasses

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray, PyTree
from numpy.typing import ArrayLike

from pdefit._util.errors import PdefitError
from pdefit.integrate.adaptive.tolerance import Adaptive
from pdefit.integrate.loop.stepper import Stepper
from pdefit.integrate.loop.time_grid import TimeGrid
from pdefit.integrate.loop.time_loop import stepped
from pdefit.integrate.numerics import choose_numerics
from pdefit.inverse.objective.tangent_linear import TangentLinearStepper, push
from pdefit.systems.capabilities import AbstractConstrained
from pdefit.systems.system import AbstractSystem

# into as many blocks the intervals are cut, for the standard error
_BLOCKS = 10
# intervals with which there is a transient to discard and something left to average
_FEWEST = 3


@dataclasses.dataclass(frozen=True)
class LyapunovResult:
    """The largest Lyapunov exponent, in 1 / time unit of the system.

    `standard_error` from the spread of the exponents of ten blocks (NaN where it has none); `growth` (I,) the natural
    logarithm of how much the tangent grew over each interval; the first `discarded` of them were not averaged.
    """

    exponent: float
    standard_error: float
    growth: np.ndarray
    discarded: int

    @property
    def time(self) -> float:
        """In which neighboring trajectories part by a factor e; infinite where they do not."""
        return 1 / self.exponent if self.exponent > 0 else np.inf


def lyapunov(
    system: AbstractSystem,
    y0: PyTree,
    ts: ArrayLike,
    *,
    solver: diffrax.AbstractSolver | None = None,
    dt: float | None = None,
    steps: Adaptive | None = None,
    args: PyTree = None,
    key: PRNGKeyArray | None = None,
) -> LyapunovResult:
    """The mean rate at which a tangent grows along the trajectory from y0 at ts[0] to ts[-1].

        exponent = sum_i ln |dy(t_i+1)| / |dy(t_i)| / sum_i (t_i+1 - t_i)

    A random tangent is stepped beside the state by the derivative of the discrete step and rescaled to length 1 at every
    time of ts; the first third of the intervals, in which it turns to the direction that grows fastest, is discarded. Its
    length is the rms over all values, every field divided by its rms in y0 (by 1 where that is zero); in the long run the
    exponent does not depend on it. `dt`, `steps`, `solver` as of `simulate`; `args` exogenous inputs; `key` draws the
    tangent. Over a span of a few Lyapunov times this is the rate of that stretch, not of the attractor.

    G. Benettin, L. Galgani, A. Giorgilli, J.-M. Strelcyn, Meccanica 15 (1980) 9-20, doi:10.1007/BF02128236
    """
    ts = np.asarray(ts, np.float64)
    if ts.size < _FEWEST + 1:
        raise PdefitError(
            f"A Lyapunov exponent expects {_FEWEST + 1} times or more, but got {ts.size}; give more times"
        )
    numerics = choose_numerics([(system, y0)], solver, dt, steps, args)
    grid = numerics.grid(system, y0, ts, float(ts[0]))
    tangent = _random(y0, jax.random.key(0) if key is None else key)
    if isinstance(system, AbstractConstrained):
        tangent = push(system.project, (y0,), (tangent,))[1]
    growth = np.asarray(_growth(numerics.stepper(system), y0, tangent, grid))
    return _result(growth, np.diff(ts))


@eqx.filter_jit
def _growth(stepper: Stepper, y0: PyTree, tangent: PyTree, grid: TimeGrid) -> Float[Array, " I"]:
    """The logarithm of the growth over every interval."""
    # no parameter moves, only the state
    pushed = TangentLinearStepper(stepper, jax.tree.map(lambda _: None, stepper))
    scales = jax.tree.map(_scale, y0)

    def interval(carry: PyTree, t_h: tuple[Array, Array]) -> tuple[PyTree, Array]:
        ((y, dy), (state, d_state)), _ = lax.scan(lambda c, x: (stepped(pushed, c, x), None), carry, t_h)
        length = _length(dy, scales)
        # what the solver remembers of the tangent is linear in it
        dy, d_state = _divided((dy, d_state), length)
        return ((y, dy), (state, d_state)), jnp.log(length)

    times, sizes = grid.times_and_sizes()
    unit = _divided(tangent, _length(tangent, scales))
    begin = pushed.init(times[0, 0].astype(jax.tree.leaves(y0)[0].dtype), (y0, unit))
    return lax.scan(interval, begin, (times, sizes))[1]


def _random(y: PyTree, key: PRNGKeyArray) -> PyTree:
    """Normal numbers in the units of a state."""
    leaves, tree = jax.tree.flatten(y)
    keys = jax.random.split(key, len(leaves))
    drawn = [
        _scale(x).astype(x.dtype) * jax.random.normal(k, x.shape, x.dtype) for x, k in zip(leaves, keys, strict=True)
    ]
    return jax.tree.unflatten(tree, drawn)


def _scale(x: Array) -> Float[Array, ""]:
    size = jnp.sqrt(jnp.mean(jnp.square(x.astype(jnp.float64))))
    return jnp.where(size > 0, size, 1.0)


def _length(dy: PyTree, scales: PyTree) -> Float[Array, ""]:
    """The rms of a tangent in units of its fields, in float64."""
    parts = jax.tree.map(lambda d, s: jnp.sum(jnp.square(d.astype(jnp.float64) / s)), dy, scales)
    return jnp.sqrt(sum(jax.tree.leaves(parts)) / sum(d.size for d in jax.tree.leaves(dy)))


def _divided(tangents: PyTree, length: Float[Array, ""]) -> PyTree:
    # a tangent that has died stays dead
    safe = jnp.where(length > 0, length, 1.0)
    return jax.tree.map(lambda x: x / safe.astype(x.dtype) if eqx.is_inexact_array(x) else x, tangents)


def _result(growth: np.ndarray, lengths: np.ndarray) -> LyapunovResult:
    discarded = growth.size // 3
    kept, spans = growth[discarded:], lengths[discarded:]
    blocks = np.array_split(np.arange(kept.size), min(_BLOCKS, kept.size))
    rates = np.asarray([kept[b].sum() / spans[b].sum() for b in blocks])
    known = rates.size > 1 and bool(np.all(np.isfinite(rates)))
    return LyapunovResult(
        exponent=float(kept.sum() / spans.sum()),
        standard_error=float(np.std(rates, ddof=1) / np.sqrt(rates.size)) if known else float("nan"),
        growth=growth,
        discarded=discarded,
    )
