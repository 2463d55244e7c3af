"""Sketches of residuals: a few random sums that preserve norms, accumulated along the trajectories."""

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from pdefit.inverse.objective.abstract import AbstractObjective, objective_program
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.objective.recordings import Recordings
from pdefit.inverse.objective.spread import at_points
from pdefit.inverse.objective.variants import with_tangents
from pdefit.inverse.shooting.continuity import gaps

# numbers that are kept of one variable at one observation
KEPT = 8


class Sketch(NamedTuple):
    """Random sums of the residuals of an objective, by kind, and J.

    A sum of many residuals with random signs has the norm of those residuals in expectation, and so has its derivative.
    So a record of any size is compared with its differences in the memory of a few numbers for each observation.

    **Arguments:**

    - `kinds`: the sums for each observed variable, each control with gaps between segments, each regularizer and each
      prior.
    - `half_square`: J.
    - `change`: J again, with |J_r v|^2 as its derivative along v, in forward mode only.
    """

    kinds: tuple[Float[Array | np.ndarray, " _"], ...]
    half_square: Float[Array | np.ndarray, ""]
    change: Float[Array | np.ndarray, ""]

    def scaled(self, sizes: tuple[float, ...]) -> Float[np.ndarray, " M"]:
        """All sums in one vector, each kind divided by its size."""
        return np.concatenate([np.zeros(0), *(np.asarray(k) / s for k, s in zip(self.kinds, sizes, strict=True))])

    def sizes(self) -> tuple[float, ...]:
        """The root mean square of each kind; 1 for a kind that vanishes."""
        level = (float(np.sqrt(np.mean(np.square(k)))) if k.size else 0.0 for k in self.kinds)
        return tuple(x if x > 0 else 1.0 for x in level)

    def cotangent(self, w: Float[np.ndarray, " M"], sizes: tuple[float, ...]) -> "Sketch":
        """Cotangent of a sketch of these shapes that corresponds to the cotangent `w` of `scaled`."""
        parts = np.split(w, np.cumsum([k.size for k in self.kinds])[:-1])
        kinds = tuple(jnp.asarray(part / s) for part, s in zip(parts, sizes, strict=True))
        return Sketch(kinds, jnp.zeros(()), jnp.zeros(()))


def _half_square(residuals: PyTree) -> Float[Array, ""]:
    return sum((jnp.sum(r.astype(jnp.float64) ** 2) for r in jax.tree.leaves(residuals)), start=jnp.zeros(())) / 2


_change = jax.custom_jvp(_half_square)
# no derivative of a function, but what forward mode sums up along the trajectories
_change.defjvp(lambda primals, tangents: (_half_square(*primals), 2 * _half_square(*tangents)))


def sketch(
    objective: AbstractObjective, theta: Float[Array, " p"], change: Callable[[PyTree], Array] = _change
) -> Sketch:
    """Sketch of the residuals of an objective at theta."""
    one = functools.partial(_one, change=change)
    if isinstance(objective, Functional):
        return one(objective, theta)
    assert isinstance(objective, Recordings)
    each, *sums = objective.each_stacked(one, theta)
    extra = objective.extra_residuals(theta)
    kinds = (*(jnp.ravel(k) for k in each), jnp.concatenate([jnp.zeros(0), extra]))
    return Sketch(kinds, jnp.sum(sums[0]) + _half_square(extra), jnp.sum(sums[1]) + change(extra))


def signs(functional: Functional) -> dict[str, Array]:
    """The random signs of the residuals of one observation, by variable."""
    return {
        name: jax.random.rademacher(jax.random.fold_in(jax.random.key(0), i), like.shape, jnp.float64)
        for i, (name, like) in enumerate(functional.observed.items())
    }


def _one(functional: Functional, theta: Float[Array, " p"], change: Callable[[PyTree], Array]) -> Sketch:
    observed, drawn = functional.observed, signs(functional)

    def sums_of(residuals: dict[str, Array]) -> tuple[dict[str, Array], Array, Array]:
        exact = {name: r.astype(jnp.float64) for name, r in residuals.items()}
        return {name: few_sums(r * drawn[name]) for name, r in exact.items()}, _half_square(exact), change(exact)

    (sums, half_squares, changes), ends = functional.trajectories(theta, sums_of)
    between = gaps(*functional.ends_and_starts(theta, ends)).astype(jnp.float64)
    sizes = [c.size // c.shape[0] for c in functional.controls.nodes]
    edges = [sum(sizes[:k]) for k in range(len(sizes) + 1)]
    extra = functional.extra_residuals(theta)
    kinds = [
        *(sums[name] for name in observed),
        *(between[:, a:b] for a, b in zip(edges[:-1], edges[1:], strict=True)),
        *extra,
    ]
    rest = [between, *extra]
    half_square = jnp.sum(half_squares) + _half_square(rest)
    return Sketch(tuple(map(jnp.ravel, kinds)), half_square, jnp.sum(changes) + change(rest))


def few_sums(x: Any, lead: int = 0) -> Any:
    """A few sums of far-apart elements, over all axes after the leading ones."""
    module = np if isinstance(x, np.ndarray) else jnp
    flat = x.reshape(*x.shape[:lead], -1)
    count = min(flat.shape[-1], KEPT)
    padded = module.pad(flat, [(0, 0)] * lead + [(0, -flat.shape[-1] % count)])
    return module.sum(padded.reshape(*x.shape[:lead], -1, count), axis=-2)


def _push(objective: AbstractObjective, theta: Float[Array, " p"], v: Float[Array, " p"]) -> tuple[Sketch, Sketch]:
    return jax.jvp(lambda x: sketch(objective, x), (theta,), (v,))


def _pull(objective: AbstractObjective, theta: Float[Array, " p"], cotangent: Sketch) -> Float[Array, " p"]:
    return jax.vjp(lambda x: sketch(objective, x, _half_square), theta)[1](cotangent)[0]


SKETCH = objective_program(sketch)
# the sketch and its derivative along v, by forward mode; and the derivative of <cotangent, sketch> by the adjoint
push_sketch, pull_sketch = objective_program(_push), objective_program(_pull)


class Sketched:
    """Sketches of residuals and of their tangents, accumulated along the trajectories."""

    def signs(self, objective: AbstractObjective) -> dict[str, Array]:
        """The random signs of the residuals of one observation, by variable."""
        return signs(objective.parts(objective.theta0)[0][0])

    def at(self, objective: AbstractObjective, theta: Array) -> Sketch:
        """Sketch of the residuals at theta."""
        return jax.device_get(SKETCH(objective, theta))

    def each(self, objective: AbstractObjective, points: Sequence[Array]) -> Iterator[Sketch]:
        """Sketches at several points, on cores that trajectories leave idle."""
        return at_points(SKETCH, objective, points)

    def push(self, objective: AbstractObjective, theta: Array, v: Array) -> tuple[Sketch, Sketch] | None:
        """Sketch at theta and its derivative along v; None if a reverse rule hides it."""
        try:
            # numbers, because each operation of JAX on an own shape would be a program
            return jax.device_get(push_sketch(with_tangents(objective), theta, v))
        except TypeError:
            # an adjoint, or equations, with a reverse rule of their own
            return None
