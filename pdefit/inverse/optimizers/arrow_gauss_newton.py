"""Gauss-Newton for scalars and an initial state, cell by cell: a block-arrow matrix with a damping for each cell."""

import dataclasses
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from pdefit._util.errors import PdefitError
from pdefit._util.expected import NonNegative, Positive
from pdefit.inverse.linear.schur import complement, separate
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.optimizers.base import AbstractOptimizer, Box, Evaluation, select
from pdefit.inverse.optimizers.cell_equations import cell_equations, has_points, restraint
from pdefit.inverse.optimizers.convergence import Convergence
from pdefit.inverse.optimizers.damping import Damping
from pdefit.systems.fluxes import Uncoupled
from pdefit.systems.grid import CartesianGrid

# evaluations of one round: a step of all unknowns, then steps of the cells alone
_ROUND = 3
# the damping of cells, of numbers, and of elements that the data do not tell
_CELLS, _NUMBERS, _UNTOLD = Damping(1 / 3, 8.0, 1e-6, 1e12), Damping(1 / 3, 8.0, most=1e12), 1e-9


class Cells(NamedTuple):
    """Normal equations of scalars and of every cell at a point.

    **Arguments:**

    - `theta`: the point, (p,).
    - `gram`: products of residuals and their derivatives in k scalars and f fields, (K, K, n) with K = k + f + 1.
    - `corner`: the same for residuals of scalars alone, (k + 1, k + 1).
    - `restraint`: the curvature that holds elements which the data do not determine, (n, f).
    """

    theta: Float[Array, " p"]
    gram: Float[Array, "K K n"]
    corner: Float[Array, "l l"]
    restraint: Float[Array, "n f"]

    @property
    def each(self) -> Float[Array, " n"]:
        """Twice the contribution of every cell to J."""
        return self.gram[-1, -1]

    @property
    def value(self) -> Float[Array, ""]:
        return (jnp.sum(self.each) + self.corner[-1, -1]) / 2

    @property
    def gradient(self) -> Float[Array, " p"]:
        k = len(self.corner) - 1
        numbers = jnp.sum(self.gram[:k, -1], axis=-1) + self.corner[:k, -1]
        return jnp.concatenate([numbers, jnp.ravel(self.gram[k:-1, -1])])


class _State(NamedTuple):
    # the best round, and where this one is
    best: Cells
    here: Cells
    trial: Array
    # evaluations of this round
    turn: Array
    cells: Array
    numbers: Array
    convergence: Convergence
    box: Box


