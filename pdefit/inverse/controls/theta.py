"""All controls of a problem, and the vector theta that stands for their values."""

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
    """A number at one of its bounds.

    **Arguments:**

    - `name`, `control`: of the number.
    - `element`: its place in theta.
    - `value`: its physical value.
    - `lowest`: whether the bound is its lower one.
    """

    name: str
    control: BoundControl
    element: int
    value: float
    lowest: bool


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
        """The controls that all segments share: the first elements of theta."""
        return Controls(tuple(c for c in self.items if not c.is_node))

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

        These are the numbers before the first field, as long as they are few.
        """
        leading = itertools.takewhile(lambda place: place[0].is_number and place[1].stop <= FEW, self.spans)
        return Controls(tuple(c for c, _ in leading))

    @property
    def size(self) -> int:
        return sum(c.size for c in self.items)

    @property
    def spans(self) -> tuple[tuple[BoundControl, slice], ...]:
        """Every control with its place in theta."""
        ends = itertools.accumulate(c.size for c in self.items)
        return tuple((c, slice(end - c.size, end)) for c, end in zip(self.items, ends, strict=True))

    def mask(self, test: Callable[[BoundControl], bool]) -> Bool[np.ndarray, " p"]:
        """The elements of theta whose control passes a test."""
        return np.repeat(np.array([test(c) for c in self.items], bool), np.array([c.size for c in self.items], int))

    @property
    def numbers(self) -> Bool[np.ndarray, " p"]:
        """The elements of theta that are numbers of their own, with a row each in tables."""
        return self.mask(lambda c: c.is_number)

    @Program
    def theta(self, problem: Problem) -> Float[Array, " p"]:
        """The vector that stands for the values the problem holds."""
        each = [c.to_theta(c.where(problem)).astype(jnp.float64) for c in self.items]
        return jnp.concatenate(each) if each else jnp.zeros(0)

    @Program
    def values(self, theta: Float[Array, " p"]) -> dict[str, Array]:
        """The physical value of every control by path."""
        return {c.path: c.to_physical(part) for c, part in zip(self.items, self.split(theta), strict=True)}

    @Program
    def problem(self, problem: Problem, theta: Float[Array, " p"]) -> Problem:
        """The problem with the values of the controls that theta stands for.

        **Arguments:**

        - `problem`: all other values.
        - `theta`: the controls, (p,).
        """
        pairs = zip(self.values(theta).values(), self._leaves(problem), strict=True)
        problem = eqx.tree_at(self._leaves, problem, [x.astype(old.dtype) for x, old in pairs]).started()
        return problem.constrained() if self._constrains(problem) else problem

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

    def split(self, theta: Float[Array | np.ndarray, "... p"]) -> list[Any]:
        """theta, or the last axis of an array, split into the parts of each control."""
        split = np.split if isinstance(theta, np.ndarray) else jnp.split
        return split(theta, [span.stop for _, span in self.spans[:-1]], axis=-1) if self.items else []

    @Program
    def sizes(
        self, theta: Float[Array, " p"], along: Float[Array | np.ndarray, " p"] | float = 1.0
    ) -> Float[Array, " p"]:
        """The change of every element of theta that changes its control by as much as the control is large.

        It is 1 if the control is zero, and at most 1 if the transform is not linear.

        **Arguments:**

        - `theta`: the point, (p,).
        - `along`: the change is so many times this direction, (p,), within each control; default all elements alike.
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
        """For each path as declared a mask (p,) of its elements of theta, in all recordings together."""
        paths = dict.fromkeys(c.name for c in self.items)
        return {path: self.mask(lambda c, path=path: c.name == path) for path in paths}

    @property
    def bounds(self) -> Bounds:
        """The bounds of theta."""
        lower, upper = zip(*(c.bounds for c in self.items), strict=True)
        return Bounds(np.concatenate(lower), np.concatenate(upper))

    def numbers_at_bound(self, theta: Float[Array, " p"]) -> tuple[AtBound, ...]:
        """The numbers that are at a bound."""
        lower, upper = self.bounds
        bounded, found = self.numbers & self.bounds.at(theta), list[AtBound]()
        for (c, span), part in zip(self.spans, self.split(np.asarray(theta)), strict=True):
            for k in np.flatnonzero(bounded[span]).tolist():
                i, value = span.start + k, float(np.ravel(c.to_physical(jax.device_put(part)))[k])
                found.append(AtBound(c.names()[k], c, i, value, bool(theta[i] - lower[i] < upper[i] - theta[i])))
        return tuple(found)

    def extremes(self, problem: Problem) -> list[Problem]:
        """The problem itself, with all elements at their lower bounds, and with all at their upper bounds."""
        theta = np.asarray(self.theta(problem))
        corners = [np.where(np.isfinite(bound), bound, theta) for bound in self.bounds]
        return [self.problem(problem, jax.device_put(x)) for x in (theta, *corners)]

    def prior_residuals(self, theta: Float[Array, " p"]) -> list[Array]:
        """The residuals of all priors, smoothness priors last."""
        parts = list(zip(self.items, self.split(theta), strict=True))
        residuals = [jnp.ravel(c.prior.residual(c.to_physical(part))) for c, part in parts if c.prior is not None]
        smoothness = [(c.parametrization.roughness, part) for c, part in parts]
        return residuals + [roughness * part for roughness, part in smoothness if roughness is not None]

    @property
    def roughness(self) -> dict[str, Array]:
        """The weights of the smoothness priors that a fit chooses, by the path of their control: modes and amplitudes."""
        fields = [(c.path, c.parametrization) for c in self.items]
        return {path: field.roughness for path, field in fields if field.open and field.roughness is not None}

    def roughness_of_theta(self) -> np.ndarray:
        """The weight of every element of theta in the smoothness priors, (p,); 0 for elements without one."""
        return np.concatenate([c.parametrization.weights for c in self.items])

    def units(self) -> tuple[str, ...]:
        """The unit of the physical value of every element of theta."""
        return tuple(c.unit for c in self.items for _ in range(c.size))

    def names(self) -> list[str]:
        """A name for every element of theta, such as `D`, `gm.Mars` or `y0.u.17`."""
        return [name for c in self.items for name in c.names()]


def in_order(items: Sequence[BoundControl]) -> Controls:
    """Controls in the order that theta has: few numbers, fields, initial states, node states."""
    return Controls(tuple(sorted(items, key=lambda c: (c.is_node, c.is_state, c.is_field))))
