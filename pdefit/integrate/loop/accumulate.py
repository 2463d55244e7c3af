"""Trajectories of which only a running total is kept, for what needs no reverse pass."""

from collections.abc import Callable
from typing import Any

import jax
from jax import lax
from jaxtyping import PyTree

from pdefit.integrate.loop.stepper import AbstractStepper
from pdefit.integrate.loop.time_grid import TimeGrid
from pdefit.integrate.loop.time_loop import Through, TimesSizes, precision, stepped


def fold(
    stepper: AbstractStepper,
    y0: PyTree,
    grid: TimeGrid,
    add: Callable[[PyTree, PyTree, PyTree], PyTree],
    inputs: PyTree,
    total: PyTree,
    through: Through | None = None,
) -> tuple[PyTree, PyTree]:
    """The final state, and a total over all observations, in the memory of one state.

    **Arguments:**

    - `stepper`: what steps the state.
    - `y0`: the state at the start.
    - `grid`: the steps.
    - `add`: the new total from the total so far, the state at observation i, and `inputs[i]`.
    - `inputs`: what belongs to each observation, on a leading axis.
    - `total`: the total before any observation.
    - `through`: goes through the steps of one interval, if not by one step after the other.
    """
    times, sizes = grid.times_and_sizes()
    if grid.observes_start:
        total = add(total, y0, jax.tree.map(lambda x: x[0], inputs))

    def stepwise(carry: Any, t_h: TimesSizes) -> Any:
        return lax.scan(lambda carry, t_h: (stepped(stepper, carry, t_h), None), carry, t_h)[0]

    steps = through or stepwise

    def interval(carry: Any, x: Any) -> tuple[Any, None]:
        (inside, total), (t_h, inputs_i) = carry, x
        inside = steps(inside, t_h)
        return (inside, add(total, inside[0], inputs_i)), None

    later = jax.tree.map(lambda x: x[int(grid.observes_start) :], inputs)
    begin = stepper.init(times[0, 0].astype(precision(y0)), y0), total
    ((end, _), total), _ = lax.scan(interval, begin, ((times, sizes), later))
    return end, total
