"""Formulations: the division of a record into trajectories."""

import abc
from collections.abc import Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from pdefit._util.errors import PdefitError
from pdefit.data.observations import Observations
from pdefit.integrate.loop.nudge import Nudge
from pdefit.integrate.loop.time_grid import NO_BENDS, TimeGrid, constant_grid, stack_grids
from pdefit.inverse.problem.nudging import nudge_of
from pdefit.inverse.problem.problem import Problem
from pdefit.inverse.shooting.continuity import deviation
from pdefit.inverse.shooting.nodes import node_states
from pdefit.systems.coordinates import FieldCoords


class Layout(eqx.Module):
    """S trajectories over a record, each of I observations.

    **Arguments:**

    - `time_grid`: the steps of each trajectory.
    - `index`: indices into the observation times, (S, I).
    - `counts`: False for padding, (S, I).
    - `nodes`: indices of the times at which the trajectories start, (S,).
    """

    time_grid: TimeGrid
    index: np.ndarray
    counts: np.ndarray
    nodes: np.ndarray

    @property
    def segments(self) -> int:
        return int(self.nodes.size)


class AbstractFormulation(eqx.Module):
    """Division of a record into trajectories: single or multiple shooting."""

    @abc.abstractmethod
    def layout(self, ts: np.ndarray, dt: float, bends: np.ndarray = NO_BENDS) -> Layout:
        """The trajectories for given observation times.

        **Arguments:**

        - `ts`: the times, increasing, in the system's time unit.
        - `dt`: the largest step, in the same unit.
        - `bends`: further times at which steps end.
        """

    @abc.abstractmethod
    def node_states(self, problem: Problem, observations: Observations, layout: Layout) -> PyTree | None:
        """States at the starts of the segments, (S, ...); None if there is only the initial state.

        **Arguments:**

        - `problem`: the problem, with the initial state.
        - `observations`: the record.
        - `layout`: as in `layout`.
        """

    @abc.abstractmethod
    def continuity_sigma(
        self, name: str, nodes: Float[Array, "S ..."], where: FieldCoords | None
    ) -> Float[Array, "..."]:
        """Standard deviation of the gap between segments in one field, in its unit.

        It broadcasts to the field of one state.

        **Arguments:**

        - `name`: the field.
        - `nodes`: its free node states at their guess, (S, ...).
        - `where`: its coordinates, if the system states them.
        """

    def nudging(self, problem: Problem, observations: Observations) -> Nudge | None:
        """The nudge of trajectories towards the data; None without nudging.

        **Arguments:**

        - `problem`: the problem, with its instrument at its guess.
        - `observations`: the record.
        """
        return None

    @property
    def partial(self) -> bool:
        """True if a formulation leaves observations out, or draws trajectories towards them.

        Such a formulation is for preparatory stages, not for the result.
        """
        return False

    @property
    def holds_state(self) -> bool:
        """True if a free initial state is held at its guess."""
        return False

    def starts(self, y0: PyTree, nodes: PyTree | None) -> PyTree:
        """The start of every trajectory, with a leading axis.

        **Arguments:**

        - `y0`: the initial state.
        - `nodes`: the node states of `node_states`.
        """
        return jax.tree.map(lambda x: x[None], y0) if nodes is None else nodes


