"""The logarithm of the likelihood of a fit, with all of its constants."""

from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.problem.instrument import AbstractObservationOperator, Compose, Logarithm


def logarithms(operator: AbstractObservationOperator) -> frozenset[str]:
    """The fields whose logarithms an operator observes."""
    parts = operator.operators if isinstance(operator, Compose) else (operator,)
    return frozenset(name for part in parts if isinstance(part, Logarithm) for name in part.fields)


def likelihood_sums(functional: Functional, residuals: Mapping[str, Array | np.ndarray]) -> Float[Array, "V 3"]:
    """The sums over the fitted values of each variable from which `log_likelihoods` is made.

    They are the sum of squared residuals, the number of values, and the sum of ln sigma and of ln x, the latter for values x
    of which logarithms are compared.

    **Arguments:**

    - `functional`: the objective of one record.
    - `residuals`: its weighted residuals by variable, (S, I, ...), which are zero in padding.
    """
    data, layout, logs, rows = functional.observations, functional.layout, logarithms(functional.problem.observe), []
    for name in functional.observed:
        fitted = functional.fitted(name)
        constant = jnp.log(jnp.broadcast_to(data.sigma[name], data.values[name].shape))
        constant = (constant + data.values[name] * (name in logs))[layout.index].astype(jnp.float64)
        squares = jnp.sum(jnp.asarray(residuals[name], jnp.float64) ** 2)
        rows.append(jnp.stack([squares, jnp.sum(fitted), jnp.sum(jnp.where(fitted, constant, 0.0))]))
    return jnp.stack(rows)


def log_likelihoods(
    sums: Float[np.ndarray, "E V 3"], estimated: Mapping[str, bool], names: tuple[str, ...]
) -> Float[np.ndarray, " E"]:
    """The logarithm of the normal density of all fitted values of each recording, constants included.

        ln L = -1/2 sum (r^2 / s^2 + ln(2 pi s^2 sigma^2))

    r is a residual over its sigma. s is 1 where sigma was stated. If residuals decide the sigma of a variable, s^2 is the
    mean of its r^2: the factor of maximum likelihood, which divides by the number of values, and not by the degrees of
    freedom. The density of counts (`Poisson`) is the normal one of their variance. Where logarithms are compared, it is
    the log-normal density of the values themselves. Priors do not count.

    **Arguments:**

    - `sums`: of each recording as of `likelihood_sums`.
    - `estimated`: the variables whose sigma residuals decide, and whether all recordings share it.
    - `names`: the variables in the order of `sums`.
    """
    squares, count, constant = np.moveaxis(np.asarray(sums, float), 2, 0)
    own, all_ = ((x / np.maximum(n, 1)) for x, n in ((squares, count), (squares.sum(axis=0), count.sum(axis=0))))
    factor = np.where([estimated.get(n, False) for n in names], all_, own)
    factor = np.where([n in estimated for n in names], np.maximum(factor, np.finfo(float).tiny), 1.0)
    return -np.sum((squares / factor + count * np.log(2 * np.pi * factor)) / 2 + constant, axis=1)
