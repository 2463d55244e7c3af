"""Compiled values of controls, and of squares of their changes."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from pdefit.inverse.controls.vector import Controls
from pdefit.inverse.objective.abstract import AbstractObjective


@eqx.filter_jit
def squares(
    controls: Controls, theta: Array, rows: Float[Array, "r p"], factors: Float[Array, " r"]
) -> dict[str, Array]:
    """The squares of the changes of every control along some directions, each times its factor, summed."""

    def add(total: dict[str, Array], each: tuple[Array, Array]) -> tuple[dict[str, Array], None]:
        change = jax.jvp(controls.values, (theta,), (each[0],))[1]
        return {path: total[path] + each[1] * change[path] ** 2 for path in total}, None

    return lax.scan(add, jax.tree.map(jnp.zeros_like, controls.values(theta)), (rows, factors))[0]


@eqx.filter_jit
def values_at(functional: AbstractObjective, theta: Array, constrained: bool) -> dict[str, Array]:
    """The value of every control at theta, or in the problem that theta stands for, which may obey a constraint."""
    if not constrained:
        return functional.controls.values(theta)
    problem = functional.at(theta)
    return {c.path: c.where(problem) for c in functional.controls.items}