class ArrowGaussNewton(AbstractOptimizer):
    """A damped Gauss-Newton method for a few scalars and an initial state with a separate damping for each cell.

    For stages that nudge the trajectory to the data (`pdefit.formulations.Single(nudge=...)`), in which a cell depends
    on its own fields and on the scalars. It improves a far guess in seconds. Not for the last stage (`GaussNewtonCG`):
    it treats each cell alone, so that a free trajectory is not minimised. Data must be on the grid of the fields, and
    unknown fields without smoothness.

        | C    B_x^T | |dp  |     |g_p|
        | B_x  F_x   | |dz_x| = - |g_x|     for every cell x

    Each evaluation takes one tangent for each scalar and field. Tangents of scalars and of fields neglect the exchange
    between neighbours. A round is a step of all unknowns, then two steps of the cells alone. Each cell accepts a step
    by its own misfit. So the few cells of a front do not delay the rest.

    **Arguments:**

    - `damping`: the first damping of cells, relative to the diagonal; default 1. It moves an element that the data do
      not determine by about a hundredth of its field's size for each sigma of residual.
    - `max_step`: the largest move of a scalar in search space; default 0.2, a factor 1.2 with `Log`. With more the
      cells absorb errors of the scalars, and do not recover.
    - `tolerance`: converged when a round lowers J by less than this fraction; default 1e-3.
    - `shape`: the numbers of scalars and fields, set by the stage.

    Source: D. Marquardt, J. SIAM 11:431 (1963), doi:10.1137/0111030 (the damping); G. Golub, V. Pereyra, Inverse Problems
    19:R1 (2003), doi:10.1088/0266-5611/19/2/201 (numbers that separate from the rest).
    """

    tangents: ClassVar[bool] = False

    damping: Positive = 1.0
    max_step: Positive = 0.2
    tolerance: NonNegative = 1e-3
    shape: tuple[int, int] = eqx.field(static=True, default=(0, 0))

    def on(self, objective: Any) -> "ArrowGaussNewton":
        seen = {x.size for x in objective.observed.values()} if has_points(objective) else set()
        if len(seen) != 1:
            raise PdefitError(
                "arrow_gauss_newton expects unknown fields of one initial state on one grid, without smoothing, of which some "
                "are observed there; take gauss_newton_cg"
            )
        controls = objective.controls
        paths = {c.path for c in controls.states.items}
        if any(r.control in paths for r in objective.regularizers):
            raise PdefitError(
                "arrow_gauss_newton, the first of stages=observer, treats each cell alone, which regularizers of fields do "
                "not; take stages=auto, or gauss_newton_cg in its place"
            )
        return dataclasses.replace(self, shape=(controls.without_states.size, len(controls.states.items)))

    def init(self, theta, box):
        k, f = self.shape
        n = (theta.size - k) // f
        empty = Cells(theta, jnp.zeros((k + f + 1, k + f + 1, n)), jnp.zeros((k + 1, k + 1)), jnp.zeros((n, f)))
        return _State(
            best=empty,
            here=empty,
            trial=theta,
            turn=jnp.zeros((), int),
            cells=jnp.full(n, self.damping),
            numbers=jnp.asarray(1e-3),
            convergence=Convergence.begin(theta),
            box=box._replace(nothing=None),
        )

    def ask(self, state):
        return state.trial

    def evaluate(self, functional, state):
        assert isinstance(functional, Functional)
        theta = self.ask(state)
        found = Cells(theta, *cell_equations(uncoupled(functional), theta), restraint(functional, theta))
        return Evaluation(found.value, found.gradient, found=found)

    def tell(self, state, evaluation):
        found, k = evaluation.found, self.shape[0]
        first, whole = ~state.convergence.started, state.turn == 0
        usable = jnp.isfinite(found.value)
        # a step of the cells alone is taken where the misfit of a cell falls
        fell = found.each < state.here.each
        taken = jnp.where(whole | first, usable, jnp.isfinite(found.each) & fell)
        gram = jnp.where(taken, jnp.where(jnp.isfinite(found.gram), found.gram, 0.0), state.here.gram)
        each = jnp.concatenate([jnp.full(k, (whole | first) & usable), jnp.tile(taken, self.shape[1])])
        theta = jnp.where(each, found.theta, state.here.theta)
        corner = jnp.where(usable & (whole | first), found.corner, state.here.corner)
        here = Cells(theta, gram, corner, found.restraint)
        alone = ~(whole | first)
        cells = _CELLS.after(state.cells, alone & taken, alone & ~taken)
        # the round is judged at its end, or where it cannot go on
        over = ~first & ((state.turn == _ROUND - 1) | (whole & ~usable))
        better = usable & (here.value < state.best.value)
        fallen = state.best.value - here.value
        best = select(first | (over & better), here, state.best)
        here = select(over & ~better, best, here)
        converged = over & better & (fallen <= self.tolerance * best.value)
        numbers = _NUMBERS.after(state.numbers, over & better, over & ~better)
        turn = jnp.where(first | over, 0, state.turn + 1)
        step = self._step(here, cells, numbers, turn == 0, state.box)
        new = _State(
            best=best,
            here=here,
            trial=state.box.clip(here.theta + step),
            turn=turn,
            cells=cells,
            numbers=numbers,
            convergence=state.convergence.after(evaluation.value, usable, converged, _NUMBERS.helpless(numbers)),
            box=state.box,
        )
        return new, first | (over & better)

    def _step(
        self, at: Cells, cells: Float[Array, " n"], numbers: Float[Array, ""], whole: Bool[Array, ""], box: Box
    ) -> Float[Array, " p"]:
        """The damped step; of the cells alone unless it is `whole`."""
        k, f = self.shape
        gram, n = at.gram, at.gram.shape[-1]
        slope = at.gradient
        free = ~box.blocked(at.theta, -slope)
        free_numbers, free_cells = free[:k], free[k:].reshape(f, n).T
        matrix = jnp.moveaxis(gram[k:-1, k:-1], -1, 0)
        size = jnp.diagonal(matrix, axis1=-2, axis2=-1)
        least = _UNTOLD * jnp.max(size, axis=-1, keepdims=True) + jnp.finfo(size.dtype).tiny
        lift = cells[:, None] * (size + at.restraint) + least
        pairs = free_cells[:, :, None] & free_cells[:, None, :]
        matrix = jnp.where(pairs, matrix, 0.0) + jnp.eye(f)[None] * jnp.where(free_cells, lift, 1.0)[:, None, :]
        border = jnp.where(free_cells[:, :, None], jnp.moveaxis(gram[k:-1, :k], -1, 0), 0.0)
        pull = jnp.where(free_cells, gram[k:-1, -1].T, 0.0)
        corner = jnp.sum(gram[:k, :k], axis=-1) + at.corner[:k, :k]
        left = complement(separate(matrix), border, -pull, corner, -slope[:k])
        scale = jnp.where(jnp.diag(corner) > 0, jnp.diag(corner), 1.0)
        inner = jnp.where(free_numbers[:, None] & free_numbers[None], left.matrix, 0.0)

        def solved(damping: Array) -> Array:
            shift = jnp.where(free_numbers, (damping + _UNTOLD) * scale, 1.0)
            return jnp.where(free_numbers, jnp.linalg.solve(inner + jnp.diag(shift), left.right), 0.0)

        def longer(damping: Array) -> Array:
            return jnp.any(jnp.abs(solved(damping)) > self.max_step) & ~_NUMBERS.helpless(damping)

        damping = lax.while_loop(longer, lambda d: 2 * d, numbers)
        dp = jnp.where(whole, solved(damping), 0.0)
        return jnp.concatenate([dp, jnp.ravel(left.blocks(dp).T)])

    def best(self, state, theta, value):
        return state.best.theta, state.best.value


def uncoupled(functional: Functional) -> Functional:
    """The functional whose derivatives neglect the exchange between cells; its value is unchanged."""
    grid = getattr(functional.problem.system, "grid", None)
    if not isinstance(grid, CartesianGrid):
        return functional
    return eqx.tree_at(lambda f: f.problem.system.grid, functional, Uncoupled.of_grid(grid))
