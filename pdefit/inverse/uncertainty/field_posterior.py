"""Uncertainty of unknown fields with a Gaussian prior, by the leading eigenpairs of the data's information.

H is the Gauss-Newton matrix of the data, and W the diagonal matrix of one over the prior's standard deviations. The few
unknowns without such a prior are eliminated, which leaves the matrix B for the fields. With eigenpairs of

    W^-1 B W^-1 = V L V^T

the covariance of the fields is W^-1 (I + V L V^T)^-1 W^-1. Only eigenvalues that are not small against 1 matter: there
the data are more informative than the prior. Omitted eigenpairs make the covariance larger, never smaller.

Source: T. Bui-Thanh, O. Ghattas, J. Martin, G. Stadler, SIAM J. Sci. Comput. 35:A2494 (2013), doi:10.1137/12089586X.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jaxtyping import Array, Float, PRNGKeyArray

from pdefit._util.errors import PdefitError
from pdefit.inverse.controls.bound_control import FEW
from pdefit.inverse.controls.theta import Controls
from pdefit.inverse.linear.determined_inverse import determined_inverse
from pdefit.inverse.linear.low_rank import leading
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.objective.compiled import value_of
from pdefit.inverse.objective.variants import with_tangents
from pdefit.inverse.uncertainty.control_values import prior_variance, squares, values_at
from pdefit.systems.capabilities import AbstractConstrained

# eigenvalues that were left out are mentioned where their sum is above this part of the number of those found
_NOTED = 0.2
# the samples that measure a standard deviation to about five percent, where it has no closed form
_SAMPLES = 200
# the weight of the prior of a value at a bound, which does not move
_EXACT = 1e100

Products = Callable[[AbstractObjective, Array, Array], Array]

_PRODUCTS: Products = eqx.filter_jit(
    lambda functional, theta, rows: jax.vmap(lambda v: functional.gauss_newton_product(theta, v))(rows)
)


@dataclasses.dataclass(frozen=True, repr=False)
class FieldPosterior:
    """The Gaussian posterior of all controls, linearised at an estimate.

    **Arguments:**

    - `functional`, `theta`: the objective and its minimum, (p,).
    - `weights`: one over the prior's standard deviation of every element of theta; 0 for elements without a prior.
    - `eigenvalues`: the leading eigenvalues L, the largest first, (r,).
    - `vectors`: their vectors V, (m, r), for the m elements with a prior.
    - `coupling`: the change of the k elements without a prior, per change of the m elements with one, (k, m).
    - `spread`: a root R of the covariance R R^T of those k elements with all other elements known, (k, k).
    - `noise`: the size of the noise, a factor of the stated sigma.
    - `products`: the number of products with the Gauss-Newton matrix.
    - `missing`: an estimate of the sum of all omitted eigenvalues. At most this many of them are above 1.
    """

    functional: AbstractObjective
    theta: Float[Array, " p"]
    weights: Float[np.ndarray, " p"]
    eigenvalues: Float[np.ndarray, " r"]
    vectors: Float[np.ndarray, "m r"]
    coupling: Float[np.ndarray, "k m"]
    spread: Float[np.ndarray, "k k"]
    noise: float
    products: int
    missing: float

    @property
    def degrees_of_freedom(self) -> float:
        """Number of directions of the fields that the data determine: the sum of l / (1 + l)."""
        return float(np.sum(self.eigenvalues / (1 + self.eigenvalues)))

    @property
    def amplitude_factors(self) -> dict[str, float]:
        """Factor by which the data would change the amplitude of every field's prior, by path.

        It is 1 at maximum evidence. Below 1, the prior allows for more than the estimate uses; above 1, it restrains
        the estimate. With the amplitude `auto` a fit maximises the evidence. Omitted eigenpairs make the factor too
        large.

        Source: D. J. C. MacKay, Neural Comput. 4:415 (1992), doi:10.1162/neco.1992.4.3.415.
        """
        freedom = np.zeros(self.weights.size)
        freedom[self.weights > 0] = self.vectors**2 @ (self.eigenvalues / (1 + self.eigenvalues))
        used = (self.weights * np.asarray(self.theta)) ** 2
        masks = {path: mask for path, mask in self.functional.controls.elements.items() if np.any(freedom[mask] > 0)}
        return {path: float(np.sqrt(np.sum(used[mask]) / np.sum(freedom[mask]))) for path, mask in masks.items()}

    @property
    def amplitudes(self) -> dict[str, float]:
        """Amplitude of every field's smoothing, stated or chosen by the data, by path, in the unit of its search space."""
        each = {c.path: c.parametrization.amplitude(c.scale) for c in self.functional.controls.items}
        return {path: amplitude for path, amplitude in each.items() if amplitude is not None}

    @property
    def remark(self) -> str:
        """Sentence about missing eigenvalues; empty if they change little."""
        count = self.eigenvalues.size
        most = min(self.missing, len(self.vectors) - count)
        return "" if self.missing <= _NOTED * count else (
            f"the standard deviations of fields are upper bounds: beside the {count} eigenvalues found, up to {most:.0f} may "
            f"be above 1; a larger rank finds them"
        )  # fmt: skip

    def record(self) -> dict[str, Any]:
        """Its section of summary.json."""
        names = ("eigenvalues", "degrees_of_freedom", "products", "missing", "noise", "remark")
        names += ("amplitudes", "amplitude_factors")
        return {name: getattr(self, name) for name in names} | {"above_one": int(np.sum(self.eigenvalues > 1))}

    @functools.cached_property
    def prior_standard_deviation(self) -> dict[str, np.ndarray]:
        """Pointwise standard deviation of the prior of every field that has one, by path, in its unit."""
        return {path: np.asarray(np.sqrt(x)) for path, x in self._prior.items() if np.any(x > 0)}

    @functools.cached_property
    def standard_deviation(self) -> dict[str, np.ndarray]:
        """Pointwise standard deviation of every control, by path, in its unit."""
        lost, k = self.eigenvalues / (1 + self.eigenvalues), len(self.coupling)
        # elements without a prior move with the others: -P E^T - E P^T + E C E^T, as a sum of signed squares
        shift = self.coupling / self.weights[self.weights > 0]
        own = shift @ shift.T + self.spread @ self.spread.T
        # in units of their size, so that large elements do not drown the small ones in round-off
        size = np.sqrt(np.diag(own))
        moved = np.zeros((2 * k, self.weights.size))
        moved[:k, self.weights > 0] = shift / self.weights[self.weights > 0] / size[:, None]
        moved[k:, self.weights == 0] = np.diag(size)
        signs, axes = np.linalg.eigh(np.block([[0 * own, -np.eye(k)], [-np.eye(k), own / np.outer(size, size)]]))
        rows = np.concatenate([_following(self.vectors.T, self.weights, self.coupling), axes.T @ moved])
        factors = np.concatenate([-lost, signs])
        changes = squares(self.functional.controls, self.theta, jnp.asarray(rows), jnp.asarray(factors))
        deviations = {path: np.asarray(np.sqrt(np.maximum(self._prior[path] + x, 0.0))) for path, x in changes.items()}
        if isinstance(self.functional.problem.system, AbstractConstrained):
            # a projection has no closed form at a point
            free, obeying = (self.samples(_SAMPLES, jax.random.key(0), constrained=c) for c in (False, True))
            moved = [path for path in deviations if not np.allclose(free[path], obeying[path])]
            deviations |= {path: np.std(obeying[path], axis=0) for path in moved}
        return deviations

    @functools.cached_property
    def _prior(self) -> dict[str, np.ndarray]:
        controls = self.functional.controls
        parts = zip(controls.items, controls.split(self.theta), controls.split(jnp.asarray(self.weights)), strict=True)
        return {c.path: prior_variance(c, part, np.asarray(w)) for c, part, w in parts}

    def draws(self, n: int, key: PRNGKeyArray) -> Float[np.ndarray, "n p"]:
        """Points of search space drawn from the posterior.

        **Arguments:**

        - `n`: the number of points.
        - `key`: the random key.
        """
        white = np.asarray(jax.random.normal(key, (n, self.weights.size)))
        inner, given = white[:, self.weights > 0], self.weights > 0
        narrowed = inner + (inner @ self.vectors * (1 / np.sqrt(1 + self.eigenvalues) - 1)) @ self.vectors.T
        points = np.asarray(self.theta) + _following(narrowed, self.weights, self.coupling)
        points[:, ~given] += white[:, ~given] @ self.spread.T
        return points

    def samples(self, n: int, key: PRNGKeyArray, *, constrained: bool = True) -> dict[str, np.ndarray]:
        """Values of every control drawn from the posterior, by path, (n, ...), in its unit.

        They are not linearised: positive transforms give positive samples.

        **Arguments:** `n`, `key`: as in `draws`, and

        - `constrained`: whether states satisfy the constraint of their system, such as zero divergence of a velocity;
          default True.
        """
        values = [values_at(self.functional, jnp.asarray(theta), constrained) for theta in self.draws(n, key)]
        return {c.path: np.stack([x[c.path] for x in values]) for c in self.functional.controls.items if values}

    def __repr__(self) -> str:
        return (
            f"FieldPosterior: {self.degrees_of_freedom:.1f} degrees of freedom in {self.eigenvalues.size} eigenvalues from "
            f"{self.products} products"
        )


