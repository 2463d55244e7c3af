"""A trajectory that is looked at and forgotten: for what needs no reverse pass."""

from collections.abc import Callable
from typing import Any

import jax
from jax import lax
from jaxtyping import Array, PyTree

from pdefit.integrate.plan import TimePlan
from pdefit.integrate.stepper import AbstractStepper


def fold(
    stepper: AbstractStepper,
    y0: PyTree,
    plan: TimePlan,
    look: Callable[[PyTree, PyTree, PyTree], PyTree],
    inputs: PyTree,
    total: PyTree,
) -> tuple[PyTree, PyTree]:
    """The final state, and what `total = look(total, y, inputs[i])` has become at the last observation: the memory of one
    state, whatever the length."""
    # times are computed in float64 and handed over in the state's precision
    dtype = jax.tree.leaves(y0)[0].dtype
    times, sizes = plan.times_and_sizes()
    looked = int(plan.look_first)
    if looked:
        total = look(total, y0, jax.tree.map(lambda x: x[0], inputs))

    def one_step(carry: Any, t_h: tuple[Array, Array]) -> tuple[Any, None]:
        t, h = t_h
        return stepper(t.astype(dtype), h.astype(dtype), carry), None

    def interval(carry: Any, x: Any) -> tuple[Any, None]:
        (inside, total), (t_h, inputs_i) = carry, x
        inside, _ = lax.scan(one_step, inside, t_h)
        return (inside, look(total, inside[0], inputs_i)), None

    seen = jax.tree.map(lambda x: x[looked:], inputs)
    begin = stepper.init(times[0, 0].astype(dtype), y0), total
    ((end, _), total), _ = lax.scan(interval, begin, ((times, sizes), seen))
    return end, total
