"""Controls of a problem, and the vector theta of their values in search space."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PyTree

from pdefit._util.program import Program
from pdefit.inverse.controls.bound_control import FEW, BoundControl
from pdefit.inverse.controls.bounds import Bounds
from pdefit.inverse.controls.transforms import Identity, Scale
from pdefit.inverse.problem.problem import Problem
from pdefit.systems.capabilities import AbstractConstrained


class AtBound(NamedTuple):
    """A scalar at one of its bounds.

    **Arguments:**

    - `name`, `control`: the name of the scalar, and its control.
    - `element`: its index in theta.
    - `value`: its physical value.
    - `lowest`: whether it is at the lower bound.
    """

    name: str
    control: BoundControl
    element: int
    value: float
    lowest: bool


class Controls(eqx.Module):
    """All controls of a problem, and the vector theta of their values.

    theta is a float64 vector of p elements: the search variables of scalars, then of fields, then of states.

    **Arguments:**

    - `items`: the controls, in the order of theta.
    """

    items: tuple[BoundControl, ...]

    @property
    def nodes(self) -> tuple[BoundControl, ...]:
        """Controls of node states, whose first axis is the segments."""
        return tuple(c for c in self.items if c.is_node)

    @property
    def shared(self) -> "Controls":
        """Controls shared by all segments: the first elements of theta."""
        return Controls(tuple(c for c in self.items if not c.is_node))

    @property
    def states(self) -> "Controls":
        """Controls from which trajectories start: the last elements of theta."""
        return Controls(tuple(c for c in self.items if c.is_state))

    @property
    def without_states(self) -> "Controls":
        """Controls from which no trajectory starts."""
        return Controls(tuple(c for c in self.items if not c.is_state))

    @property
    def tabulated(self) -> "Controls":
        """Controls listed element by element in histories and tables: the first elements of theta.

        These are the scalars before the first field, up to `FEW` elements.
        """
        leading = itertools.takewhile(lambda place: place[0].is_number and place[1].stop <= FEW, self.spans)
        return Controls(tuple(c for c, _ in leading))

    @property
    def size(self) -> int:
        return sum(c.size for c in self.items)

    @property
    def spans(self) -> tuple[tuple[BoundControl, slice], ...]:
        """Every control with its slice of theta."""
        ends = itertools.accumulate(c.size for c in self.items)
        return tuple((c, slice(end - c.size, end)) for c, end in zip(self.items, ends, strict=True))

    def mask(self, test: Callable[[BoundControl], bool]) -> Bool[np.ndarray, " p"]:
        """Mask of the elements of theta whose control passes a test."""
        return np.repeat(np.array([test(c) for c in self.items], bool), np.array([c.size for c in self.items], int))

    @property
    def numbers(self) -> Bool[np.ndarray, " p"]:
        """Mask of the elements of theta that are scalars, with a row each in tables."""
        return self.mask(lambda c: c.is_number)

    @Program
    def theta(self, problem: Problem) -> Float[Array, " p"]:
        """theta at the values of a problem."""
        each = [c.to_theta(c.where(problem)).astype(jnp.float64) for c in self.items]
        return jnp.concatenate(each) if each else jnp.zeros(0)

    def values(self, theta: Float[Array, " p"]) -> dict[str, Array]:
        """Physical value of every control by path, in the order of theta."""
        # a program would sort the paths
        return dict(zip([c.path for c in self.items], self._physical(theta), strict=True))

    @Program
    def _physical(self, theta: Float[Array, " p"]) -> list[Array]:
        return [c.to_physical(part) for c, part in zip(self.items, self.split(theta), strict=True)]

    @Program
    def problem(self, problem: Problem, theta: Float[Array, " p"]) -> Problem:
        """The problem with the values of theta.

        **Arguments:**

        - `problem`: the values that theta does not replace.
        - `theta`: the point, (p,).
        """
        pairs = zip(self._physical(theta), self._leaves(problem), strict=True)
        problem = eqx.tree_at(self._leaves, problem, [x.astype(old.dtype) for x, old in pairs]).started()
        return problem.constrained() if self._constrains(problem) else problem

    def _constrains(self, problem: PyTree) -> bool:
        """True if states are controls and obey a constraint."""
        return bool(self.states.items) and isinstance(problem.system, AbstractConstrained)

    def touched(self, problem: PyTree) -> PyTree:
        """The leaves that the controls change, and None elsewhere.

        Tangents skip a None: it marks a constant leaf.
        """
        chosen = eqx.tree_at(self._leaves, jax.tree.map(lambda _: False, problem), [True] * len(self.items))
        if self._constrains(problem):
            # a projection moves all parts of a state
            chosen = eqx.tree_at(lambda p: jax.tree.leaves((p.y0, p.nodes)), chosen, replace_fn=lambda _: True)
        return eqx.filter(problem, chosen)

    def _leaves(self, problem: PyTree) -> list[PyTree]:
        return [c.where(problem) for c in self.items]

    def split(self, theta: Float[Array | np.ndarray, "... p"]) -> list[Any]:
        """theta, or the last axis of an array, split into one part for each control."""
        split = np.split if isinstance(theta, np.ndarray) else jnp.split
        return split(theta, [span.stop for _, span in self.spans[:-1]], axis=-1) if self.items else []

    @Program
    def sizes(
        self, theta: Float[Array, " p"], along: Float[Array | np.ndarray, " p"] | float = 1.0
    ) -> Float[Array, " p"]:
        """Step in theta that changes each control by its own root mean square, for every element of theta.

        It is 1 if the control is zero, and at most 1 if the transform is not linear.

        **Arguments:**

        - `theta`: the point, (p,).
        - `along`: the direction of the step within each control, (p,), in multiples of which the step is given; default
          equal changes of all elements.
        """

        def size(control: BoundControl, part: Array, along: Array) -> Array:
            value, change = jax.jvp(control.to_physical, (part,), (along,))
            large, small = (jnp.sqrt(jnp.mean(x.astype(jnp.float64) ** 2)) for x in (value, change))
            known = (large > 0) & (small > 0)
            factor = jnp.where(known, large / jnp.where(known, small, 1.0), 1.0)
            straight = isinstance(control.transform, Identity | Scale)
            return jnp.full(part.shape, factor if straight else jnp.minimum(factor, 1.0))

        parts = self.split(theta), self.split(jnp.broadcast_to(jnp.asarray(along, theta.dtype), theta.shape))
        return jnp.concatenate([jnp.zeros(0), *map(size, self.items, *parts)])

    @property
    def elements(self) -> dict[str, np.ndarray]:
        """Mask of the elements of theta, (p,), for each declared path, over all recordings."""
        paths = dict.fromkeys(c.name for c in self.items)
        return {path: self.mask(lambda c, path=path: c.name == path) for path in paths}

    @property
    def bounds(self) -> Bounds:
        """Bounds of theta."""
        lower, upper = zip(*(c.bounds for c in self.items), strict=True)
        return Bounds(np.concatenate(lower), np.concatenate(upper))

    def numbers_at_bound(self, theta: Float[Array, " p"]) -> tuple[AtBound, ...]:
        """Scalars at a bound."""
        lower, upper = self.bounds
        bounded, found = self.numbers & self.bounds.at(theta), list[AtBound]()
        for (c, span), part in zip(self.spans, self.split(np.asarray(theta)), strict=True):
            for k in np.flatnonzero(bounded[span]).tolist():
                i, value = span.start + k, float(np.ravel(c.to_physical(jax.device_put(part)))[k])
                found.append(AtBound(c.names()[k], c, i, value, bool(theta[i] - lower[i] < upper[i] - theta[i])))
        return tuple(found)

    def extremes(self, problem: Problem) -> list[Problem]:
        """The problem itself, at all lower bounds, and at all upper bounds; unbounded elements are unchanged."""
        theta = np.asarray(self.theta(problem))
        corners = [np.where(np.isfinite(bound), bound, theta) for bound in self.bounds]
        return [self.problem(problem, jax.device_put(x)) for x in (theta, *corners)]

    def prior_residuals(self, theta: Float[Array, " p"]) -> list[Array]:
        """Residuals of all priors, smoothness priors last."""
        parts = list(zip(self.items, self.split(theta), strict=True))
        residuals = [jnp.ravel(c.prior.residual(c.to_physical(part))) for c, part in parts if c.prior is not None]
        smoothness = [(c.parametrization.roughness, part) for c, part in parts]
        return residuals + [roughness * part for roughness, part in smoothness if roughness is not None]

    @property
    def roughness(self) -> dict[str, Array]:
        """Weights of the smoothness priors that a fit estimates, by path: for modes, and for `auto` amplitudes."""
        fields = [(c.path, c.parametrization) for c in self.items]
        return {path: field.roughness for path, field in fields if field.open and field.roughness is not None}

    def roughness_of_theta(self) -> np.ndarray:
        """Weight of every element of theta in the smoothness priors, (p,); 0 without a prior."""
        return np.concatenate([c.parametrization.weights for c in self.items])

    def units(self) -> tuple[str, ...]:
        """Unit of the physical value of every element of theta."""
        return tuple(c.unit for c in self.items for _ in range(c.size))

    def names(self) -> list[str]:
        """Name of every element of theta, such as `D`, `gm.Mars` or `y0.u.17`."""
        return [name for c in self.items for name in c.names()]


def in_order(items: Sequence[BoundControl]) -> Controls:
    """Controls in the order of theta: scalars, fields, initial states, node states."""
    return Controls(tuple(sorted(items, key=lambda c: (c.is_node, c.is_state, c.is_field))))
