"""The verdict on one control: the effect of its change on the data, and the compensating controls."""

import dataclasses
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

# others are told that make an interval this many times as long
_LONG = 10


@dataclasses.dataclass(frozen=True)
class ControlIdentifiability:
    """Identifiability of a scalar, or of a group: a network, a field, a long array.

    **Arguments:**

    - `control`: its name.
    - `elements`: the indices of its elements in theta, (n,).
    - `projection`: the squared projection of its unit vector on the null space. For a group it is the mean over its
      elements: the fraction of its directions that the data do not see.
    - `curve`: the projection for each of `THRESHOLDS`.
    - `components`: the squared components of the projection along each control by name, itself included. They sum to
      the projection.
    - `direction`: the direction of theta, in units of sizes, along which the remaining unknowns compensate a change of
      a scalar; for a group its unseen part, (p,).
    - `known_to`: the half width of the 95 % interval at the noise of the data, relative to the control's size; infinite
      if the data determine nothing, None for a group.
    - `limit`: the `known_to` above which a control is not identifiable: 1, and less if it contains a prior.
    - `delta`: the projection above which a control is not identifiable.
    - `projection_at_most`, `known_to_at_most`: their upper bounds if products with the matrix gave bounds; `projection`
      and `known_to` are then the lower ones; None if the matrix was known.
    - `lengthened`: the ratio of the interval to the interval with all other unknowns held; None for a group.
    - `shared`: the fractions of the remaining unknowns in their joint change with the scalar, by name.
    """

    control: str
    elements: np.ndarray
    projection: float
    curve: np.ndarray
    components: dict[str, float]
    direction: np.ndarray
    known_to: float | None
    limit: float
    delta: float
    projection_at_most: float | None = None
    known_to_at_most: float | None = None
    lengthened: float | None = None
    shared: dict[str, float] = dataclasses.field(default_factory=dict)

    @property
    def word(self) -> str:
        """The verdict in a word: `identifiable`, `not identifiable`, or `undecided` if more products are needed.

        For a scalar the noise decides: it is identifiable if its interval is shorter than its size. For a group the
        published threshold decides.
        """
        if self.known_to is None:
            known = [x <= self.delta for x in (self.projection, self.projection_at_most or 0.0)]
        else:
            known = [x < self.limit for x in (self.known_to, self.known_to_at_most or 0.0)]
        return "identifiable" if all(known) else "undecided" if known[0] else "not identifiable"

    @property
    def known(self) -> str:
        """`known_to` in words, with both bounds if they differ by a tenth; empty for a group."""
        if self.known_to is None or not np.isfinite(self.known_to):
            return "" if self.known_to is None else "nothing"
        most = self.known_to_at_most or 0.0
        further = f" to {100 * most:.2g}" if most > 1.1 * self.known_to else ""
        return f"±{100 * self.known_to:.2g}{further} %"

    @property
    def partners(self) -> dict[str, float]:
        """Controls that compensate a change of this one, with their share of the projection, the largest first.

        The mapping is empty if the control is outside the null space. Shares below a twentieth are left out.
        """
        if max(self.projection, self.projection_at_most or 0.0) <= self.delta:
            return {}
        return _parts({name: x / self.projection for name, x in self.components.items() if name != self.control})

    def row(self) -> dict[str, Any]:
        """Entries of a table row."""
        names = ("word", "verdict", "projection", "projection_at_most", "known_to", "known_to_at_most", "lengthened")
        return {
            "control": self.control,
            "unknowns": int(self.elements.size),
            **{name: getattr(self, name) for name in names},
            "partners_share": "; ".join(f"{name} {part:.2f}" for name, part in self.partners.items()),
        }

    @property
    def verdict(self) -> str:
        """The verdict in words, with the reason."""
        count, partners = self.elements.size, ", ".join(self.partners)
        if self.word == "undecided":
            return f"undecided: more products with the matrix have to tell{f'; {partners} may compensate it' * bool(partners)}"
        if not partners and self.projection <= self.delta:
            if self.word != "identifiable":
                return f"{self.word} at this noise"
            by = ", ".join(_parts(self.shared)) if (self.lengthened or 0.0) > _LONG else ""
            return (
                f"{self.word}; with {by} free its interval is {self.lengthened:.2g} times as long" if by else self.word
            )
        if self.word == "identifiable":
            return f"identifiable, by the precision of the data{f' alone: {partners} nearly compensates it' * bool(partners)}"
        reasons = [f"{self.projection * count:.0f} of {count} directions unseen"] * (count > 1)
        reasons += [f"compensated by {partners}"] * bool(partners)
        return f"{self.word}: {', '.join(reasons) or 'without influence'}"


def _parts(parts: dict[str, float]) -> dict[str, float]:
    """Shares above a twentieth, the largest first."""
    return {name: x for name, x in sorted(parts.items(), key=lambda p: -p[1]) if x > 0.05}


class Compensation(NamedTuple):
    """Effect of a change of one scalar, alone and with the other unknowns adjusted to it.

    **Arguments:**

    - `control`: its name.
    - `change`, `adjusted`: the change of theta alone, and with the other unknowns adjusted, (p,).
    - `alone`, `together`: rms change of the observed values, in units of the noise; infinite if the model blows up.
    """

    control: str
    change: Float[np.ndarray, " p"]
    adjusted: Float[np.ndarray, " p"]
    alone: float
    together: float


class Trace(NamedTuple):
    """The course of one observed value, with and without a change of a control.

    **Arguments:**

    - `name`: the name of the variable, with the index of its element.
    - `ts`: the times, in the system's time unit, (T,).
    - `values`: without the change, with the change alone, and with the other unknowns adjusted, (3, T); NaN if no value
      is fitted.
    """

    name: str
    ts: Float[np.ndarray, " T"]
    values: Float[np.ndarray, "3 T"]


class Courses(NamedTuple):
    """Courses of observed values under a change of a control that other unknowns compensate.

    **Arguments:**

    - `control`: its name.
    - `change`: the change, relative to the control's size.
    - `traces`: one course for each variable.
    """

    control: str
    change: float
    traces: tuple[Trace, ...]

    def record(self) -> dict[str, Any]:
        """Entries of a JSON file."""
        each = [{"name": t.name, "times": t.ts, "values": t.values} for t in self.traces]
        return {"control": self.control, "change": self.change, "traces": each}
