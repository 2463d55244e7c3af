"""Many recordings that share controls, as one objective."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from pdefit._util.errors import PdefitError
from pdefit._util.program import Program
from pdefit._util.trees import taken
from pdefit.integrate.loop.batch import AbstractBatch, Vmap
from pdefit.inverse.controls.priors import AbstractRegularizer
from pdefit.inverse.controls.theta import Controls
from pdefit.inverse.objective._shared_controls import check_shared, joined, without_shared
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.objective.recording_equations import ArrowEquations, RecordingEquations
from pdefit.inverse.objective.segment_jacobian import SegmentNormalEquations, added
from pdefit.inverse.objective.stack import Stack
from pdefit.inverse.problem.problem import Problem


def _alike(name: str) -> Any:
    """Property of `Recordings` that all recordings have in common."""
    return property(lambda self: getattr(self.stack.common, name))


class Recordings(AbstractObjective):
    """The joint objective of E recordings of one system, J(theta) = sum_e J_e(shared, own_e).

    Recordings are embryos, flights or runs of an instrument. Each has its own controls of scope `experiment` and its
    own node states. The remaining controls are shared, and their priors and regularizers count once. theta holds
    scalars, then fields, initial states and node states; within each kind the shared ones come first.

    Every array of `problem`, of `observations` and of the result of `at` has the recordings as leading axis. Gradients
    and products are summed over recordings. So `Loop` needs the memory of one recording and runs nothing twice.

    **Arguments:**

    - `functionals`: one for each recording, of equal structure: the same system, grid and controls. Initial states,
      data, masks, sigma, observation times and parameters may differ, and so may the number of frames. Shorter records
      are padded with weight zero, which costs the time of the longest.
    - `batch`: the batch of recordings, each with all its segments; default all at once (`Vmap()`).
    - `gauge`: by path the rule for own controls of which the data determine only differences. An integer holds the
      control of that recording at its guess. `"sum"` holds the sum over recordings at zero in search space, by a
      residual with a standard deviation of a thousandth of the control's `scale`. By default there is no gauge.
    """

    # without priors and regularizers of shared controls
    stack: Stack
    controls: Controls
    # (E, q): where the q elements of a recording's theta lie in theta; beyond it those that are held
    columns: np.ndarray
    fixed: Float[Array, " h"]
    regularizers: tuple[AbstractRegularizer, ...]
    batch: AbstractBatch
    # (g, p): products with theta are residuals
    sums: np.ndarray
    gauge: tuple[tuple[str, int | str], ...] = eqx.field(static=True)

    def __init__(
        self,
        functionals: Sequence[Functional],
        *,
        batch: AbstractBatch | None = None,
        gauge: Mapping[str, int | str] | None = None,
    ):
        if not functionals:
            raise PdefitError("Recordings expects one functional or more, but got none")
        first = functionals[0]
        shared = [c for c in first.controls.items if not c.own]
        for e, functional in enumerate(functionals):
            check_shared(e, functional, first)
            if functional.controls.roughness:
                raise PdefitError(
                    "Recordings expects fields cell by cell with stated amplitudes; remove modes and give smoothing a "
                    "number for its amplitude auto, or fit recordings one by one"
                )
        # where the step was left open in one recording, it is open in all
        asked = [f.asked_dt for f in functionals if f.asked_dt is not None]
        least = min(asked) if len(asked) == len(functionals) else None
        functionals = [
            eqx.tree_at(
                lambda f: (f.asked_solver, f.asked_dt), f, (first.asked_solver, least), is_leaf=lambda x: x is None
            )
            for f in functionals
        ]
        paths = [c.path for c in shared]
        self.regularizers = tuple(r for r in first.regularizers if r.control in paths)
        self.stack = Stack.of(
            [without_shared(f) for f in functionals],
            _varied,
            lambda f: [c.where(f.problem) for c in first.controls.items],
        )
        self.controls, self.columns, self.fixed, self.sums = joined(functionals, gauge or {})
        self.batch, self.gauge = batch or Vmap(), tuple((gauge or {}).items())

    # --- what every recording has ------------------------------------------------------------------------------------

    @property
    def problem(self) -> Problem:
        return self.stack.part(lambda f: f.problem, len(self.columns))

    @property
    def observations(self):
        return self.stack.own.observations

    @property
    def time_grid(self):
        return self.stack.own.time_grid

    def with_time_grid(self, grid):
        return eqx.tree_at(lambda r: r.stack, self, self.stack.with_time_grid(grid))

    def by_count(self):
        return eqx.tree_at(lambda r: r.stack, self, self.stack.by_count(self.time_grid))

    def renewed(self, theta):
        if self.steps is None:
            return self
        grids = [part.renewed(own).time_grid for part, own in self.parts(theta)]
        return eqx.tree_at(lambda r: r.stack, self, self.stack.with_grids(grids, self.time_grid.length))

    def step_error(self, theta):
        return jnp.max(self.each_stacked(Functional.step_error, theta))

    def guessing(self, theta):
        # theta replaces no array that recordings share
        own = jax.tree.map(
            lambda x, new: None if x is None else new,
            self.stack.own.problem,
            self.at(theta),
            is_leaf=lambda x: x is None,
        )
        return eqx.tree_at(lambda r: r.stack.own.problem, self, own)

    formulation = _alike("formulation")
    runner = _alike("runner")
    steps = _alike("steps")
    dt = _alike("dt")
    asked_solver = _alike("asked_solver")
    asked_dt = _alike("asked_dt")
    smooth_tangents = _alike("smooth_tangents")

    @property
    def state_size(self):
        return self.stack.state_size

    @property
    def tangents(self):
        return self.stack.common.tangents

    def at(self, theta):
        return _AT(self.stack, self.each_theta(theta))

    def part(self, e: int) -> Functional:
        """The functional of one recording as given, at the present guesses and weights."""
        one = self.stack.at(e)
        known = {c.path: (c.prior, c.parametrization.roughness) for c in self._shared.items}
        items = [c if c.own else c.with_priors(*known[c.path]) for c in one.controls.items]
        return eqx.tree_at(
            lambda f: (f.controls, f.regularizers),
            one,
            (Controls(tuple(items)), (*self.regularizers, *one.regularizers)),
        )

    def parts(self, theta):
        each = self.each_theta(theta)
        return [(self.part(e), taken(each, e)) for e in range(len(self.columns))]

    def each_theta(self, theta: Float[Array, " p"]) -> Float[Array, "E q"]:
        """The own theta of each recording, including elements held by the gauge."""
        return _EACH(theta, self.fixed, self.columns)

    # --- sums over recordings ----------------------------------------------------------------------------------------

    def each_stacked(self, function: Callable, *vectors: Float[Array, " p"]) -> PyTree:
        """Results of a function of every recording's functional and its part of some vectors, stacked.

        **Arguments:**

        - `function`: called as `function(functional, *parts)`.
        - `vectors`: theta, followed by directions, (p,) each.
        """
        # nothing moves what is held
        moved = [v.at[self.columns].get(mode="fill", fill_value=0.0) for v in vectors[1:]]
        return self.stack.each(function, self.each_theta(vectors[0]), *moved, batch=self.batch)

    def _added(self, own: Float[Array, "E q"]) -> Float[Array, " p"]:
        """Sum of one vector for each recording, at the positions of its elements in theta; held elements are left out."""
        return added(own, self.columns, self.controls.size)

    @property
    def _shared(self) -> Controls:
        return Controls(tuple(c for c in self.controls.items if not c.own))

    def extra_residuals(self, theta: Float[Array, " p"]) -> Float[Array, " e"]:
        """Residuals of regularizers and priors of shared controls, and of the gauge."""
        return jnp.concatenate([self._shared_residuals(theta[self.columns[0, self._of_all]]), self.sums @ theta])

    def _shared_residuals(self, shared: Float[Array, " s"]) -> Float[Array, " e"]:
        """Residuals of regularizers and priors as a function of the shared controls."""
        values = self._shared.values(shared)
        regularized = [r.residual(values[r.control]) for r in self.regularizers]
        return jnp.concatenate([jnp.zeros(0), *regularized, *self._shared.prior_residuals(shared)])

    @property
    def _of_all(self) -> np.ndarray:
        """Indices of the shared elements in a recording's theta, (s,)."""
        return np.flatnonzero(self.stack.common.controls.mask(lambda c: not c.own))

    @property
    def _of_each(self) -> np.ndarray:
        """Indices of a recording's own elements in its theta, (q,)."""
        return np.setdiff1d(np.arange(self.columns.shape[1]), self._of_all)

    def _shared_value(self, theta: Float[Array, " p"]) -> Float[Array, ""]:
        return jnp.sum(self.extra_residuals(theta) ** 2) / 2

    def extra_value(self, theta):
        return jnp.sum(self.each_stacked(Functional.extra_value, theta)) + self._shared_value(theta)

    def value(self, theta):
        return jnp.sum(self.each_stacked(Functional.value, theta)) + self._shared_value(theta)

    def watched_gradient(self, theta):
        values, gradients, growths = self.each_stacked(Functional.watched_gradient, theta)
        value, gradient = jax.value_and_grad(self._shared_value)(theta)
        return jnp.sum(values) + value, self._added(gradients) + gradient, jnp.max(growths)

    def gauss_newton_product(self, theta, v):
        moved, pull = jax.jvp(self.extra_residuals, (theta,), (v,))[1], jax.vjp(self.extra_residuals, theta)[1]
        return self._added(self.each_stacked(Functional.gauss_newton_product, theta, v)) + pull(moved)[0]

    def residuals(self, theta):
        return jnp.concatenate([jnp.ravel(self.each_stacked(Functional.residuals, theta)), self.extra_residuals(theta)])

    def residual_parts(self, theta):
        parts = self.each_stacked(Functional.residual_parts, theta)
        return parts._replace(extra=[*parts.extra, self.extra_residuals(theta)])

    def grouped_equations(self, theta):
        return self._with_shared(self.each_stacked(Functional.grouped_equations, theta), theta)

    def held_equations(self, theta):
        return self._with_shared(self.each_stacked(Functional.held_equations, theta), theta)

    def _with_shared(self, each: SegmentNormalEquations, theta: Float[Array, " p"]) -> RecordingEquations:
        """Normal equations of all recordings, with regularizers and priors of shared controls, and the gauge."""
        shared, (e, c) = theta[self.columns[0, self._of_all]], self.columns.shape
        # each recording takes an equal part of what belongs to the shared controls alone
        r, moved = self._shared_residuals(shared), jax.jacfwd(self._shared_residuals)(shared)
        jac = jnp.zeros((r.size, c)).at[:, self._of_all].set(moved)
        each = each._replace(
            extra=jnp.concatenate([each.extra, jnp.tile(r / np.sqrt(e), (e, 1))], axis=1),
            extra_jac=jnp.concatenate([each.extra_jac, jnp.tile(jac / np.sqrt(e), (e, 1, 1))], axis=1),
        )
        coupled = jnp.asarray(self.sums) @ theta
        return RecordingEquations(each, self.columns, self._of_all, self._of_each, self.sums, coupled)

    @property
    def no_equations(self):
        e, c = self.columns.shape
        zeros = np.zeros(e), np.zeros((e, c)), np.zeros((e, c, c))
        places = self.columns[0, self._of_all], self.columns[:, self._of_each]
        return ArrowEquations(*jax.device_put((*zeros, *places, self.sums)))

    # --- what its residuals are ----------------------------------------------------------------------------------------

    @property
    def count(self):
        return _COUNT(self.stack, self.columns)

    @property
    def continuity_values(self):
        state = sum(c.size // c.shape[0] for c in self.stack.common.controls.nodes)
        return (self.groups - len(self.columns)) * state

    @property
    def groups(self):
        return sum(size.segments for size in self.stack.extents or ())

    # --- variants --------------------------------------------------------------------------------------------------------

    def each(self, change, theta):
        pairs = [change(part, own) for part, own in self.parts(theta)]
        new = Recordings([part for part, _ in pairs], batch=self.batch, gauge=dict(self.gauge))
        moved = np.zeros(new.controls.size + new.fixed.size)
        for columns, (_, own) in zip(new.columns, pairs, strict=True):
            # those that are held lie behind, and are dropped; a part may have lost all of its controls
            moved[columns] = np.asarray(own)[: len(columns)]
        return new, jax.device_put(moved[: new.controls.size])

    def problems_and_steps(self, theta):
        arrays, rest = eqx.partition(self.at(theta), eqx.is_array)
        each = [eqx.combine(jax.tree.map(lambda x, e=e: taken(x, e), arrays), rest) for e in range(len(self.columns))]
        return [(problem, float(np.max(step))) for problem, step in zip(each, self.time_grid.step, strict=True)]

    def emptied(self):
        items = self.stack.common.controls.items
        return eqx.tree_at(lambda r: [c.where(r.stack.own.problem) for c in items], self, replace_fn=jnp.zeros_like)


def _varied(f: Any) -> list[Any]:
    """Arrays of each recording other than its controls: observations, steps and states."""
    return jax.tree.leaves((f.observations, f.time_grid, f.problem.y0, f.problem.nodes))


_EACH = Program(lambda theta, fixed, columns: jnp.concatenate([theta, fixed])[columns])
# padding is not observed
_COUNT = Program(lambda stack, columns: jnp.sum(stack.each(lambda one, _: one.count, columns)))
_AT = Program(lambda stack, each: eqx.filter_vmap(lambda own, x: eqx.combine(own, stack.common).at(x))(stack.own, each))
