"""Formulations: how a record is cut into trajectories."""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from pdefit.arrays.trees import named_fields
from pdefit.errors import PdefitError
from pdefit.integrate.plan import TimePlan, plan_steps, stack_plans
from pdefit.systems.observations import Observations


class Layout(eqx.Module):
    """S trajectories over a record: where each starts, its time plan, and which of its I observations is which.

    `index` (S, I) into the observation times; `real` (S, I), False for padding; `nodes` (S,) indices of the start times.
    """

    plan: TimePlan
    index: np.ndarray
    real: np.ndarray
    nodes: np.ndarray

    @property
    def segments(self) -> int:
        return int(self.nodes.size)


class AbstractFormulation(eqx.Module):
    """A way to shoot."""

    @abc.abstractmethod
    def layout(self, ts: np.ndarray, dt: float) -> Layout:
        """The trajectories for observation times ts with steps of at most dt."""

    @abc.abstractmethod
    def node_states(self, y0: PyTree, observations: Observations, layout: Layout) -> PyTree | None:
        """The states at the starts of the segments, (S, ...) on every leaf, or None if the initial state is the only one."""

    def starts(self, y0: PyTree, nodes: PyTree | None) -> PyTree:
        """The start of every trajectory, with a leading axis."""
        return jax.tree.map(lambda x: x[None], y0) if nodes is None else nodes


class Single(AbstractFormulation):
    """Single shooting: one trajectory from the initial state, which is observed too."""

    def layout(self, ts, dt):
        plan = stack_plans([plan_steps(float(ts[0]), ts, dt)])
        everything = np.arange(ts.size)[None]
        return Layout(plan, everything, np.ones_like(everything, bool), np.zeros(1, int))

    def node_states(self, y0, observations, layout):
        return None


class Segments(AbstractFormulation):
    """Multiple shooting: the record is cut into windows of `length` time units, each started from the data.

    Every field of the state must be observed at the start of every window. Windows keep trajectories close to the data
    where a long one would lose its way; their noisy starts are an error in the variables, so use long windows where the data
    are noisy. Starts that are controls (`nodes`) are independent of each other: no residual ties the windows together.
    """

    length: float

    def __check_init__(self):
        if not self.length > 0:
            raise ValueError(f"Segments expects a positive length, but got {self.length}")

    def layout(self, ts, dt):
        nodes = [0]
        for i in range(1, ts.size - 1):
            if ts[i] - ts[nodes[-1]] >= self.length * (1 - 1e-9):
                nodes.append(i)
        ends = [*nodes[1:], ts.size - 1]
        parts = [np.arange(a + 1, b + 1) for a, b in zip(nodes, ends, strict=True)]
        longest = max(p.size for p in parts)
        plan = stack_plans([plan_steps(float(ts[n]), ts[p], dt) for n, p in zip(nodes, parts, strict=True)])
        index = np.stack([np.concatenate([p, np.full(longest - p.size, p[-1])]) for p in parts])
        real = np.stack([np.arange(longest) < p.size for p in parts])
        return Layout(plan, index, real, np.asarray(nodes))

    def node_states(self, y0, observations, layout):
        def observed(name: str, like: Any) -> Any:
            if name not in observations.values:
                raise PdefitError(
                    f"Segments start from the data, but the field '{name}' is not observed "
                    f"(observed: {', '.join(observations.values)}); use formulation=single or observe it"
                )
            if not bool(np.asarray(observations.mask[name])[layout.nodes].all()):
                raise PdefitError(f"Segments start from the data, but '{name}' is missing at the start of a segment")
            return jnp.asarray(observations.values[name][layout.nodes], like.dtype)

        names = named_fields(y0)
        leaves = [observed(name, like) for name, like in names.items()]
        return jax.tree.unflatten(jax.tree.structure(y0), leaves)
