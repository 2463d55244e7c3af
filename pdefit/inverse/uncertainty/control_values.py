"""Values of controls, squared changes of the values, and the pointwise variance of their priors."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from pdefit._util.program import Program
from pdefit.inverse.controls.bound_control import BoundControl
from pdefit.inverse.controls.theta import Controls
from pdefit.inverse.objective.abstract import AbstractObjective


@eqx.filter_jit
def squares(
    controls: Controls, theta: Array, rows: Float[Array, "r p"], factors: Float[Array, " r"]
) -> dict[str, Array]:
    """Squared changes of every control along some directions, weighted and summed."""

    def add(total: dict[str, Array], each: tuple[Array, Array]) -> tuple[dict[str, Array], None]:
        change = jax.jvp(controls.values, (theta,), (each[0],))[1]
        return {path: total[path] + each[1] * change[path] ** 2 for path in total}, None

    return lax.scan(add, jax.tree.map(jnp.zeros_like, controls.values(theta)), (rows, factors))[0]


@eqx.filter_jit
def values_at(functional: AbstractObjective, theta: Array, constrained: bool) -> dict[str, Array]:
    """Values of all controls at theta; if `constrained`, after projection onto the system's constraint."""
    if not constrained:
        return functional.controls.values(theta)
    problem = functional.at(theta)
    return {c.path: c.where(problem) for c in functional.controls.items}


def at_points(controls: Controls, changes: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n p"]:
    """Changes of search variables at their own points: S z for a control with smoothing, z otherwise."""
    each = zip(controls.items, controls.split(changes), strict=True)
    return np.concatenate([np.asarray(c.parametrization.at_points(x)) for c, x in each], axis=1)


@Program
def moved(
    controls: Controls, theta: Float[Array | np.ndarray, " p"], change: Float[Array | np.ndarray, " p"]
) -> Float[Array, " p"]:
    """Physical value of every element of theta; for modes, the coefficient in the unit of the search space.

    **Arguments:**

    - `controls`, `theta`: the controls and the point.
    - `change`: the change of every value in search space, as in `at_points`.
    """

    def values(c: BoundControl, part: Array, by: Array) -> Array:
        if c.has_modes:
            return (part + by) * c.scale
        return c.transform.to_physical(jnp.ravel(c.search(part)) + by * c.scale)

    return jnp.concatenate(list(map(values, controls.items, controls.split(theta), controls.split(change))))


# the same at several points, with a change each
moved_each = Program(lambda controls, thetas, by: jax.vmap(functools.partial(moved, controls))(thetas, by))


def prior_variance(
    control: BoundControl, part: Float[Array, " size"], weights: Float[np.ndarray, " size"]
) -> Float[np.ndarray, "..."]:
    """Pointwise variance of a control's Gaussian prior, linearised at a point, in the square of its unit.

    Elements without a prior, such as the mean of a field of modes, do not contribute.

    **Arguments:**

    - `control`: the control.
    - `part`: its part of theta.
    - `weights`: one over the standard deviation of every element of theta; 0 for elements without a prior.
    """
    variances = np.where(weights > 0, (control.scale / np.where(weights > 0, weights, 1.0)) ** 2, 0.0)
    search = control.transform.to_search(control.to_physical(part))
    slope = jax.jvp(control.transform.to_physical, (search,), (jnp.ones_like(search),))[1]
    return np.asarray(slope**2 * control.parametrization.variance(variances))
