"""Learned terms over their inputs, with the standard error of each value."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.systems.terms.unknown import unknown_terms


class Band(NamedTuple):
    """A term at some points.

    **Arguments:**

    - `value`: its value, of the shape of the points.
    - `error`: its standard error, of that shape.
    """

    value: Float[np.ndarray, " *n"]
    error: Float[np.ndarray, " *n"]


def band(
    functional: AbstractObjective,
    theta: Float[Array, " p"],
    name: str,
    values: tuple[Float[np.ndarray, " *n"], ...],
    covariance: Float[np.ndarray, "p p"],
    reference: tuple[float, ...] | None = None,
) -> Band:
    """A term with its standard error, from the covariance of a fit (delta method).

    For figures and tables of a learned term, over the inputs that the data visited. Elsewhere only a prior or the form
    of the term determines it. A network that is far from linear in its weights has a wider true band.

    **Arguments:**

    - `functional`, `theta`: a fit of a system with terms, and its estimate, (p,).
    - `name`: the name of the term, as in `unknown_terms`.
    - `values`: an array for each input of the term, of one shape.
    - `covariance`: the covariance of theta, (p, p), such as `Intervals.covariance`.
    - `reference`: inputs at which the term is subtracted, such as `(0.0,)` if the equations do not depend on a constant.
    """

    def at(theta: Array) -> Array:
        term = unknown_terms(functional.at(theta).system)[name]
        found = term(*map(jnp.asarray, values))
        return found if reference is None else found - term(*map(jnp.asarray, reference))

    slopes, value = jax.jit(jax.jacfwd(lambda theta: (at(theta),) * 2, has_aux=True))(theta)
    variance = np.einsum("...i,ij,...j->...", np.asarray(slopes), np.asarray(covariance), np.asarray(slopes))
    return Band(np.asarray(value), np.sqrt(np.maximum(variance, 0.0)))
