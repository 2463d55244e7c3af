"""When to step and when to look: pure numbers, fixed before anything is traced."""

from collections.abc import Sequence

import equinox as eqx
import numpy as np

from pdefit.errors import PdefitError

# at a microsecond for the smallest step: a quarter of an hour for one solve
_MOST_STEPS = 1e9


class TimePlan(eqx.Module):
    """Constant steps between observation times, regular or not.

    Interval i, between two observations, takes `count[i] = ceil(duration / dt)` equal steps of size `step[i]` from
    `start[i]`. All intervals are scanned with `length = max(count)` steps; where an interval needs fewer, the last ones
    have zero length. With `look_first` the state at `start[0]` is observed too, before any step.
    A batch of plans has one leading axis on every array.
    """

    start: np.ndarray
    step: np.ndarray
    count: np.ndarray
    length: int = eqx.field(static=True)
    look_first: bool = eqx.field(static=True)


def plan_steps(t0: float, ts: np.ndarray, dt: float) -> TimePlan:
    """The plan that starts at t0, steps by at most dt and observes at ts (the first may be t0 itself)."""
    ts = np.asarray(ts, np.float64)
    if not dt > 0:
        raise ValueError(f"A step size dt > 0 is expected, but got {dt}")
    if ts.size == 0 or ts[-1] == t0 or ts[0] < t0 or np.any(np.diff(ts) <= 0):
        raise ValueError(f"Observation times must increase from t0 = {t0}, but are {ts}")
    look_first = bool(ts[0] == t0)
    edges = ts if look_first else np.concatenate([[t0], ts])
    duration = np.diff(edges)
    if (ts[-1] - t0) / dt > _MOST_STEPS:
        raise PdefitError(
            f"A step of {dt:g} divides {ts[-1] - t0:g} into more than {_MOST_STEPS:.0e} steps; set dt larger"
        )
    # 1e-9: a duration that is a whole number of steps up to round-off must not get one step more
    count = np.maximum(np.ceil(duration / dt - 1e-9), 1).astype(np.int64)
    return TimePlan(
        start=edges[:-1],
        step=duration / count,
        count=count,
        length=int(count.max(initial=0)),
        look_first=look_first,
    )


def stack_plans(plans: Sequence[TimePlan]) -> TimePlan:
    """A batch of plans; shorter ones end with intervals of zero length, whose observations carry no weight."""
    intervals = max(plan.start.size for plan in plans)

    def pad(x: np.ndarray, fill: int | float) -> np.ndarray:
        return np.concatenate([x, np.full(intervals - x.size, fill, x.dtype)])

    def end(plan: TimePlan) -> float:
        return float(plan.start[-1] + plan.count[-1] * plan.step[-1])

    if len({plan.look_first for plan in plans}) > 1:
        raise ValueError("Plans in a batch must all observe their first state, or none")
    return TimePlan(
        start=np.stack([pad(plan.start, end(plan)) for plan in plans]),
        step=np.stack([pad(plan.step, 0.0) for plan in plans]),
        count=np.stack([pad(plan.count, 0) for plan in plans]),
        length=max(plan.length for plan in plans),
        look_first=plans[0].look_first,
    )
