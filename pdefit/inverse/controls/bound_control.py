"""A control bound to its leaf of the problem, and the part of theta that stands for its value."""

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
    """The kind of a control, from the part of the problem that its path begins with.

    **Arguments:**

    - `path`: its name, with dots.
    - `size`: the number of its elements; a parameter of many is a field.
    """
    root = path.split(".")[0]
    if root in ("y0", "nodes"):
        return "initial" if root == "y0" else "node"
    return "field" if size > FEW else "parameter"


class BoundControl(eqx.Module):
    """One control bound to its leaf of the problem.

    **Arguments:**

    - `name`: its path as declared, such as `y0.u`.
    - `kind`: a parameter of few numbers, a field of many, an initial state, or node states of segments.
    - `where`: takes its leaf out of a problem.
    - `transform`, `scale`, `prior`, `unit`: as of `Control`.
    - `parametrization`: how theta stands for its value in search space.
    - `labels`: names of its elements.
    - `lower`, `upper`: bounds of its value or of each element, in `unit`: leaves, which recordings may differ in.
    - `own`: whether each recording has its own; `recording`: its number.
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
        """The shape of its leaf."""
        return self.parametrization.shape

    @property
    def size(self) -> int:
        """The number of elements of theta that stand for it."""
        return self.parametrization.size

    @property
    def has_modes(self) -> bool:
        """Test for a field of modes: its coefficients belong to no point, and their prior is in units of the noise."""
        return isinstance(self.parametrization, Modes)

    @property
    def is_plain(self) -> bool:
        """Test for a control whose elements theta holds one by one."""
        return isinstance(self.parametrization, Plain)

    @property
    def has_prior(self) -> bool:
        """Test for a prior density, of its value or of its smoothness."""
        return self.prior is not None or self.parametrization.roughness is not None

    @property
    def is_field(self) -> bool:
        """Test for a field: a control of modes, or of more elements than a table lists."""
        return self.has_modes or self.size > FEW

    @property
    def is_number(self) -> bool:
        """Test for numbers of their own, with a row each in tables: neither a field nor node states."""
        return not (self.is_field or self.is_node)

    @property
    def path(self) -> str:
        """The name in tables; with the number of the recording if there are several, such as `y0.u[3]`."""
        return self.name if self.recording is None else f"{self.name}[{self.recording}]"

    @property
    def is_node(self) -> bool:
        """Test for node states, with the segments as first axis."""
        return self.kind == "node"

    @property
    def is_state(self) -> bool:
        """Test for a control from which trajectories start."""
        return self.kind in ("initial", "node")

    def names(self) -> list[str]:
        """A name for every element, such as `D`, `gm.Mars` or `y0.u.17`."""
        return [f"{self.path}.{label}" if label else self.path for label in self.labels]

    def to_theta(self, x: Array) -> Float[Array, " size"]:
        """The part of theta that stands for the physical value x."""
        return jnp.ravel(self.parametrization.coefficients(self.transform.to_search(x))) / self.scale

    def to_physical(self, theta: Float[Array, " size"]) -> Array:
        """The physical value that a part of theta stands for."""
        return self.transform.to_physical(self.search(theta))

    def search(self, theta: Float[Array, " size"]) -> Array:
        """The value before its transform that a part of theta stands for."""
        return self.parametrization.field(theta * self.scale)

    def with_priors(self, prior: AbstractPrior | None, roughness: Array | None) -> "BoundControl":
        """The same control with other priors.

        **Arguments:**

        - `prior`: the density of its value.
        - `roughness`: the weight of every element in the smoothness prior, (size,).
        """
        parametrization = dataclasses.replace(self.parametrization, roughness=roughness)
        return dataclasses.replace(self, prior=prior, parametrization=parametrization)

    @property
    def bounds(self) -> Bounds:
        """The bounds of its part of theta."""
        ends = [np.broadcast_to(np.asarray(b, float), self.size) for b in (self.lower, self.upper)]
        lower, upper = (
            np.where(np.isfinite(b), np.asarray(self.transform.to_search(jax.device_put(b))) / self.scale, b)
            # without a bound nothing is compiled
            if np.any(np.isfinite(b))
            else b
            for b in ends
        )
        return Bounds(lower, upper)
