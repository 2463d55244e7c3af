"""Bound controls and the vector theta that stands for their values."""

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PyTree

from pdefit.inverse.controls._axes_and_modes import Modes
from pdefit.inverse.controls.priors import AbstractPrior
from pdefit.inverse.controls.transforms import AbstractTransform, Identity, Scale
from pdefit.inverse.problem.problem import Problem
from pdefit.systems.capabilities import AbstractConstrained
from pdefit.systems.linear_operators import Smoother

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
    - `shape`, `labels`: that of the leaf, and names of its elements.
    - `lower`, `upper`: bounds of its value or of each element, in `unit`: leaves, which recordings may differ in.
    - `smoothing`: the operator between its Sobolev variable and the field, or None.
    - `base`: the search-space field around which a Sobolev variable moves.
    - `modes`: the smooth modes whose coefficients theta holds, or None.
    - `roughness`: the weight of every element in the smoothness prior; where `open`, a fit chooses it. None for one that
      has neither modes nor a smoothing with an amplitude.
    - `own`: whether each recording has its own; `recording`: its number.
    """

    name: str = eqx.field(static=True)
    kind: Kind = eqx.field(static=True)
    where: Callable[[Problem], Array] = eqx.field(static=True)
    transform: AbstractTransform
    shape: tuple[int, ...] = eqx.field(static=True)
    scale: float = eqx.field(static=True)
    lower: float | tuple[float, ...]
    upper: float | tuple[float, ...]
    prior: AbstractPrior | None
    unit: str = eqx.field(static=True)
    labels: tuple[str, ...] = eqx.field(static=True)
    smoothing: Smoother | None = eqx.field(static=True)
    base: Array | None
    modes: Modes | None = eqx.field(static=True, default=None)
    roughness: Array | None = None
    open: bool = eqx.field(static=True, default=False)
    own: bool = eqx.field(static=True, default=False)
    recording: int | None = eqx.field(static=True, default=None)

    @property
    def size(self) -> int:
        """The number of elements of theta that stand for it."""
        return int(np.prod(self.shape)) if self.modes is None else self.modes.count

    @property
    def is_field(self) -> bool:
        """Test for a field: a control of modes, or of more elements than a table lists."""
        return self.modes is not None or self.size > FEW

    @property
    def path(self) -> str:
        """The name in tables: with the number of the recording where there are several, `y0.u[3]`."""
        return self.name if self.recording is None else f"{self.name}[{self.recording}]"

    @property
    def is_node(self) -> bool:
        """Whether it holds node states, with the segments as first axis."""
        return self.kind == "node"

    @property
    def is_state(self) -> bool:
        """Whether trajectories start from it."""
        return self.kind in ("initial", "node")

    def to_theta(self, x: Array) -> Float[Array, " size"]:
        """The part of theta that stands for the physical value x."""
        search = self.transform.to_search(x)
        if self.base is not None and self.smoothing is not None:
            search = self.smoothing.unsmooth(search - self.base)
        if self.modes is not None:
            search = self.modes.coefficients(search)
        return jnp.ravel(search) / self.scale

    def to_physical(self, theta: Float[Array, " size"]) -> Array:
        """The physical value that a part of theta stands for."""
        return self.transform.to_physical(self.search(theta))

    def search(self, theta: Float[Array, " size"]) -> Array:
        """The value before its transform that a part of theta stands for."""
        if self.modes is not None:
            return self.modes.field(theta * self.scale)
        search = jnp.reshape(theta * self.scale, self.shape)
        if self.base is not None and self.smoothing is not None:
            search = self.base + self.smoothing.smooth(search)
        return search

    def box(self) -> tuple[np.ndarray, np.ndarray]:
        """The bounds in search space."""
        ends = [np.broadcast_to(np.asarray(b, float), self.size) for b in (self.lower, self.upper)]
        lower, upper = (
            np.where(np.isfinite(b), np.asarray(self.transform.to_search(jnp.asarray(b))) / self.scale, b) for b in ends
        )
        return lower, upper


class Controls(eqx.Module):
    """All controls of a problem, and the vector theta of their values.

    theta is one float64 vector of p elements, the search variables one after the other: numbers, fields, then states.

    **Arguments:**

    - `items`: the controls, in the order of theta.
    """

    items: tuple[BoundControl, ...]

    @property
    def nodes(self) -> tuple[BoundControl, ...]:
        """The controls that are node states, with the segments as first axis."""
        return tuple(c for c in self.items if c.is_node)

    @property
    def shared(self) -> "Controls":
        """The controls that all segments share: the first `shared_size` elements of theta."""
        return Controls(tuple(c for c in self.items if not c.is_node))

    @property
    def shared_size(self) -> int:
        return self.shared.size

    @property
    def states(self) -> "Controls":
        """The controls from which trajectories start: the last ones."""
        return Controls(tuple(c for c in self.items if c.is_state))

    @property
    def without_states(self) -> "Controls":
        """The controls from which no trajectory starts."""
        return Controls(tuple(c for c in self.items if not c.is_state))

    @property
    def tabulated(self) -> "Controls":
        """The controls that histories and tables follow element by element: the first elements of theta.

        These are the shared controls that are no fields, as long as they are few.
        """
        single = list(itertools.takewhile(lambda c: not c.is_field, self.shared.items))
        totals = np.cumsum([c.size for c in single])
        return Controls(tuple(c for c, total in zip(single, totals, strict=True) if total <= FEW))

    @property
    def size(self) -> int:
        return sum(c.size for c in self.items)

    @eqx.filter_jit
    def theta(self, problem: Problem) -> Float[Array, " p"]:
        """The vector that stands for the values the problem holds."""
        each = [c.to_theta(c.where(problem)).astype(jnp.float64) for c in self.items]
        return jnp.concatenate(each) if each else jnp.zeros(0)

    def values(self, theta: Float[Array, " p"]) -> dict[str, Array]:
        """The physical value of every control by path."""
        return {c.path: c.to_physical(part) for c, part in zip(self.items, self.split(theta), strict=True)}

    def problem(self, problem: Problem, theta: Float[Array, " p"]) -> Problem:
        """The problem with the values of the controls that theta stands for.

        **Arguments:**

        - `problem`: all other values.
        - `theta`: the controls, (p,).
        """
        pairs = zip(self.values(theta).values(), self._leaves(problem), strict=True)
        problem = eqx.tree_at(self._leaves, problem, [x.astype(old.dtype) for x, old in pairs]).started()
        return problem.constrained() if self._constrains(problem) else problem

    filled = eqx.filter_jit(problem)  # by one program, for where nothing is traced

    def _constrains(self, problem: PyTree) -> bool:
        """Test for states that are controls and obey a constraint."""
        return bool(self.states.items) and isinstance(problem.system, AbstractConstrained)

    def touched(self, problem: PyTree) -> PyTree:
        """The leaves into which the controls put values, and None elsewhere.

        Tangents leave out a None as what does not move.
        """
        chosen = eqx.tree_at(self._leaves, jax.tree.map(lambda _: False, problem), [True] * len(self.items))
        if self._constrains(problem):
            # a projection moves all parts of a state
            chosen = eqx.tree_at(lambda p: jax.tree.leaves((p.y0, p.nodes)), chosen, replace_fn=lambda _: True)
        return eqx.filter(problem, chosen)

    def _leaves(self, problem: PyTree) -> list[PyTree]:
        return [c.where(problem) for c in self.items]

    def split(self, theta: Float[Array, " p"]) -> list[Array]:
        """theta cut into the parts of each control."""
        return jnp.split(theta, np.cumsum([c.size for c in self.items])[:-1]) if self.items else []

    @eqx.filter_jit
    def sizes(self, theta: Float[Array, " p"]) -> Float[Array, " p"]:
        """The change of every element of theta that changes its control by as much as the control is large.

        It is 1 where the control is zero, and at most 1 where the transform is not linear.
        """

        def size(control: BoundControl, part: Array) -> Array:
            value, change = jax.jvp(control.to_physical, (part,), (jnp.ones_like(part),))
            large, small = (jnp.sqrt(jnp.mean(x.astype(jnp.float64) ** 2)) for x in (value, change))
            known = (large > 0) & (small > 0)
            factor = jnp.where(known, large / jnp.where(known, small, 1.0), 1.0)
            straight = isinstance(control.transform, Identity | Scale)
            return jnp.full(part.shape, factor if straight else jnp.minimum(factor, 1.0))

        return jnp.concatenate([jnp.zeros(0), *map(size, self.items, self.split(theta))])

    @property
    def elements(self) -> dict[str, np.ndarray]:
        """For each path as declared a mask (p,) of its elements of theta, in all recordings together."""
        owner = np.repeat([c.name for c in self.items], [c.size for c in self.items])
        return {path: owner == path for path in dict.fromkeys(c.name for c in self.items)}

    @property
    def groups(self) -> Bool[np.ndarray, "g p"]:
        """Masks of elements of theta that have about one curvature: those of a path, or groups within a field."""
        parts = [np.zeros(c.size) if c.smoothing is None else np.ravel(c.smoothing.groups) for c in self.items]
        within = np.concatenate(parts)
        return np.stack([mask & (within == g) for mask in self.elements.values() for g in np.unique(within[mask])])

    def box(self) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper bounds of theta."""
        boxes = [c.box() for c in self.items]
        return np.concatenate([b[0] for b in boxes]), np.concatenate([b[1] for b in boxes])

    def extremes(self, problem: Problem) -> list[Problem]:
        """The problem itself, with all elements at their lower bounds, and with all at their upper bounds."""
        theta = self.theta(problem)
        corners = [jnp.where(np.isfinite(bound), bound, theta) for bound in self.box()]
        return [self.filled(problem, x) for x in (theta, *corners)]

    def prior_residuals(self, theta: Float[Array, " p"]) -> list[Array]:
        """The residuals of all priors, those of smoothness last."""
        parts = list(zip(self.items, self.split(theta), strict=True))
        residuals = [jnp.ravel(c.prior.residual(c.to_physical(part))) for c, part in parts if c.prior is not None]
        return residuals + [c.roughness * part for c, part in parts if c.roughness is not None]

    @property
    def roughness(self) -> dict[str, Array]:
        """The weights of the smoothness priors that a fit chooses, by the path of their control: modes and amplitudes."""
        return {c.path: c.roughness for c in self.items if c.roughness is not None and c.open}

    def roughness_of_theta(self) -> np.ndarray:
        """The weight of every element of theta in the smoothness priors, (p,); 0 for those that have none."""
        weights = [np.zeros(c.size) if c.roughness is None else np.asarray(c.roughness) for c in self.items]
        return np.concatenate(weights)

    def with_roughness(self, weights: Mapping[str, Array]) -> "Controls":
        """The same controls with other weights of smoothness priors, by path."""
        changed = {path: {"roughness": weight} for path, weight in weights.items()}
        return Controls(tuple(dataclasses.replace(c, **changed.get(c.path, {})) for c in self.items))

    def names(self) -> list[str]:
        """A name for every element of theta, such as `D`, `gm.Mars` or `y0.u.17`."""
        return [f"{c.path}.{label}" if label else c.path for c in self.items for label in c.labels]


def in_order(items: Sequence[BoundControl]) -> Controls:
    """Controls in the order that theta has: few numbers, fields, initial states, node states."""
    return Controls(tuple(sorted(items, key=lambda c: (c.is_node, c.is_state, c.is_field))))
