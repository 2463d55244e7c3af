"""A control bound to its leaf of the problem, with its part of theta."""

import dataclasses
from collections.abc import Callable
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pdefit.inverse.controls.bounds import Bounds
from pdefit.inverse.controls.parametrization.base import AbstractParametrization, Plain
from pdefit.inverse.controls.parametrization.modes import Modes
from pdefit.inverse.controls.priors import AbstractPrior
from pdefit.inverse.controls.transforms import AbstractTransform
from pdefit.inverse.problem.problem import Problem

# up to this many elements controls are tabulated one by one and get intervals; beyond, they are fields
FEW = 200

Kind = Literal["parameter", "field", "initial", "node"]


def kind_of(path: str, size: int) -> Kind:
    """Kind of a control, from the first part of its path and its size.

    **Arguments:**

    - `path`: its dotted path.
    - `size`: the number of its elements; a parameter of more than `FEW` is a field.
    """
    root = path.split(".")[0]
    if root in ("y0", "nodes"):
        return "initial" if root == "y0" else "node"
    return "field" if size > FEW else "parameter"


class BoundControl(eqx.Module):
    """One control bound to its leaf of the problem.

    **Arguments:**

    - `name`: its path as declared, such as `y0.u`.
    - `kind`: a parameter of few elements, a field of many, an initial state, or node states of segments.
    - `where`: the function from a problem to its leaf.
    - `transform`, `scale`, `prior`, `unit`: as in `Control`.
    - `parametrization`: the map from its coefficients to its array in search space.
    - `labels`: names of its elements.
    - `lower`, `upper`: bounds of its value or of each element, in `unit`: leaves, since recordings may differ in them.
    - `own`: whether each recording has an own value; `recording`: the index of its recording among several.
    """

    name: str = eqx.field(static=True)
    kind: Kind = eqx.field(static=True)
    where: Callable[[Problem], Array] = eqx.field(static=True)
    transform: AbstractTransform
    parametrization: AbstractParametrization
    scale: float = eqx.field(static=True)
    lower: float | tuple[float, ...]
    upper: float | tuple[float, ...]
    prior: AbstractPrior | None
    unit: str = eqx.field(static=True)
    labels: tuple[str, ...] = eqx.field(static=True)
    own: bool = eqx.field(static=True, default=False)
    recording: int | None = eqx.field(static=True, default=None)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of its leaf."""
        return self.parametrization.shape

    @property
    def size(self) -> int:
        """Number of its elements in theta."""
        return self.parametrization.size

    @property
    def has_modes(self) -> bool:
        """True for a field of modes: its coefficients belong to no point, and their prior is in units of the noise."""
        return isinstance(self.parametrization, Modes)

    @property
    def is_plain(self) -> bool:
        """True if theta contains each element of the control separately."""
        return isinstance(self.parametrization, Plain)

    @property
    def has_prior(self) -> bool:
        """True if its value or its smoothness has a prior."""
        return self.prior is not None or self.parametrization.roughness is not None

    @property
    def is_field(self) -> bool:
        """True for a field: a control with modes, or with more elements than tables list."""
        return self.has_modes or self.size > FEW

    @property
    def is_number(self) -> bool:
        """True for scalars, with a row each in tables: neither a field nor node states."""
        return not (self.is_field or self.is_node)

    @property
    def path(self) -> str:
        """Name in tables, with the index of the recording if there are several, such as `y0.u[3]`."""
        return self.name if self.recording is None else f"{self.name}[{self.recording}]"

    @property
    def is_node(self) -> bool:
        """True for node states, whose first axis is the segments."""
        return self.kind == "node"

    @property
    def is_state(self) -> bool:
        """True for initial and node states, from which trajectories start."""
        return self.kind in ("initial", "node")

    def names(self) -> list[str]:
        """Name of every element, such as `D`, `gm.Mars` or `y0.u.17`."""
        return [f"{self.path}.{label}" if label else self.path for label in self.labels]

    def to_theta(self, x: Array) -> Float[Array, " size"]:
        """Part of theta for the physical value x."""
        return jnp.ravel(self.parametrization.coefficients(self.transform.to_search(x))) / self.scale

    def to_physical(self, theta: Float[Array, " size"]) -> Array:
        """Physical value for a part of theta."""
        return self.transform.to_physical(self.search(theta))

    def search(self, theta: Float[Array, " size"]) -> Array:
        """Array in search space, before the transform, for a part of theta."""
        return self.parametrization.field(theta * self.scale)

    def with_priors(self, prior: AbstractPrior | None, roughness: Array | None) -> "BoundControl":
        """The control with other priors.

        **Arguments:**

        - `prior`: the prior density of its value.
        - `roughness`: the weight of every element in the smoothness prior, (size,).
        """
        parametrization = dataclasses.replace(self.parametrization, roughness=roughness)
        return dataclasses.replace(self, prior=prior, parametrization=parametrization)

    @property
    def bounds(self) -> Bounds:
        """Bounds of its part of theta."""

        def searched(bound: object) -> np.ndarray:
            values = np.broadcast_to(np.asarray(bound, float), self.size)
            finite = np.isfinite(values)
            # without a bound nothing is compiled
            if not np.any(finite):
                return values
            return np.where(finite, np.asarray(self.transform.to_search(jax.device_put(values))) / self.scale, values)

        return Bounds(searched(self.lower), searched(self.upper))