def field_posterior(
    functional: AbstractObjective,
    theta: Float[Array, " p"],
    *,
    rank: int = 40,
    tolerance: float = 0.1,
    seed: int = 0,
    sigma_stated: bool = False,
    batch: int = 8,
    products: Products = _PRODUCTS,
    stop: Callable[[int], bool] = lambda _: False,
) -> FieldPosterior:
    """Uncertainty of unknown fields at a least-squares estimate, without a matrix.

    It costs one product with the Gauss-Newton matrix for each eigenpair, and one for each unknown without a prior. A
    product costs about two gradients.

    **Arguments:**

    - `functional`: the objective. A field has `modes`, or a `smoothing` with an amplitude.
    - `theta`: its minimum, (p,).
    - `rank`: the largest number of eigenpairs; default 40. Fewer are computed if more would add hardly anything.
    - `tolerance`: the search ends when the sum of all omitted eigenvalues is below this fraction of the number of those
      found; default 0.1.
    - `seed`: the seed of the random vectors; default 0.
    - `sigma_stated`: whether the standard deviations of the observations were known before the fit; default False. The
      noise is then at least the stated one, otherwise it follows from the residuals. A stated prior amplitude is kept.
    - `batch`: the number of products computed together, in less time and more memory; default 8.
    - `products`: the products J_r^T J_r v of an objective at a point with the rows of an array, (batch, p), for
      drivers; by default one compiled program.
    - `stop`: called with the number of products before each batch. If it returns true, the search ends.
    """
    functional, theta = with_tangents(functional), jnp.asarray(theta)
    stated = functional.controls.roughness_of_theta()
    _check(functional.controls, stated)
    weights = np.where(functional.controls.bounds.free(theta), stated, _EXACT)
    given = weights > 0

    def data(rows: np.ndarray) -> np.ndarray:
        # all batches have one size, so that one program serves them
        cuts = range(0, len(rows), batch)
        padded = (
            jnp.zeros((batch, weights.size)).at[: len(rows[i : i + batch])].set(rows[i : i + batch]) for i in cuts
        )
        images = [np.asarray(products(functional, theta, x)) for x in padded]
        return np.concatenate([np.zeros((0, weights.size)), *images])[: len(rows)] - stated**2 * rows

    # the columns of H that belong to elements without a prior
    columns = data(np.arange(weights.size) == np.flatnonzero(~given)[:, None])
    inverse = determined_inverse(columns[:, ~given])
    if inverse.null.size:
        named = ", ".join(np.asarray(functional.controls.names())[~given])
        raise PdefitError(f"The data do not determine {named} together; give a prior, or observe more")
    coupling = inverse.matrix @ columns[:, given]

    def preconditioned(rows: np.ndarray) -> np.ndarray:
        return data(_following(rows, weights, coupling))[:, given] / weights[given]

    precision = float(jnp.finfo(jax.tree.leaves(functional.problem.y0)[0].dtype).eps)
    found = leading(preconditioned, int(np.sum(given)), rank, tolerance, batch, seed, precision, stop)
    values = np.linalg.eigvalsh(found.factor.T @ found.factor)
    used = float(np.sum(values / (1 + values))) + len(columns)
    noise = _noise(functional, theta, stated, used, sigma_stated)
    # the prior of modes is in units of the noise; a stated amplitude is not
    relative = functional.controls.mask(lambda c: c.has_modes)
    weights = np.where(relative, weights / noise, weights)
    vectors, sizes, _ = scipy.linalg.svd(
        found.factor * np.where(relative[given], 1.0, 1 / noise)[:, None], full_matrices=False
    )
    return FieldPosterior(
        functional=functional,
        theta=theta,
        weights=weights,
        eigenvalues=sizes**2,
        vectors=vectors,
        coupling=coupling,
        spread=noise * inverse.root,
        noise=noise,
        products=found.products + len(columns),
        missing=found.missing * (1.0 if np.all(relative[given]) else noise**-2),
    )


