"""Several tangents along a trajectory, each by itself for a few steps while it lies in the cache."""

from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import PyTree

from pdefit.integrate.stepper import AbstractStepper, Stepper
from pdefit.integrate.time_loop import TimesSizes, grouped, precision
from pdefit.inverse.collected import collected, direction

# steps between two turns: more of them take more memory, and no less time
_AHEAD = 2
# tangents at most: each has its own part of the program, which must be compiled
_MOST = 16


class InTurn(AbstractStepper):
    """Steps a state and a list of tangents, for the method of one evaluation a step (Euler).

    The state goes two steps ahead. Of each step it leaves f'(y) with its coefficients collected, and what every control adds,
    in arrays: a compiler that fuses them into the tangents would evaluate them again for each. Then one tangent after the
    other goes through both steps. For ten parameters of a reaction-diffusion system that takes about half the time of `Pushed`.

    `moved` has for every tangent the arrays of the stepper that move with it, and None elsewhere.
    """

    stepper: Stepper
    moved: list[PyTree]

    def init(self, t, y):
        return y, None

    def __call__(self, t, h, carry):
        return self.through(carry, (t[None], h[None]))

    def through(self, carry: Any, t_h: TimesSizes) -> Any:
        """Through the steps of an interval; a step of zero length makes their number even."""
        shape = (-(-t_h[0].shape[0] // _AHEAD), _AHEAD)
        blocks = grouped(t_h[0], shape, 0), grouped(t_h[1], shape, 0, zeros=True)
        # a bound method would be hashed with the arrays it belongs to
        return lax.scan(lambda carry, t_h: self._block(carry, t_h), carry[0], blocks)[0], None

    def _block(self, carry: tuple[PyTree, list[PyTree]], t_h: TimesSizes) -> tuple[Any, None]:
        y, tangents = carry
        y, (jacobians, added) = lax.scan(lambda y, t_h: self._ahead(y, t_h), y, t_h)
        return (y, [lax.scan(_follow, dy, (jacobians, b))[0] for dy, b in zip(tangents, added, strict=True)]), None

    def _ahead(self, y: PyTree, t_h: TimesSizes) -> tuple[PyTree, Any]:
        t, h = (x.astype(precision(y)) for x in t_h)

        def added(moved: PyTree) -> PyTree:
            live, rest = eqx.partition(self.stepper, jax.tree.map(eqx.is_array, moved, is_leaf=lambda x: x is None))
            return direction(lambda live: eqx.combine(live, rest)(t, h, (y, None))[0], live, moved)

        stepped, jacobian = collected(lambda y: self.stepper(t, h, (y, None))[0], y)
        return stepped, (jacobian, [added(moved) for moved in self.moved])


def _follow(dy: PyTree, step: Any) -> tuple[PyTree, None]:
    jacobian, added = step
    return jax.tree.map(lambda d, b: d if b is None else d + b, jacobian(dy), added), None


def goes_in_turn(solver: diffrax.AbstractSolver, y: PyTree, tangents: int) -> bool:
    """Whether `InTurn` can step these."""
    single = isinstance(solver, diffrax.Euler)
    return single and tangents <= _MOST and all(eqx.is_inexact_array(x) for x in jax.tree.leaves(y))


def unstacked(tree: PyTree, count: int) -> list[PyTree]:
    """The slices along a leading axis."""
    return [jax.tree.map(lambda x, k=k: x[k], tree) for k in range(count)]


def stacked(trees: list[PyTree]) -> PyTree:
    """A leading axis for equal trees."""
    return jax.tree.map(lambda *x: jnp.stack(x), *trees)
