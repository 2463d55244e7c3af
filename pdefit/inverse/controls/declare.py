"""Declarations of controls, and the arrays that they name."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Literal

import jax.numpy as jnp
from jaxtyping import Array

from pdefit._util.errors import PdefitError
from pdefit.inverse.controls.guesses import AbstractGuess
from pdefit.inverse.controls.paths import PARTS, leaf_paths
from pdefit.inverse.controls.priors import AbstractPrior
from pdefit.inverse.controls.transforms import AbstractTransform, Identity
from pdefit.inverse.problem.problem import Problem

# a guess is uniform where its standard deviation is below this part of its largest value
_UNIFORM = 1e-5


@dataclasses.dataclass(frozen=True)
class Smoothing:
    """Smoothness prior of an unknown field.

    The field is a background plus S z, with S = (1 + length^2 k^2)^(-order) and the search variable z. With an
    amplitude, z has a Gaussian prior: the field then differs from its background by about the amplitude, over distances
    of about the length. The covariance of the field is proportional to S^2.

    The background is the guess. A guess that is itself a noisy measurement is not prior knowledge, because data would
    count twice. With an amplitude the background is then its mean, and the fit starts from the measurement filtered by
    the prior.

    **Arguments:**

    - `length`: the smoothing length, in the grid's unit of length; in cells without a grid.
    - `amplitude`: the standard deviation of the prior at a point, in the unit of the search space. By default there is
      no prior, and z is only a search variable. `auto` is the amplitude of maximum evidence, which a fit estimates
      between its rounds. It starts from the standard deviation of the guess or, for a uniform guess, from the control's
      `scale`. It assumes a correct sigma. Not for many recordings in one fit.
    - `order`: the decay of modes with the wave number k; default 1. For flows and diffusing fields, which are smoother,
      2 is suitable.
    - `time`: the smoothing time of a field that depends on time; default 0, no smoothing in time.
    - `mean`: for axes by name, a factor by which the mean along that axis may exceed the remaining modes, such as
      `{"x": 5.0}`. It suits a mean that the data hardly determine.
    """

    length: float
    amplitude: float | Literal["auto"] | None = None
    order: float = 1.0
    mean: Mapping[str, float] = dataclasses.field(default_factory=dict)
    time: float = 0.0

    def __post_init__(self):
        numbers = {"length": self.length, "order": self.order, **{f"mean.{axis}": x for axis, x in self.mean.items()}}
        if self.amplitude is not None and self.amplitude != "auto":
            numbers["amplitude"] = self.amplitude
        for name, number in numbers.items():
            if not (isinstance(number, int | float) and 0 < number < math.inf):
                other = " or `auto`" if name == "amplitude" else ""
                raise ValueError(f"smoothing expects a positive {name}{other}, but got {number}")
        if not 0 <= self.time < math.inf:
            raise ValueError(f"smoothing expects a time of 0 or more, but got {self.time}")

    def from_guess(self, guess: Array, scale: float) -> "Smoothing":
        """The smoothing with a number in place of the amplitude `auto`, from which a fit starts.

        **Arguments:**

        - `guess`: the guess in search space.
        - `scale`: the size of a typical change in search space, for a uniform guess.
        """
        if self.amplitude != "auto":
            return self
        spread, most = float(jnp.std(guess)), float(jnp.max(jnp.abs(guess)))
        return dataclasses.replace(self, amplitude=spread if spread > _UNIFORM * most else scale)


@dataclasses.dataclass(frozen=True)
class Control:
    """Declaration of an unknown, in physical units.

    **Arguments:**

    - `transform`: the map to search space; default `Identity()`.
    - `guess`: the initial value of the fit; default the value in the problem.
    - `bounds`: the smallest and the largest value; default no bounds.
    - `within`: the largest distance from the guess, in `unit`; default unlimited. For guesses that differ between
      recordings.
    - `prior`: the prior density; default no prior.
    - `unit`: the unit of all these values; default the unit in the system. The command line refuses another unit.
    - `scale`: the size of a typical change in search space, by which theta is divided; default 1.
    - `smoothing`: the smoothness of an unknown field, a `Smoothing`; a number is a length in grid cells. The search
      variable is then a Sobolev variable, in which smooth changes have a small norm.
    - `modes`: the number of smooth modes of an unknown field. theta holds their coefficients, and a fit estimates the
      smoothness from the data (see `pdefit.inverse.fit.smoothness`).
    - `basis`: the kind of these modes: `waves` (the default), Fourier modes along periodic axes and cosines between
      walls; or `polynomials`, for a field with slopes at walls or a kink at the end of a period, which would need many
      waves.
    - `scope`: `shared` by all recordings (the default), or `experiment`, with an own value for each recording. Node
      states always belong to one recording.
    - `estimate`: whether the control is estimated (the default) or kept at its guess.
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
    """Declaration of every array that is a control, with its path.

    For a module (a network, an interpolant) these are all of its arrays.

    **Arguments:**

    - `problem`: the problem that holds the arrays.
    - `declared`: as in `bind`.
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
    """Leaves of a nested mapping with their dotted paths."""
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