class Single(AbstractFormulation):
    """Single shooting: one trajectory from the initial state, which is compared with the first observation.

    For records that depend mildly on their start. Not for chaos or far guesses (`Segments`).

    **Arguments:**

    - `until`: a time of the record after which observations are left out; by default none are. Stages with a growing
      record find minima in a free initial state that the whole record hides behind local minima. This helps if
      trajectories depend strongly on their initial state.
    - `held`: whether a free initial state is kept at its guess while the scalars are fitted; default False. A state
      that is free from the start absorbs the misfit of wrong scalars in its fine structure. If fine structure
      oscillates many times within the record (dispersion), the scalars can then move only by a fraction of one period
      at a time, and the fit creeps.
    - `nudge`: the relaxation of observed fields towards the data after each frame at which they differ by more than
      noise, as a fraction from 0 to 1; default 0. A trajectory of wrong scalars or hidden fields then stays near the
      data, and a correct one is unchanged. Residuals are taken before the nudge: they are prediction errors. For
      preparatory stages from far guesses of hidden fields; the last stage is free. It needs data on the grid of the
      fields.

    Source: C. Pires, R. Vautard, O. Talagrand, Tellus A 48:96 (1996), doi:10.3402/tellusa.v48i1.11634 (quasi-static
    variational assimilation); L. Ljung, System Identification, 7.2 (1999) (prediction errors of an observer).
    """

    until: float | None = None
    held: bool = False
    nudge: float = 0.0

    def __check_init__(self):
        if not 0 <= self.nudge <= 1:
            raise ValueError(f"Single expects a nudge from 0 to 1, but got {self.nudge}")

    @property
    def partial(self):
        return self.until is not None or self.nudge > 0

    def nudging(self, problem, observations):
        return nudge_of(problem, observations, self.nudge) if self.nudge else None

    @property
    def holds_state(self):
        return self.held

    def layout(self, ts, dt, bends=NO_BENDS):
        times = ts if self.until is None else ts[: np.searchsorted(ts, self.until, side="right")]
        if times.size < 2:
            raise PdefitError(
                f"until = {self.until:g} ends before the second time of the record, {ts[1]:g}; set until to that or later"
            )
        grid = stack_grids([constant_grid(float(ts[0]), times, dt, bends)])
        everything = np.arange(times.size)[None]
        return Layout(grid, everything, np.ones_like(everything, bool), np.zeros(1, int))

    def node_states(self, problem, observations, layout):
        return None

    def continuity_sigma(self, name, nodes, where):
        return jnp.asarray(jnp.inf)


class Segments(AbstractFormulation):
    """Multiple shooting: the record is cut into windows, each started from a node state.

    For long or chaotic records that show every state. Not for noisy data unless their nodes are controls.

    Windows keep trajectories close to the data if a long trajectory would diverge. Node states of observed fields are
    taken from the data and held. Their noise is then an error in the variables, so use long windows for noisy data. If
    `nodes.<field>` is a control, node states are free, and every window but the last adds the residual

        (end of the window - next node) / sigma

    which is the equation "one trajectory" as a penalty.

    **Arguments:**

    - `length`: the length of a window, in the system's time unit.
    - `continuity`: sigma of that residual; default 1e-6. A number is in units of the root mean square of the field over
      all nodes at their guess, for each label along the field's first axis (each body) if that has labels. A mapping
      gives each field a sigma in its unit. It is the model error allowed in one window beyond the data noise. A much
      smaller sigma only makes the fit slow.
    - `every`: n runs only every n-th window, at an n-th of the cost; default 1. This suits a preparatory stage for
      large fields, for which a part of the record is enough. Such windows do not adjoin, so their node states cannot be
      free.
    """

    length: float
    continuity: float | dict[str, float] = eqx.field(
        converter=lambda c: dict(c) if isinstance(c, Mapping) else c, default=1e-6
    )
    every: int = eqx.field(static=True, default=1)

    def __check_init__(self):
        if not self.length > 0:
            raise ValueError(f"Segments expects a positive length, but got {self.length}")
        given = self.continuity.values() if isinstance(self.continuity, dict) else [self.continuity]
        if not all(c > 0 for c in given):
            raise ValueError(f"Segments expects a positive continuity, but got {self.continuity}")
        if self.every < 1:
            raise ValueError(f"Segments expects every to be at least 1, but got {self.every}")

    @property
    def partial(self):
        return self.every > 1

    def layout(self, ts, dt, bends=NO_BENDS):
        nodes = [0]
        for i in range(1, ts.size - 1):
            if ts[i] - ts[nodes[-1]] >= self.length * (1 - 1e-9):
                nodes.append(i)
        nodes, ends = nodes[:: self.every], [*nodes[1:], ts.size - 1][:: self.every]
        parts = [np.arange(a, b + 1) for a, b in zip(nodes, ends, strict=True)]
        longest = max(p.size for p in parts)
        each = zip(nodes, parts, strict=True)
        grid = stack_grids([constant_grid(float(ts[n]), ts[p], dt, bends) for n, p in each])
        index = np.stack([np.concatenate([p, np.full(longest - p.size, p[-1])]) for p in parts])
        counts = np.stack([np.arange(longest) < p.size for p in parts])
        # what was seen at a node belongs to the end of the window before
        counts[1:, 0] = False
        return Layout(grid, index, counts, np.asarray(nodes))

    def node_states(self, problem, observations, layout):
        return node_states(problem, observations, layout.nodes)

    def continuity_sigma(self, name, nodes, where):
        if self.every > 1:
            raise PdefitError(
                f"Windows of which only one in {self.every} is run have no jumps between them, so the node states of "
                f"'{name}' cannot be free; leave out `every`"
            )
        return deviation(self.continuity, name, nodes, where)
