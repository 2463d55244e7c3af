"""Diagnosis of non-finite values: one sentence, and its parts as data."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from pdefit._util.failing_operation import Origin
from pdefit._util.source_line import SourceLine
from pdefit._util.trees import named_fields
from pdefit.systems.system import AbstractSystem


@dataclasses.dataclass(frozen=True, order=True)
class Largest:
    """Largest absolute value of a state or cotangent, the field that has it, and its time in the system's unit."""

    value: float
    field: str
    time: float


class StepPlace(NamedTuple):
    """Place on a trajectory; None for parts that do not apply.

    **Arguments:**

    - `segment`, `segments`: the number of the segment, from 1, and of all segments.
    - `time`: the time after the step, in the system's unit.
    - `step`, `steps`: the number of the step in its segment, from 1, and of all its steps.
    """

    segment: int | None = None
    segments: int | None = None
    time: float | None = None
    step: int | None = None
    steps: int | None = None


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """Diagnosis of a functional: the first place with non-finite values or cotangents, if any.

    Cotangents are derivatives of the loss in a state; the reverse pass carries them from the end of a trajectory to its
    start.

    **Arguments:**

    - `kind`: `healthy`, `input`, `state`, `observation`, `extra` (priors, regularizers, continuity residuals),
      `overflow` (of the sum J), `cotangent`, or `controls` (the map from theta).
    - `sentence`, `remedy`: the finding with its remedy in one sentence, and the remedy alone.
    - `recording`: the index of the recording, if there are many.
    - `segment`, `segments`, `time`, `step`, `steps`: the place on the trajectory; segments and steps count from 1, and
      `step` is the failing one.
    - `field`: a field of the state, an observed variable or a control.
    - `index`, `position`: the non-finite element, and its coordinates by axis.
    - `operation`, `line`: JAX's name of the failing operation, and the responsible line of code.
    - `loss`, `gradient_norm`, `largest_value`, `largest_cotangent`: for a healthy functional, J, |dJ/dtheta|, and the
      largest entries of a state and of a cotangent, which warn of an overflow.
    """

    kind: str
    sentence: str
    remedy: str = ""
    recording: int | None = None
    segment: int | None = None
    segments: int | None = None
    time: float | None = None
    step: int | None = None
    steps: int | None = None
    field: str | None = None
    index: tuple[int, ...] | None = None
    position: dict[str, float | str] | None = None
    operation: str | None = None
    line: SourceLine | None = None
    loss: float | None = None
    gradient_norm: float | None = None
    largest_value: Largest | None = None
    largest_cotangent: Largest | None = None

    @property
    def healthy(self) -> bool:
        """True if all values and cotangents are finite."""
        return self.kind == "healthy"

    def record(self) -> dict[str, Any]:
        """Entries of doctor.json."""
        return {"healthy": self.healthy, **dataclasses.asdict(self)}


@dataclasses.dataclass(frozen=True)
class Spot:
    """A non-finite element of an array.

    **Arguments:**

    - `field`, `index`: the name of the array, and the element.
    - `position`: its coordinates by axis, if the system has a grid.
    - `value`, `place`: `NaN` or `infinite`, and index and position in words, for a sentence.
    """

    field: str
    index: tuple[int, ...]
    position: dict[str, float | str]
    value: str
    place: str


def spot(tree: PyTree, system: AbstractSystem | None = None) -> Spot | None:
    """The first non-finite element of a tree; None if there is none.

    **Arguments:**

    - `tree`: a state, or arrays by name.
    - `system`: the system with that state, for coordinates (default: no coordinates).
    """
    for name, x in named_fields(tree).items():
        if not jnp.issubdtype(x.dtype, jnp.inexact):
            continue
        wrong = np.argwhere(~np.isfinite(np.asarray(x)))
        if wrong.size or (x.ndim == 0 and not np.isfinite(np.asarray(x))):
            index = tuple(int(i) for i in wrong[0]) if x.ndim else ()
            position, place = _position(name, index, system)
            return Spot(name, index, position, "NaN" if np.isnan(np.asarray(x)[index]) else "infinite", place)
    return None


def _position(name: str, index: tuple[int, ...], system: AbstractSystem | None) -> tuple[dict[str, float | str], str]:
    """Coordinates of an element by axis, and the same in words."""
    if not index:
        return {}, ""
    coords = system.coords().get(name) if system is not None else None
    if coords is None or len(coords.dims) != len(index) or not all(d in coords.coords for d in coords.dims):
        return {}, f" at index {list(index)}"
    position = {d: coords.coords[d][i].item() for d, i in zip(coords.dims, index, strict=True)}
    words = [
        f"{d} = {x:.4g} {coords.coord_units.get(d, '1')}".removesuffix(" 1")
        if isinstance(x, float | int)
        else f"{d} = {x}"
        for d, x in position.items()
    ]
    return position, f" at {', '.join(words)} (index {list(index)})"


def diagnosis(
    kind: str,
    finding: str,
    remedy: str,
    at: StepPlace | None = None,
    where: Spot | None = None,
    origin: Origin | None = None,
) -> Diagnosis:
    """Diagnosis with the finding and its remedy as its sentence.

    **Arguments:**

    - `kind`: as in `Diagnosis`.
    - `finding`, `remedy`: the parts of the sentence.
    - `at`, `where`, `origin`: the place on the trajectory, the element and the operation, if known.
    """
    return Diagnosis(
        kind,
        f"{finding}; {remedy}.",
        remedy,
        **(at or StepPlace())._asdict(),
        field=where and where.field,
        index=where and where.index,
        position=(where and where.position) or None,
        operation=origin and origin.operation,
        line=origin and origin.line,
    )


def term(origin: Origin | None, backward: bool = False) -> str:
    """The failing operation and its line, as the end of a sentence; `backward` means that its derivative fails."""
    if origin is None or origin.operation is None:
        return ""
    if origin.line is None:
        return f": {origin.operation}"
    whose = " (pdefit's own arithmetic, not the equations)" if origin.line.own else ""
    of = "the derivative of " if backward else ""
    return f": {of}{'' if backward else f'{origin.operation} in '}{origin.line}{whose}"


def finite(tree: PyTree) -> bool:
    """True if all floating-point numbers of a tree are finite."""
    leaves = [x for x in jax.tree.leaves(tree) if jnp.issubdtype(jnp.asarray(x).dtype, jnp.inexact)]
    return all(bool(jnp.all(jnp.isfinite(x))) for x in leaves)
