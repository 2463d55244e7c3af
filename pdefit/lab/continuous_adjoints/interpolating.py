"""The continuous adjoint with the state from an interpolant of the forward trajectory."""

import dataclasses

import diffrax
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, PyTree

from pdefit.adjoints.base import Account
from pdefit.integrate.loop.time_loop import TimesSizes, precision, stepped
from pdefit.lab.continuous_adjoints._base import AbstractContinuous, Field

# the order of the interpolant, and substeps for trajectories of higher order
_ORDER, _FINER = 4, 4


class Interpolating(AbstractContinuous):
    """The continuous adjoint with the state from a cubic Hermite interpolant, never integrated backward.

    For a comparison with software that optimises before it discretises. Not for rough fields, long steps or long
    records: every state is stored, and the gradient is not exact (`Checkpointed`).

        y(t_j + s h) = H00(s) y_j + H10(s) h f_j + H01(s) y_(j+1) + H11(s) h f_(j+1)

    It is stable for diffusion, and stores the state at every step. Slopes are recomputed. The error of the interpolant
    is h^4/384 times the fourth derivative of y.

    **Arguments:**

    - `substeps`: the number of substeps from each stored state, so that nodes are h / substeps apart. The default is 1,
      and 4 for solvers of order above four, whose steps are longer.
    - `solver`: as in `AbstractContinuous`.

    Source: A. C. Hindmarsh et al., ACM Trans. Math. Softw. 31:363 (2005), doi:10.1145/1089014.1089020 (CVODES).
    """

    substeps: int | None = None
    solver: diffrax.AbstractERK | None = None

    def resolve_for(self, starts, grid, solver):
        if self.substeps is not None:
            return self
        order = solver.order(None) or _ORDER
        return dataclasses.replace(self, substeps=1 if order <= _ORDER else _FINER)

    def account(self, grid, unknowns):
        # beside the steps, the state at each observation
        stored, padded = grid.intervals * (grid.length + 1), grid.intervals * grid.length
        substeps = float(self.substeps or 1)
        return Account("interpolating (every step stored)", stored, padded, 1.0 + 2 * substeps, substeps)

    def forward(self, stepper, carry, steps):
        return lax.scan(lambda c, s: (stepped(stepper, c, s), c[0]), carry, steps)

    def back(self, field, moving, stored, steps, adjoint):
        substeps = self.substeps or 1

        def step(adjoint: PyTree, x: PyTree) -> tuple[PyTree, None]:
            y, (t, h) = x
            starts = t + h / substeps * jnp.arange(substeps)
            sizes = jnp.broadcast_to(h / substeps, starts.shape)
            nodes = _nodes(field, moving, y, starts, sizes)

            def substep(adjoint: PyTree, k: Array) -> tuple[PyTree, None]:
                left, right = (jax.tree.map(lambda x, i=i: x[k + i], nodes) for i in (0, 1))
                return _through(field, moving, left, right, (starts[k], sizes[k]), adjoint), None

            return lax.scan(substep, adjoint, jnp.arange(substeps), reverse=True)

        return lax.scan(step, adjoint, (stored, steps), reverse=True)[0]


def _nodes(field: Field, moving: PyTree, y: PyTree, starts: Array, sizes: Array) -> tuple[PyTree, PyTree]:
    """States and slopes at the ends of all substeps, including the first, on a leading axis."""
    stepper, dtype = field.stepper(moving), precision(y)

    def step(carry: PyTree, t_h: TimesSizes) -> tuple[PyTree, PyTree]:
        carry = stepped(stepper, carry, t_h)
        return carry, carry[0]

    _, after = lax.scan(step, stepper.init(starts[0].astype(dtype), y), (starts, sizes))
    states = jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), y, after)
    times = jnp.append(starts, starts[-1] + sizes[-1]).astype(dtype)
    return states, lax.map(lambda x: field(moving, *x), (times, states))


def _through(field: Field, moving: PyTree, left: PyTree, right: PyTree, step: TimesSizes, adjoint: PyTree) -> PyTree:
    """Adjoint a and gradient at the start of a step from their values at its end, with state and slope at both ends."""
    start, h = (x.astype(precision(left)) for x in step)
    # a step of zero length has one state only
    length = jnp.where(h > 0, h, 1.0)

    def state(s: Array) -> PyTree:
        def one(y0: Array, f0: Array, y1: Array, f1: Array) -> Array:
            near, far = (1 + 2 * s) * (1 - s) ** 2, s**2 * (3 - 2 * s)
            return near * y0 + far * y1 + h * (s * (1 - s) ** 2 * f0 - s**2 * (1 - s) * f1)

        return jax.tree.map(one, *left, *right)

    # in local time, so that it keeps its precision however large t is
    def slopes(s: Array, z: PyTree, args: None) -> PyTree:
        # stages lie at float64 times
        s = s.astype(h.dtype)
        return field.pulled(moving, start + s, state(s / length), z[0])[1:]

    return field.step(slopes, h, -h, adjoint)
