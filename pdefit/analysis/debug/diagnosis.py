"""What the doctor found, in one sentence and in parts."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from pdefit._util.trees import named_fields
from pdefit.analysis.debug._origin import Origin
from pdefit.analysis.debug._source_line import SourceLine
from pdefit.systems.capabilities import AbstractGridded
from pdefit.systems.system import AbstractSystem


@dataclasses.dataclass(frozen=True, order=True)
class Largest:
    """Largest absolute value of a state or cotangent, the field that has it, and its time."""

    value: float
    field: str
    time: float


class Place(NamedTuple):
    """Segment and step of a trajectory, both counted from 1, and the time after that step."""

    segment: int | None = None
    segments: int | None = None
    time: float | None = None
    step: int | None = None
    steps: int | None = None


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """Where values or cotangents first stop being finite, or that they are finite everywhere.

    `kind` is `healthy`, `input`, `state`, `observation`, `extra` (priors, regularizers, jumps), `overflow` (of the sum J),
    `cotangent` or `controls` (the map from theta). `segment` and `step` count from 1, `step` being the one that fails;
    `field` is a field of the state, an observed variable or a control, `index` an element of it and `position` where that
    lies; `operation` is JAX's name of what fails, `line` the code that led to it. Of a healthy functional `loss`,
    `gradient_norm`, and the largest value and cotangent of a state with the time and field where they occur.
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
        return self.kind == "healthy"

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers and text."""
        return {"healthy": self.healthy, **dataclasses.asdict(self)}


@dataclasses.dataclass(frozen=True)
class Spot:
    """One element that is not finite: of which field, which, where that lies, and what it is."""

    field: str
    index: tuple[int, ...]
    position: dict[str, float | str]
    value: str
    place: str


def spot(tree: PyTree, system: AbstractSystem | None = None) -> Spot | None:
    """The first element of a tree (a state of `system`, or named arrays) that is not finite."""
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
    """The coordinates of an element, and in words."""
    if not index:
        return {}, ""
    coords = system.coords().get(name) if isinstance(system, AbstractGridded) else None
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
    at: Place | None = None,
    where: Spot | None = None,
    origin: Origin | None = None,
    more: str = "",
) -> Diagnosis:
    """A diagnosis whose sentence is the finding and its remedy."""
    return Diagnosis(
        kind,
        f"{finding}; {remedy}{more}.",
        remedy,
        **(at or Place())._asdict(),
        field=where and where.field,
        index=where and where.index,
        position=(where and where.position) or None,
        operation=origin and origin.operation,
        line=origin and origin.line,
    )


def term(found: Origin | None, backward: bool = False) -> str:
    """The operation and its line, as the middle of a sentence."""
    if found is None or found.operation is None:
        return ""
    if found.line is None:
        return f": {found.operation}"
    whose = " (pdefit's own arithmetic, not the equations)" if found.line.own else ""
    of = "the derivative of " if backward else ""
    return f": {of}{'' if backward else f'{found.operation} in '}{found.line}{whose}"


def finite(tree: PyTree) -> bool:
    """Whether all of a tree is finite."""
    leaves = [x for x in jax.tree.leaves(tree) if jnp.issubdtype(jnp.asarray(x).dtype, jnp.inexact)]
    return all(bool(jnp.all(jnp.isfinite(x))) for x in leaves)