def _following(
    rows: Float[np.ndarray, "n m"], weights: Float[np.ndarray, " p"], coupling: Float[np.ndarray, "k m"]
) -> Float[np.ndarray, "n p"]:
    """Changes of theta, from changes of the elements with a prior in units of its standard deviation.

    The k elements without a prior are adjusted to them.
    """
    whole, given = np.zeros((len(rows), weights.size)), weights > 0
    whole[:, given] = rows / weights[given]
    whole[:, ~given] = -whole[:, given] @ coupling.T
    return whole


def _check(controls: Controls, weights: np.ndarray) -> None:
    """Refuse fields without a prior, which a low rank cannot describe."""
    parts = zip(controls.items, controls.split(jnp.asarray(weights)), strict=True)
    without = [c.path for c, w in parts if c.is_field and not np.any(w > 0)]
    if without or np.all(weights == 0) or np.sum(weights == 0) > FEW:
        raise PdefitError(
            f"The posterior expects a prior of {', '.join(without) or 'at least one field'}; give its smoothing an "
            f"amplitude, or make it of modes and fit it"
        )


def _noise(functional: AbstractObjective, theta: Array, weights: np.ndarray, used: float, sigma_stated: bool) -> float:
    """Size of the noise in units of the stated sigma."""
    misfit = 2 * float(value_of(functional, theta)) - float(np.sum((weights * np.asarray(theta)) ** 2))
    values = functional.observed_values + functional.continuity_values
    noise = float(np.sqrt(max(misfit, 0.0) / max(values - used, 1.0)))
    return max(noise, 1.0) if sigma_stated else max(noise, np.finfo(float).tiny)
