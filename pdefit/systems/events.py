"""Events: doses, infusions and resets of a state at stated times."""

import dataclasses
import math
from collections import Counter
from collections.abc import Sequence
from operator import attrgetter

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int, PyTree

from pdefit._util.errors import PdefitError, unknown
from pdefit._util.trees import named_fields
from pdefit.systems.capabilities import AbstractConstrained, AbstractMechanical
from pdefit.systems.infused import infused
from pdefit.systems.system import AbstractSystem

# distance of equal times, as a part of the record, and of an event from the start of its step, as a part of the largest step:
# starts are rounded sums of steps
_SAME = 1e-9


@dataclasses.dataclass(frozen=True)
class Event:
    """A dose, an infusion or a reset of one field of the state.

    A dose adds `amount` at once. With `duration` or `rate` it is an infusion: `amount / duration` is added to the rate of
    the field during that time. A reset sets the field to the value `set`. On a grid, every point changes alike.

    An observation at the time of an event sees the state before it, at the initial time, too. Resets come before doses
    of the same time.

    **Arguments:**

    - `time`: the time, in the system's time unit.
    - `state`: the name of the field.
    - `amount`: the amount that is added, in the unit of the field.
    - `set`: the new value, in the unit of the field.
    - `duration`: the duration of an infusion, in the system's time unit.
    - `rate`: the rate of an infusion, in the unit of the field per unit of time, in place of its amount or duration.
    - `every`, `count`: the period of repetitions, in the system's time unit, and the number of events in all.
    """

    time: float
    state: str
    amount: float | None = None
    set: float | None = None
    duration: float | None = None
    rate: float | None = None
    every: float | None = None
    count: int = 1

    def __post_init__(self) -> None:
        numbers = dataclasses.asdict(self)
        given = {name: x for name, x in numbers.items() if x is not None and name != "state"}
        if odd := [name for name, x in given.items() if not math.isfinite(x)]:
            raise PdefitError(f"An event expects finite numbers, but {odd[0]} is {given[odd[0]]}; correct it")
        what = given.keys() & {"amount", "set", "duration", "rate"}
        pairs = {"amount"}, {"set"}, {"amount", "duration"}, {"amount", "rate"}, {"duration", "rate"}
        if what not in pairs:
            raise PdefitError(
                f"An event expects an amount, a value to set, or two of amount, duration and rate, but at {self.time:g} got "
                f"{', '.join(sorted(what)) or 'none'}; correct it"
            )
        if len(what) == 2 and not self.length > 0:
            raise PdefitError(
                f"An infusion expects a duration above 0, but got {self.length:g}; leave it out for a dose"
            )
        if self.count < 1 or (self.every is None) != (self.count == 1) or not (self.every or 1) > 0:
            raise PdefitError(
                f"A repeated event expects a period `every` above 0 and a `count` above 1, but got every = {self.every} and "
                f"count = {self.count}; give both or none"
            )

    @property
    def value(self) -> float:
        """The amount of a dose or an infusion, or the new value."""
        given = self.amount if self.set is None else self.set
        return (self.rate or 0.0) * (self.duration or 0.0) if given is None else given

    @property
    def length(self) -> float:
        """The duration of an infusion; 0 for other events."""
        if self.duration is not None or self.amount is None or self.rate is None:
            return self.duration or 0.0
        return self.amount / self.rate if self.rate else 0.0

    @property
    def times(self) -> Float[np.ndarray, " count"]:
        """The times of all repetitions."""
        return self.time + (self.every or 0.0) * np.arange(self.count)


