"""Initial states that a system computes from its parameters."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from pdefit._util.errors import PdefitError
from pdefit._util.trees import named_fields
from pdefit.systems.capabilities import AbstractConstrained
from pdefit.systems.system import AbstractSystem

# iterations at most, and the change, in units of round-off, at which a state stands still
_ITERATIONS, _STILL = 200, 64
# the last steps, which are differentiated: where totals are conserved a single one leaves a part of the slow derivatives
_LAST = 3
# a state that changed by this part of itself in the last iteration does not stand still
_MOVES = 1e-3


class AbstractInitial(eqx.Module):
    """A rule for the initial state of a system."""


class OwnInitial(AbstractInitial):
    """Rule of an initial state: `AbstractSystem.init` at the present parameters.

    For an initial state that contains an unknown parameter, such as the first infected. It follows the parameters of a
    fit, and is projected onto a constraint of the system. Not for a state that does not depend on them: that is `y0`
    itself.

    **Arguments:**

    - `key`: the key of random states; default `jax.random.key(0)`.
    - `hold`: the fields that keep their value in the given state, such as unknown ones; default none.
    """

    # numbers, which members and recordings may differ in
    key: Array
    hold: dict[str, None]

    def __init__(self, key: PRNGKeyArray | None = None, hold: Iterable[str] = ()):
        self.key = jax.random.key_data(jax.random.key(0) if key is None else key)
        self.hold = dict.fromkeys(hold)

    def state(self, system: AbstractSystem, y: PyTree, args: PyTree = None) -> PyTree:
        """The state of a system with its present parameters, as in `Steady.state`."""
        made = system.init(jax.random.wrap_key_data(self.key))
        new = named_fields(system.project(made) if isinstance(system, AbstractConstrained) else made)
        given = named_fields(y)
        if [*new] != [*given]:
            raise PdefitError(
                f"OwnInitial expects a y0 with the fields {', '.join(new)} of init; got {', '.join(given)}"
            )
        leaves = [x if n in self.hold else jnp.broadcast_to(new[n], x.shape).astype(x.dtype) for n, x in given.items()]
        return jax.tree.unflatten(jax.tree.structure(y), leaves)


class Steady(AbstractInitial):
    """Rule of an initial state: the steady state of all fields that are not held.

    For gates at a given voltage, and for networks at rest. It follows the parameters of a fit: a parameter that moves
    the steady state also moves the start of the trajectory. Not for fields coupled to their neighbours: cells of a grid
    are solved one by one, as if all their neighbours were equal.

    Iterations are implicit steps in a pseudo-time that grow as the rates fall, from the state of `AbstractSystem.init`.
    So totals that the equations conserve are those of that state. The last steps are as accurate as Newton's, and have
    the derivative of the implicit function theorem.

    **Arguments:**

    - `hold`: the held fields, each with one number or an array of its shape; None for its value in the given state,
      such as an unknown initial field. By default all fields are steady.
    - `time`: the time at which inputs act, in the system's time unit; default 0.

    Source: C. T. Kelley, D. E. Keyes, SIAM J. Numer. Anal. 35:508 (1998), doi:10.1137/S0036142996304796.
    """

    hold: dict[str, Array | None]
    time: Array

    def __init__(self, hold: Mapping[str, Any] | None = None, time: Any = 0.0):
        self.hold = {name: None if x is None else jnp.asarray(x, float) for name, x in (hold or {}).items()}
        self.time = jnp.asarray(time, float)

    def state(self, system: AbstractSystem, y: PyTree, args: PyTree = None) -> PyTree:
        """State of a system with its present parameters.

        **Arguments:**

        - `system`: the equations.
        - `y`: a state, whose held fields are kept and whose free fields start the iterations.
        - `args`: the inputs of the equations.
        """
        return self._steady_state(system, y, args)[0]

    def checked(self, system: AbstractSystem, y: PyTree, args: PyTree = None) -> PyTree:
        """The state of a system as in `state`.

        **Errors:** PdefitError if a field is unknown, if all fields are held, or if no state was found.
        """
        fields = named_fields(y)
        if missing := [name for name in self.hold if name not in fields]:
            raise PdefitError(f"initial.hold expects fields of the state ({', '.join(fields)}), but got {missing[0]}")
        if len(self.hold) == len(fields):
            raise PdefitError("initial.hold holds all fields, so that none is left to stand still; leave one out")
        found, change = eqx.filter_jit(self._steady_state)(system, y, args)
        if not bool(change <= _MOVES):
            raise PdefitError(
                f"{type(system).__name__} was not brought to a steady state: its last iteration still changed it by "
                f"{float(change):.2g} of itself; hold another field (initial.hold), or prepare a state by a simulation"
            )
        return found

    def _steady_state(self, system: AbstractSystem, y: PyTree, args: PyTree) -> tuple[PyTree, Float[Array, ""]]:
        """The state, and the change of its last iteration relative to the largest values so far."""
        given, tree = named_fields(y), jax.tree.structure(y)
        for name, value in self.hold.items():
            if value is not None:
                given[name] = jnp.broadcast_to(value.astype(given[name].dtype), given[name].shape)
        free = [name for name in given if name not in self.hold]
        join, apart = _vector([given[name] for name in free], bool(system.coords()))

        def filled(z: Array, fields: dict[str, Array]) -> PyTree:
            fields = fields | dict(zip(free, apart(z), strict=True))
            # transformations sort the keys of a dictionary
            return jax.tree.unflatten(tree, [fields[name] for name in given])

        def rates(z: Array, known: tuple[AbstractSystem, dict[str, Array], PyTree]) -> Array:
            system, fields, args = known
            moved = system.vector_field(self.time.astype(z.dtype), filled(z, fields), args)
            moving = dict(zip(given, jax.tree.leaves(moved), strict=True))
            return join([moving[name] for name in free])

        def change(z: Array, scale: Array, known: tuple[AbstractSystem, dict[str, Array], PyTree]) -> Array:
            """The implicit step from z, with z over its rate of change as step size."""
            f, slope = jax.linearize(lambda z: rates(z, known), z)
            columns = jax.vmap(lambda e: slope(jnp.broadcast_to(e, z.shape)))(jnp.eye(z.shape[-1], dtype=z.dtype))
            jacobian = jnp.moveaxis(columns, 0, -1)
            least = jnp.sqrt(jnp.finfo(z.dtype).eps) * jnp.max(jnp.abs(jacobian))
            rate = jnp.maximum(_part(_largest(f), scale), least)
            shift = lax.stop_gradient(rate) * jnp.eye(z.shape[-1], dtype=z.dtype)
            return jnp.linalg.solve(jnp.broadcast_to(shift, jacobian.shape) - jacobian, f[..., None])[..., 0]

        known = system, given, args
        fixed, begin = lax.stop_gradient((known, join([given[name] for name in free])))

        def body(carry: tuple[Array, ...]) -> tuple[Array, ...]:
            i, z, scale, _ = carry
            d = change(z, scale, fixed)
            scale = jnp.maximum(scale, _largest(z + d))
            return i + 1, z + d, scale, _part(_largest(d), scale)

        def more(carry: tuple[Array, ...]) -> Array:
            return (carry[0] < _ITERATIONS) & (carry[-1] > _STILL * jnp.finfo(begin.dtype).eps)

        one = jnp.ones((), begin.dtype)
        _, z, scale, moved = lax.while_loop(more, body, (jnp.zeros((), int), begin, _largest(begin), one))
        for _ in range(_LAST):
            z = z + change(z, scale, known)
        return filled(z, given), moved


def _largest(z: Array) -> Array:
    """Maximum absolute value of each unknown over all cells."""
    return jnp.max(jnp.abs(z).reshape(-1, z.shape[-1]), axis=0)


def _part(change: Array, scale: Array) -> Array:
    """Largest change relative to the scale of its unknown."""
    return jnp.max(change / jnp.where(scale > 0, scale, 1.0))


def _vector(fields: list[Array], local: bool) -> tuple[Callable[[list[Array]], Array], Callable[[Array], list[Array]]]:
    """Maps from fields to the unknowns of linear systems and back: by cell, or all elements together."""
    if local:
        return lambda parts: jnp.stack(parts, axis=-1), lambda z: [z[..., i] for i in range(z.shape[-1])]
    return lambda parts: ravel_pytree(parts)[0], ravel_pytree(fields)[1]
