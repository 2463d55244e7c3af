"""Base of the continuous adjoints: the adjoint equation, solved backward interval by interval."""

import abc
import dataclasses
from collections.abc import Callable
from typing import ClassVar

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from pdefit._util.errors import PdefitError
from pdefit.adjoints.base import AbstractReverse, demand_events
from pdefit.integrate.loop.checkpoint_levels import CheckpointLevels
from pdefit.integrate.loop.stepper import Stepper
from pdefit.integrate.loop.time_loop import TimesSizes, checkpoint, time_loop
from pdefit.integrate.solvers.explicit import VectorField, tableau_of, tableau_step
from pdefit.integrate.solvers.rk4 import RK4


@dataclasses.dataclass(frozen=True)
class Field:
    """The right-hand side f(t, y) as a function of the differentiated arrays.

    **Arguments:**

    - `fixed`: the other arrays of the stepper.
    - `still`: the parts of the stepper that are not arrays.
    - `solver`: the method for f, and for its adjoint, in the reverse pass.
    """

    fixed: PyTree
    still: PyTree
    solver: diffrax.AbstractERK

    def stepper(self, moving: PyTree) -> Stepper:
        """The stepper of the trajectory."""
        return eqx.combine(moving, self.fixed, self.still)

    def __call__(self, moving: PyTree, t: Array, y: PyTree) -> PyTree:
        """The right-hand side f(t, y)."""
        whole = self.stepper(moving)
        return whole.system.vector_field(t, y, whole.args)

    def step(self, slopes: VectorField, t: Array, h: Array, z: PyTree) -> PyTree:
        """The solution z at t + h, by one step for z' = slopes(t, z, args)."""
        return tableau_step(slopes, tableau_of(self.solver), t, h, z, None)

    def pulled(self, moving: PyTree, t: Array, y: PyTree, a: PyTree) -> tuple[PyTree, PyTree, PyTree]:
        """The right-hand sides of y, of a, and of the gradient in float64: f, -(df/dy)^T a, -(df/dp)^T a."""
        slope, pull = jax.vjp(lambda moving, y: self(moving, t, y), moving, y)
        d_moving, d_y = pull(a)
        return slope, jax.tree.map(jnp.negative, d_y), jax.tree.map(lambda d: -d.astype(jnp.float64), d_moving)