class Events(eqx.Module):
    """The events of a trajectory: `amount` holds R numbers, which E events at given times take.

    Repetitions share one number. A control names it: `controls: {events: {amount: ...}}`.

    **Arguments:**

    - `amount`: the amounts and new values, (R,), in the units of their fields.
    - `row`: for every event the index of its number, (E,).
    - `time`, `until`: start and end of every event, (E,); the same but for infusions.
    - `field`: the index in `fields` of the field that changes, (E,).
    - `resets`: whether the field is set and not added to, (E,).
    - `first`, `last`: the times between which the step starts that begins with the event, (E,).
    - `fields`: the names of the fields.
    - `infuses`: whether there are infusions.
    """

    amount: Float[Array, " R"]
    row: Int[np.ndarray, " E"]
    time: Float[np.ndarray, " E"]
    until: Float[np.ndarray, " E"]
    field: Int[np.ndarray, " E"]
    resets: Bool[np.ndarray, " E"]
    first: Float[Array | np.ndarray, " E"]
    last: Float[Array | np.ndarray, " E"]
    fields: tuple[str, ...] = eqx.field(static=True)
    infuses: bool = eqx.field(static=True)

    @staticmethod
    def of(events: "Sequence[Event] | Events | None") -> "Events | None":
        """The events of a list; None for an empty one."""
        if isinstance(events, Events) or not events:
            return events if isinstance(events, Events) else None
        fields = tuple(sorted({e.state for e in events}))
        row = np.repeat(np.arange(len(events)), [e.count for e in events])
        time = np.concatenate([e.times for e in events])
        resets, field = np.array([e.set is not None for e in events]), np.array([fields.index(e.state) for e in events])
        at = Counter((float(t), fields[field[k]]) for t, k in zip(time, row, strict=True) if resets[k])
        if twice := [x for x, count in at.items() if count > 1]:
            raise PdefitError(f"{twice[0][1]} is set twice at {twice[0][0]:g}; leave one of these events out")
        length = np.array([e.length for e in events])
        amount = jax.device_put(np.array([e.value for e in events], float))
        until = time + length[row]
        return Events(amount, row, time, until, field[row], resets[row], time, time, fields, bool(np.any(length)))

    @staticmethod
    def along(events: "Sequence[Event] | Events | None", ts: Float[np.ndarray, " K"]) -> "Events | None":
        """The events of a trajectory. Times that differ by round-off, also from times `ts` of its record, become equal.

        None stands for no events. Events before the start of the trajectory, which they would not change, are refused.
        """
        if (made := Events.of(events)) is None:
            return None
        near = _SAME * (ts[-1] - ts[0])

        def moved(t: np.ndarray, known: np.ndarray) -> np.ndarray:
            at = known[np.searchsorted((known[1:] + known[:-1]) / 2, t)]
            return np.where(np.abs(t - at) <= near, at, t)

        both = moved(np.stack([made.time, made.until]), ts)
        each = np.union1d(ts, both)
        time, until = moved(both, each[np.diff(each, prepend=-np.inf) > near])
        if np.any(time < ts[0]):
            raise PdefitError(
                f"The trajectory begins at t = {ts[0]:g}, after the event at {np.min(time):g}; begin there (times.start, "
                f"Observations.with_nothing_at), or remove the event"
            )
        return dataclasses.replace(made, time=time, until=until, first=time, last=time)

    def ends(self, ts: Float[np.ndarray, " K"]) -> Float[np.ndarray, " B"]:
        """Times inside a record at which steps end, other than the times `ts` of the record."""
        times = np.concatenate([self.time, self.until])
        return np.setdiff1d(times[(times > ts[0]) & (times < ts[-1])], ts)

    def at_steps(self, starts: Float[Array, " N"], largest: Float[Array, ""]) -> "Events":
        """The events with `first` and `last` for given steps.

        **Arguments:**

        - `starts`: the starts of all steps, in any order; infinite for padding.
        - `largest`: the size of the largest step.
        """
        far, time = jnp.full(1, jnp.inf), jnp.asarray(self.time)
        starts = jnp.concatenate([-far, jnp.sort(starts), far])
        k = jnp.searchsorted(starts, time)
        k = jnp.where(time - starts[k - 1] < starts[k] - time, k - 1, k)
        is_start = jnp.abs(starts[k] - time) <= _SAME * largest
        # a quarter of the way to the steps beside it: a step, or the first half of one, is met once, however it is rounded
        first, last = (starts[k] + (starts[k + i] - starts[k]) / 4 for i in (-1, 1))
        return eqx.tree_at(lambda e: (e.first, e.last), self, (jnp.where(is_start, first, jnp.inf), last))

    def check(self, system: AbstractSystem, y: PyTree) -> None:
        """Refuse events of fields that the state `y` does not have, or that its system does not allow."""
        for name in self.fields:
            if name not in (names := named_fields(y)):
                raise unknown("field (events)", name, names)
        if isinstance(system, AbstractConstrained):
            raise PdefitError(
                f"{type(system).__name__} constrains its state, which an event would break; leave out events"
            )
        if self.infuses and isinstance(system, AbstractMechanical):
            raise PdefitError(
                f"{type(system).__name__} is of second order, where no rate can be added; give doses in place of infusions"
            )

    def begin(self, system: AbstractSystem, t: Array, h: Array, y: PyTree) -> tuple[AbstractSystem, PyTree]:
        """The equations of a step with its infusions, and the state at its start after doses and resets.

        **Arguments:**

        - `system`: the equations.
        - `t`, `h`: start and size of the step. A step of size zero is padding.
        - `y`: the state before the events.
        """
        self.check(system, y)
        names, known = list(named_fields(y)), list(self.fields)
        t, h = t.astype(jnp.float64), h.astype(jnp.float64)
        due = (self.first <= t) & (t <= self.last) & (h != 0) & (self.until == self.time)

        def summed(name: str, values: Array, chosen: Array | np.ndarray) -> Array:
            return jnp.sum(jnp.where(chosen & (self.field == known.index(name)), values, 0))

        def changed(name: str, u: Array) -> Array:
            if name not in known:
                return u
            is_set = jnp.any(due & self.resets & (self.field == known.index(name)))
            value = summed(name, self.amount[self.row], due).astype(u.dtype)
            return jnp.where(is_set, 0, u) + value

        def after(y: PyTree) -> PyTree:
            leaves, tree = jax.tree.flatten(y)
            return tree.unflatten(map(changed, names, leaves))

        y = lax.cond(jnp.any(due), after, lambda y: y, y)
        if not self.infuses:
            return system, y
        length = jnp.asarray(self.until) - jnp.asarray(self.time)
        on = (self.time < t + h / 2) & (t + h / 2 < self.until)
        speed = self.amount[self.row] / jnp.where(length > 0, length, 1.0)
        leaves, tree = jax.tree.flatten(y)
        added = [
            jnp.full_like(u, summed(n, speed, on) if n in known else 0) for n, u in zip(names, leaves, strict=True)
        ]
        return infused(system, tree.unflatten(added)), y


def alike(each: Sequence[Events | None]) -> list[Events | None]:
    """The events of several trajectories with arrays of equal shape, padded with events that are never due.

    **Arguments:** `each`: the events of every trajectory; None for a trajectory without events.
    """
    found = [events for events in each if events is not None]
    if not found:
        return list(each)
    fields = tuple(sorted({name for events in found for name in events.fields}))
    infuses = any(events.infuses for events in found)
    most, rows = (max(x.size for x in column) for column in zip(*((e.time, e.amount) for e in found), strict=True))
    times = attrgetter("time", "until", "first", "last")
    still = eqx.tree_at(times, found[0], replace_fn=lambda x: np.full(x.shape, np.inf))

    def padded(events: Events) -> Events:
        more = (0, most - events.time.size)
        row, field, resets = (np.pad(x, more) for x in (events.row, events.field, events.resets))
        amount = jnp.concatenate([events.amount, jnp.zeros(rows - events.amount.size, events.amount.dtype)])
        time, until, first, last = (np.pad(x, more, constant_values=np.inf) for x in times(events))
        field = np.array([fields.index(name) for name in events.fields])[field]
        return Events(amount, row, time, until, field, resets, first, last, fields, infuses)

    return [padded(events or still) for events in each]
