"""The place of a fit in its stages, which is saved and restored whole."""

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class Place:
    """The place of a fit in its stages, as numbers and text that a file can hold.

    **Arguments:**

    - `stage`, `round`, `count`: the stage, the round of reweighting in it, and the evaluations of that round.
    - `iterations`: evaluations of all stages together.
    - `windows`: the stage whose windows are in force, -1 for those of the functional itself.
    - `windows_before`: the same before this stage.
    - `settled`: whether reweighting has come to rest.
    - `watched`: whether growth of the adjoint was explained already.
    - `events`: what happened, in sentences.
    - `compiling`, `evaluating`: seconds spent so.
    """

    stage: int = 0
    round: int = 0
    count: int = 0
    iterations: int = 0
    windows: int = -1
    windows_before: int = -1
    settled: bool = False
    watched: bool = False
    events: tuple[str, ...] = ()
    compiling: float = 0.0
    evaluating: float = 0.0

    def as_numbers(self) -> dict[str, Any]:
        """The place as numbers, flags and lists, which survive JSON."""
        return {**dataclasses.asdict(self), "events": list(self.events)}

    @classmethod
    def from_numbers(cls, numbers: dict[str, Any]) -> "Place":
        """The place from which `as_numbers` was called.

        **Errors:** ValueError where a number is missing, negative, or of another type.
        """
        if not isinstance(numbers["events"], list):
            raise ValueError("events are no list")
        place = cls(**{**numbers, "events": tuple(numbers["events"])})
        for field in dataclasses.fields(cls):
            value, like = getattr(place, field.name), field.default
            if type(value) is not type(like) or (type(like) in (int, float) and value < like):
                raise ValueError(f"{field.name} is {value!r}")
        if not all(isinstance(event, str) for event in place.events):
            raise ValueError("events are no text")
        return place
