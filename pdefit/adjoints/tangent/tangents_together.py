"""Several tangents stepped together with the state (forward mode)."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from pdefit.integrate.loop.stepper import AbstractStepper, Stepper
from pdefit.systems.capabilities import AbstractReduced


def push(function: Callable, primals: tuple, tangents: tuple) -> tuple[PyTree, PyTree]:
    """Value of a function and its derivative along tangents, with zeros for outputs that do not depend on them.

    **Arguments:**

    - `function`: the function.
    - `primals`: its arguments.
    - `tangents`: the tangent of each argument; None for parts that do not move.
    """
    out, moved = eqx.filter_jvp(function, primals, tangents)

    def filled(x: Any, d: Any) -> Any:
        return jnp.zeros_like(x) if d is None and eqx.is_inexact_array(x) else d

    return out, jax.tree.map(filled, out, moved)


def jvp_many(function: Callable, primals: tuple, tangents: tuple) -> tuple[PyTree, PyTree]:
    """Value of a function and its derivatives in several directions, on a leading axis; None if nothing moves.

    **Arguments:** as in `push`, with the directions as leading axis of `tangents`.
    """
    if not jax.tree.leaves(tangents):
        out = function(*primals)
        return out, jax.tree.map(lambda _: None, out)
    static: list[PyTree] = []

    def one(moved: tuple) -> tuple[PyTree, PyTree]:
        out, d_out = push(function, primals, moved)
        # a module holds more than arrays: the activation of a network
        arrays, rest = eqx.partition(out, eqx.is_array)
        static.append(rest)
        return arrays, eqx.filter(d_out, eqx.is_array)

    # the function itself is evaluated once: nothing that it returns has the axis
    arrays, moved = jax.vmap(one, out_axes=(None, 0))(tangents)
    return eqx.combine(arrays, static[-1]), moved


class TangentLinearStepper(AbstractStepper):
    """Steps of a state and its tangent together.

    **Arguments:**

    - `stepper`: the step of the state.
    - `tangent`: the tangent of the stepper's arrays; None for arrays that do not move.
    - `twin`: a stepper whose derivative at the state is taken in place of the first one's; `tangent` is then the
      twin's.
    - `several`: whether `tangent` and the tangents of the state have a leading axis of directions.
    """

    stepper: Stepper
    tangent: Stepper
    twin: Stepper | None = None
    several: bool = eqx.field(static=True, default=False)

    def init(self, t, y):
        (y1, state), (dy, d_state) = self._push(lambda stepper, y: stepper.init(t, y), *y)
        return (y1, dy), (state, d_state)

    def __call__(self, t, h, carry):
        (y, dy), (state, d_state) = carry
        (y, state), (dy, d_state) = self._push(lambda stepper, c: stepper(t, h, c), (y, state), (dy, d_state))
        return (y, dy), (state, d_state)

    def prepared(self, grid):
        stepper, followed = self.stepper.prepared(grid), self.stepper if self.twin is None else self.twin
        if stepper is self.stepper:
            return self
        # what is prepared depends on the parameters, so it has a tangent of its own
        moved = eqx.filter(self.tangent, eqx.is_inexact_array)
        push_all = jvp_many if self.several else push
        new, tangent = push_all(lambda s: s.prepared(grid), (followed,), (moved,))
        if not isinstance(followed.system, AbstractReduced):
            # of a system as it was, parameters that do not move stay out of the tangents
            tangent = eqx.tree_at(lambda s: s.solver, self.tangent, tangent.solver)
        return TangentLinearStepper(stepper, tangent, None if self.twin is None else new, self.several)

    def _push(self, function: Callable, primal: PyTree, tangent: PyTree) -> tuple[PyTree, PyTree]:
        moved = eqx.filter(self.tangent, eqx.is_inexact_array)
        followed = self.stepper if self.twin is None else self.twin
        out, d_out = (jvp_many if self.several else push)(function, (followed, primal), (moved, tangent))
        return out if self.twin is None else function(self.stepper, primal), d_out