class AbstractContinuous(AbstractReverse):
    """The adjoint equation of the exact flow, with its own steps (optimise, then discretise).

        a' = -(df/dy)^T a,    dJ/dp = integral of (df/dp)^T a,    backward through each interval between observations

    The gradient belongs to the differential equation, not to its discrete steps. It differs from the discrete adjoint's
    by about the error of the trajectory, and converges to it as the steps go to zero. A certificate allows 1e-6, or
    that error up to 1e-3. With solvers that are not explicit Runge-Kutta methods, `dt` or adaptive steps must be given.
    There are no tangents.

    Contributions of observations to a between intervals are differentiated automatically. Within an interval a is
    scaled to norm one, so that neither its unit nor the smallest number of its precision matters.

    **Arguments:**

    - `substeps`: the number of reverse steps for each step of the trajectory.
    - `solver`: the explicit Runge-Kutta method of the reverse pass. By default it is the trajectory's own, or RK4 if
      that is of another kind.

    Source: R. T. Q. Chen et al., NeurIPS (2018), arXiv:1806.07366.
    """

    accuracy: ClassVar[float] = 1e-6
    has_tangents: ClassVar[bool] = False
    other_steps: ClassVar[bool] = True

    substeps: eqx.AbstractVar[int | None]
    solver: eqx.AbstractVar[diffrax.AbstractERK | None]

    def __check_init__(self):
        if self.substeps is not None and self.substeps < 1:
            raise PdefitError(f"{type(self).__name__} expects substeps of 1 or more, but got {self.substeps}")

    @abc.abstractmethod
    def forward(self, stepper: Stepper, carry: PyTree, steps: TimesSizes) -> tuple[PyTree, PyTree]:
        """Carry after the steps of an interval, and the states needed in the reverse pass.

        **Arguments:**

        - `stepper`: the stepper of the state.
        - `carry`: the state at the start of the interval, and the solver's memory between steps.
        - `steps`: start and size of every step.
        """

    @abc.abstractmethod
    def back(self, field: Field, moving: PyTree, stored: PyTree, steps: TimesSizes, adjoint: PyTree) -> PyTree:
        """Adjoint a and gradient at the start of an interval, from their values at its end.

        **Arguments:**

        - `field`: the right-hand side.
        - `moving`: the differentiated arrays.
        - `stored`: the states stored by `forward`.
        - `steps`: start and size of every step.
        - `adjoint`: a and the gradient at the end.
        """

    def run(self, stepper, y0, grid, emit, inputs, probes=None):
        if not isinstance(stepper, Stepper):
            raise PdefitError(
                f"{type(self).__name__} steps a system and not its tangent, which Gauss-Newton products need; use "
                f"adjoint=checkpointed"
            )
        if stepper.events is not None:
            demand_events(self)
        moving, fixed, still = split(stepper)
        flow = self._flow(still)
        loops = CheckpointLevels((grid.intervals,), (grid.length,), merged=True)
        return time_loop(
            stepper, y0, grid, emit, inputs, probes, loops, checkpoint, lambda c, s: flow(moving, fixed, c, s)
        )

    def _flow(self, still: PyTree) -> Callable[..., PyTree]:
        """A function through the steps of an interval, with a custom reverse rule."""

        @jax.custom_vjp
        def flow(moving: PyTree, fixed: PyTree, carry: PyTree, steps: TimesSizes) -> PyTree:
            return self.forward(eqx.combine(moving, fixed, still), carry, steps)[0]

        def forward(moving: PyTree, fixed: PyTree, carry: PyTree, steps: TimesSizes) -> tuple[PyTree, PyTree]:
            carry, stored = self.forward(eqx.combine(moving, fixed, still), carry, steps)
            return carry, (moving, fixed, stored, steps)

        def backward(stored: PyTree, cotangent: PyTree) -> tuple[PyTree, None, PyTree, None]:
            moving, fixed, stored, steps = stored
            field = Field(fixed, still, self.method(still.solver))
            # the equation is linear, so the scale is a number that no derivative passes through
            scale = jax.lax.stop_gradient(_norm(cotangent[0]))
            a = jax.tree.map(lambda c: (c / scale).astype(c.dtype), cotangent[0])
            nothing = jax.tree.map(lambda x: jnp.zeros(x.shape), moving)
            a, gradient = self.back(field, moving, stored, steps, (a, nothing))
            rescaled = [
                jax.tree.map(lambda x, like: (x * scale).astype(like.dtype), *pair)
                for pair in ((a, cotangent[0]), (gradient, moving))
            ]
            # what a solver remembers between steps has no adjoint of its own
            return rescaled[1], None, (rescaled[0], None), None

        flow.defvjp(forward, backward)
        return flow

    def method(self, solver: diffrax.AbstractSolver) -> diffrax.AbstractERK:
        """The method of the reverse pass for a trajectory of this solver."""
        if self.solver is not None:
            return self.solver
        return solver if isinstance(solver, diffrax.AbstractERK) else RK4()


def split(stepper: Stepper) -> tuple[PyTree, PyTree, PyTree]:
    """A stepper in three parts: differentiable arrays, other arrays, and everything that is not an array.

    Other arrays are those declared `constant`, and those without real numbers.
    """
    arrays, still = eqx.partition(stepper, eqx.is_array)
    declared = [f.name for f in dataclasses.fields(stepper.system) if "constant" in f.metadata]
    # constants that are NumPy's are no arrays to JAX, and None here
    names = [n for n in declared if getattr(arrays.system, n) is not None]
    free = eqx.tree_at(lambda s: [getattr(s.system, n) for n in names], arrays, replace_fn=lambda x: None)
    moving = eqx.filter(free, eqx.is_inexact_array)
    marks = jax.tree.map(lambda x: x is None, moving, is_leaf=lambda x: x is None)
    return moving, eqx.filter(arrays, marks), still


def _norm(tree: PyTree) -> Array:
    """Norm of a cotangent; 1 if it vanishes."""
    squares = [jnp.sum(jnp.square(x.astype(jnp.float64))) for x in jax.tree.leaves(tree)]
    norm = jnp.sqrt(sum(squares, start=jnp.zeros(())))
    return jnp.where(norm > 0, norm, 1.0)
