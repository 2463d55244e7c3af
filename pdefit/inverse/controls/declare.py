"""Declarations of controls, and the arrays that a declaration names."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from pdefit._util.errors import PdefitError
from pdefit.inverse.controls.guesses import AbstractGuess
from pdefit.inverse.controls.paths import PARTS, leaf_paths
from pdefit.inverse.controls.priors import AbstractPrior
from pdefit.inverse.controls.smoothing import Smoothing
from pdefit.inverse.controls.transforms import AbstractTransform, Identity
from pdefit.inverse.problem.problem import Problem


@dataclasses.dataclass(frozen=True)
class Control:
    """Declaration of an unknown, in physical units.

    **Arguments:**

    - `transform`: the map to search space; default `Identity()`.
    - `guess`: the first value of the fit; by default the value in the problem.
    - `bounds`: the smallest and the largest value; by default there are none.
    - `within`: the largest distance from its guess, in its unit; by default unlimited. For guesses that differ from
      recording to recording.
    - `prior`: the prior density; by default there is none.
    - `unit`: the unit of all these numbers; by default the unit in the system. The command line refuses another unit.
    - `scale`: the size of a typical change in search space, by which theta is divided; default 1.
    - `smoothing`: the smoothness of an unknown field, a `Smoothing`; a number is a length in grid cells. The search
      variable is then a Sobolev variable, in which smooth changes have a small norm.
    - `modes`: the number of smooth modes of an unknown field. theta holds their coefficients, and a fit estimates the
      smoothness from the data (see `pdefit.inverse.fit.smoothness`).
    - `basis`: the kind of these modes: `waves` (the default), Fourier modes along periodic axes and cosines between
      walls; or `polynomials`, for a field with slopes at walls or a kink at the end of a period, which would need many
      waves.
    - `scope`: `shared` by all recordings (the default), or each `experiment` has its own. Node states always belong to
      one.
    - `estimate`: whether it is estimated (the default) or kept at its guess.
    """

    transform: AbstractTransform = Identity()
    guess: AbstractGuess | None = None
    bounds: tuple[float, float] | None = None
    within: float | None = None
    prior: AbstractPrior | None = None
    unit: str | None = None
    scale: float = 1.0
    smoothing: float | Smoothing | None = None
    modes: int | None = None
    basis: str = "waves"
    scope: str = "shared"
    estimate: bool = True

    def __post_init__(self):
        if self.scope not in ("shared", "experiment"):
            raise PdefitError(f"The scope of a control is `shared` or `experiment`, but got '{self.scope}'")
        if self.basis not in ("waves", "polynomials"):
            raise PdefitError(f"The basis of a control is `waves` or `polynomials`, but got '{self.basis}'")
        if self.basis != "waves" and self.modes is None:
            raise PdefitError(f"A basis of {self.basis} is that of modes; give their number, such as modes = 16")


Declaration = Mapping[str, Any]


def declared_leaves(problem: Problem, declared: Declaration) -> list[tuple[str, Control]]:
    """Every array that is declared a control, by its path.

    Of a module (a network, an interpolant) these are all of its arrays.

    **Arguments:**

    - `problem`: the problem that holds the arrays.
    - `declared`: as of `bind`.
    """
    leaves: dict[str, Control] = {}
    for path, control in _flatten(declared):
        inside = leaf_paths(problem, path)
        for word in ("smoothing", "modes"):
            if inside != [path] and getattr(control, word) is not None:
                raise PdefitError(f"'{path}' is a module, whose arrays are no fields; remove {word}")
        for inner in inside:
            if inner in leaves:
                raise PdefitError(f"The control '{inner}' is declared twice; remove one")
            leaves[inner] = control
    return list(leaves.items())


def _flatten(declared: Declaration, prefix: str = "") -> list[tuple[str, Control]]:
    """Leaves of the nested mapping with their dotted paths."""
    leaves: list[tuple[str, Control]] = []
    for name, node in declared.items():
        path = f"{prefix}{name}"
        if isinstance(node, Control):
            leaves.append((path, node))
        elif isinstance(node, AbstractTransform):
            leaves.append((path, Control(transform=node)))
        # a control without words is one with defaults, where a part of the problem without entries has none
        elif isinstance(node, Mapping):
            leaves.extend(_flatten(node, f"{path}.") if node or path in PARTS else [(path, Control())])
        else:
            raise PdefitError(f"controls.{path} expects a Control, a transform or a mapping, but got {node!r}")
    return leaves
