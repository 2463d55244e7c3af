"""The compiled programs that a march consists of: each runs through one piece, forward, back, or with tangents."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from pdefit.inverse.march import AbstractMarch
from pdefit.inverse.window import Window

# J, its gradient and the Gauss-Newton matrix, summed so far
Total = tuple[Array, Array, Array]


@eqx.filter_jit
def start(march: AbstractMarch, x: Array, first: Window | None) -> tuple[PyTree, Array]:
    """The state before the first piece, and what a look at it adds."""
    state = march.start(x)
    if first is None:
        return state, jnp.zeros(())
    return march.through(x, state, first, None)


@eqx.filter_jit
def advance(march: AbstractMarch, x: Array, state: PyTree, window: Window) -> tuple[PyTree, Array]:
    return march.through(x, state, window, None)


@eqx.filter_jit
def reverse(
    march: AbstractMarch, x: Array, state: PyTree, window: Window, cotangent: PyTree, gradient: Array
) -> tuple[PyTree, Array, Array]:
    """Through a piece and back: the cotangent of its start, what it adds to the gradient, and norms of the adjoint."""
    probes = jnp.zeros((*window.index.shape[:1], window.index.shape[1] + 1, 2))
    _, pull = jax.vjp(lambda x, state, probes: march.through(x, state, window, probes), x, state, probes)
    more, cotangent, norms = pull((cotangent, jnp.ones(())))
    return cotangent, gradient + more, norms


@eqx.filter_jit
def reverse_start(march: AbstractMarch, x: Array, first: Window | None, cotangent: PyTree, gradient: Array) -> Array:
    _, pull = jax.vjp(lambda x: start(march, x, first), x)
    return gradient + pull((cotangent, jnp.ones(())))[0]


@eqx.filter_jit
def finish(march: AbstractMarch, x: Array, state: PyTree) -> tuple[Array, tuple[Array, PyTree]]:
    """What is added at the end, with its derivatives in x and in the state."""
    return jax.value_and_grad(march.finish, argnums=(0, 1))(x, state)


@eqx.filter_jit
def push_start(march: AbstractMarch, x: Array, v: Array, first: Window | None) -> tuple[PyTree, PyTree]:
    return jax.jvp(lambda x: start(march, x, first), (x,), (v,))


@eqx.filter_jit
def push(
    march: AbstractMarch, x: Array, v: Array, state: PyTree, tangent: PyTree, window: Window
) -> tuple[PyTree, PyTree]:
    return jax.jvp(lambda x, state: march.through(x, state, window, None), (x, state), (v, tangent))


@eqx.filter_jit
def push_finish(march: AbstractMarch, x: Array, v: Array, state: PyTree, tangent: PyTree) -> tuple[Array, Array]:
    return jax.jvp(march.finish, (x, state), (v, tangent))


@eqx.filter_jit
def push_all(function: Callable, theta: Array, seeds: Array) -> tuple[PyTree, PyTree]:
    """A function of theta, and its derivatives along all seeds on a leading axis."""
    return jax.vmap(lambda v: jax.jvp(function, (theta,), (v,)), out_axes=(None, 0))(seeds)


def _added(total: Total, r: Float[Array, " m"], jac: Float[Array, "p m"]) -> Total:
    half_square, gradient, matrix = total
    return half_square + jnp.sum(r**2) / 2, gradient + jac @ r, matrix + jac @ jac.T


@eqx.filter_jit
def tally(
    march: AbstractMarch, theta: Array, seeds: Array, state: PyTree, tangents: PyTree, window: Window, total: Total
) -> tuple[PyTree, PyTree, Total]:
    """Through a piece with all tangents; its residuals added to the normal equations."""
    functional = march.functional

    def residuals(theta: Array, state: PyTree) -> tuple[Array, PyTree]:
        def flat(r: dict[str, Array]) -> Array:
            return jnp.concatenate([jnp.ravel(x) for x in r.values()])

        seen, ends = functional.sweep(functional.at(theta), state, window, flat)
        return jnp.ravel(seen).astype(jnp.float64), ends

    def moved(v: Array, tangent: PyTree) -> tuple[PyTree, PyTree]:
        return jax.jvp(residuals, (theta, state), (v, tangent))

    (r, state), (jac, tangents) = jax.vmap(moved, out_axes=(None, 0))(seeds, tangents)
    return state, tangents, _added(total, r, jac)


@eqx.filter_jit
def tally_end(march: AbstractMarch, theta: Array, seeds: Array, state: PyTree, tangents: PyTree, total: Total) -> Total:
    """What regularizers and priors add."""

    def residuals(theta: Array, state: PyTree) -> Array:
        rest = march.functional.remaining_residuals(theta, state)
        return jnp.concatenate([jnp.ravel(x) for x in rest]).astype(jnp.float64)

    def moved(v: Array, tangent: PyTree) -> tuple[Array, Array]:
        return jax.jvp(residuals, (theta, state), (v, tangent))

    r, jac = jax.vmap(moved, out_axes=(None, 0))(seeds, tangents)
    return _added(total, r, jac)
