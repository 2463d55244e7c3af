"""The verdict on one control: what the data see of a change of it, and which others compensate it."""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class ControlIdentifiability:
    """The identifiability of a number, or of a group: a network, a field, a long array.

    **Arguments:**

    - `control`: its name.
    - `elements`: which elements of theta it is, (n,).
    - `projection`: the squared projection of its unit vector on the null space. Of a group it is the mean over its
      elements, which is the part of its directions that no data see.
    - `curve`: the projection for each of `THRESHOLDS`.
    - `components`: by name the squared components of the projection along each control, itself included. They sum up to
      the projection.
    - `direction`: the direction of theta, in units of sizes, along which the others compensate a change of a number; of a
      group what the data do not see of it, (p,).
    - `known_to`: half the width of the 95 % interval at the noise of the data, as a part of the control's size; infinite
      where nothing is known, None of a group.
    - `limit`: the `known_to` from which on a control is not identifiable: 1, and less where a prior is in it.
    - `delta`: the projection above which a control is not identifiable.
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

    @property
    def word(self) -> str:
        """The verdict in a word, `identifiable` or `not identifiable`.

        The noise decides for a number: it is identifiable where its interval is shorter than itself. Of a group the
        published threshold decides.
        """
        is_known = self.projection <= self.delta if self.known_to is None else self.known_to < self.limit
        return "identifiable" if is_known else "not identifiable"

    @property
    def partners(self) -> dict[str, float]:
        """The other controls that compensate a change of it, the largest first, by their part of the projection.

        They are empty where the control is outside the null space. Parts below a twentieth are left out.
        """
        if self.projection <= self.delta:
            return {}
        parts = {name: x / self.projection for name, x in self.components.items() if name != self.control}
        return {name: x for name, x in sorted(parts.items(), key=lambda p: -p[1]) if x > 0.05}

    @property
    def verdict(self) -> str:
        """The verdict in words, with the reason."""
        count, partners = self.elements.size, ", ".join(self.partners)
        if self.projection <= self.delta:
            return self.word if self.word == "identifiable" else f"{self.word} at this noise"
        if self.word == "identifiable":
            return f"identifiable, by the precision of the data{f' alone: {partners} nearly compensates it' * bool(partners)}"
        reasons = [f"{self.projection * count:.0f} of {count} directions unseen"] * (count > 1)
        reasons += [f"compensated by {partners}"] * bool(partners)
        return f"{self.word}: {', '.join(reasons) or 'without influence'}"
