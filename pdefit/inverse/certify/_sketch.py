"""Sketches of residuals: few random sums that keep norms, gathered while the trajectories run."""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.objective.recordings import Recordings
from pdefit.inverse.shooting.continuity import gaps

# numbers that are kept of one variable at one observation
KEPT = 8


class Sketch(NamedTuple):
    """Random sums of the residuals of an objective, by kind, and J.

    A sum of many residuals with random signs has the norm of those residuals on average, and so has its derivative. So
    a record of any size is compared with its differences in the memory of a few numbers an observation.

    **Arguments:**

    - `kinds`: the sums for each observed variable, each control with gaps between segments, each regularizer and each
      prior.
    - `half_square`: J.
    """

    kinds: tuple[Float[Array, " _"], ...]
    half_square: Float[Array, ""]

    def scaled(self, sizes: tuple[Float[Array, ""], ...]) -> Float[Array, " M"]:
        """All sums in one vector, each kind divided by its size."""
        return jnp.concatenate([jnp.zeros(0), *(k / s for k, s in zip(self.kinds, sizes, strict=True))])

    def sizes(self) -> tuple[Float[Array, ""], ...]:
        """The root mean square of each kind; 1 for a kind that vanishes."""
        level = (jnp.sqrt(jnp.mean(jnp.square(k))) if k.size else jnp.zeros(()) for k in self.kinds)
        return tuple(jnp.where(x > 0, x, 1.0) for x in level)


def sketch(objective: AbstractObjective, theta: Float[Array, " p"]) -> Sketch:
    """The sketch of the residuals of an objective at theta."""
    if isinstance(objective, Functional):
        return _one(objective, theta)
    assert isinstance(objective, Recordings)
    each, half_squares = objective.each_stacked(_one, theta)
    extra = objective.extra_residuals(theta)
    kinds = (*(jnp.ravel(k) for k in each), jnp.concatenate([jnp.zeros(0), extra]))
    return Sketch(kinds, jnp.sum(half_squares) + jnp.sum(extra**2) / 2)


def _one(functional: Functional, theta: Float[Array, " p"]) -> Sketch:
    observed = functional.observed
    signs = {
        name: jax.random.rademacher(jax.random.fold_in(jax.random.key(0), i), like.shape, jnp.float64)
        for i, (name, like) in enumerate(observed.items())
    }

    def look(residuals: dict[str, Array]) -> tuple[dict[str, Array], Array]:
        exact = {name: r.astype(jnp.float64) for name, r in residuals.items()}
        squares = sum((jnp.sum(r**2) for r in exact.values()), start=jnp.zeros(()))
        return {name: _few(r * signs[name]) for name, r in exact.items()}, squares / 2

    (sums, half_squares), ends = functional.trajectories(theta, look)
    between = gaps(*functional.ends_and_starts(theta, ends)).astype(jnp.float64)
    sizes = [c.size // c.shape[0] for c in functional.controls.nodes]
    edges = [sum(sizes[:k]) for k in range(len(sizes) + 1)]
    extra = functional.extra_residuals(theta)
    kinds = [
        *(sums[name] for name in observed),
        *(between[:, a:b] for a, b in zip(edges[:-1], edges[1:], strict=True)),
        *extra,
    ]
    rest = sum((jnp.sum(x.astype(jnp.float64) ** 2) for x in (between, *extra)), start=jnp.zeros(()))
    return Sketch(tuple(map(jnp.ravel, kinds)), jnp.sum(half_squares) + rest / 2)


def _few(x: Float[Array, "..."]) -> Float[Array, " k"]:
    """A few sums of elements that lie far apart."""
    flat = jnp.ravel(x)
    count = min(flat.size, KEPT)
    return jnp.sum(jnp.pad(flat, (0, -flat.size % count)).reshape(-1, count), axis=0)


SKETCH: Callable = eqx.filter_jit(sketch)


@eqx.filter_jit
def push_sketch(
    objective: AbstractObjective, theta: Float[Array, " p"], v: Float[Array, " p"]
) -> tuple[Sketch, Sketch]:
    """The sketch and its derivative along v, by forward mode."""
    return jax.jvp(lambda x: sketch(objective, x), (theta,), (v,))


@eqx.filter_jit
def pull_sketch(objective: AbstractObjective, theta: Float[Array, " p"], cotangent: Sketch) -> Float[Array, " p"]:
    """The derivative of <cotangent, sketch> by the adjoint."""
    return jax.vjp(lambda x: sketch(objective, x), theta)[1](cotangent)[0]
