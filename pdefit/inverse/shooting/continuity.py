"""Continuity residuals (gaps between the segments of multiple shooting) and their standard deviations."""

from collections.abc import Callable, Sequence

import jax.numpy as jnp
from jaxtyping import Array, Float

from pdefit._util.errors import PdefitError
from pdefit._util.trees import named_fields
from pdefit.inverse.controls.bound_control import BoundControl
from pdefit.inverse.problem.problem import Problem
from pdefit.inverse.shooting.nodes import node_path
from pdefit.systems.coordinates import FieldCoords

# from a field, its node states at their guess and its coordinates to the standard deviation of a gap
Deviation = Callable[[str, Array, FieldCoords | None], Array]


def continuity_sigma(problem: Problem, free: Sequence[BoundControl], deviation: Deviation) -> dict[str, Array]:
    """Standard deviation of the gap between segments for every free node state, (1, ...), at the guess.

    **Arguments:**

    - `problem`: the problem with its node states.
    - `free`: the controls that are node states.
    - `deviation`: the formulation's function for one field.
    """
    system = problem.system
    coords = system.coords()
    fields = {node_path(problem, n): n for n in named_fields(problem.y0)}

    def one(control: BoundControl) -> Array:
        field = fields[control.path]
        return jnp.broadcast_to(deviation(field, control.where(problem), coords.get(field)), (1, *control.shape[1:]))

    return {c.path: one(c) for c in free}


def deviation(
    continuity: float | dict[str, float], name: str, nodes: Float[Array, "S ..."], where: FieldCoords | None
) -> Float[Array, "..."]:
    """Standard deviation of the gap in one field, in its unit: a stated one, or a fraction of the field's size.

        sigma = continuity * sqrt(mean of nodes^2)

    **Arguments:**

    - `continuity`: the standard deviation of each field by name, or that fraction.
    - `name`, `nodes`, `where`: as in `AbstractFormulation.continuity_sigma`.
    """
    if isinstance(continuity, dict):
        if name not in continuity:
            raise PdefitError(
                f"The node states of '{name}' are free, but continuity names only {', '.join(continuity)}; "
                f"add {name}, or give one number for all fields"
            )
        return jnp.asarray(continuity[name], nodes.dtype)
    # bodies may differ in size by orders of magnitude, so the labels of a first axis are not pooled; cells are
    first_pooled = 2 if where and where.labels and len(where.labels) == nodes.shape[1] else 1
    pooled = tuple(a for a in range(nodes.ndim) if a == 0 or a >= first_pooled)
    size = jnp.sqrt(jnp.mean(nodes**2, axis=pooled, keepdims=True))[0]
    if not bool(jnp.all(size > 0)):
        raise PdefitError(
            f"The node states of '{name}' are zero at their guess, which gives its jumps no scale; "
            f"give continuity as a mapping, e.g. continuity: {{{name}: 1e-6}}"
        )
    return continuity * size


def in_deviations(
    problem: Problem, free: Sequence[BoundControl], sigma: dict[str, Array], segments: int
) -> Float[Array, "S n"]:
    """Free node states of all segments side by side, divided by the standard deviation of a gap.

    **Arguments:**

    - `problem`, `free`: as in `continuity_sigma`.
    - `sigma`: the result of `continuity_sigma`.
    - `segments`: the number S of segments; without free node states n is zero.
    """
    parts = [jnp.reshape(c.where(problem) / sigma[c.path], (segments, -1)) for c in free]
    return jnp.concatenate([jnp.zeros((segments, 0)), *parts], axis=1)


def gaps(ends: Float[Array, "S n"], starts: Float[Array, "S n"]) -> Float[Array, "S n"]:
    """Gap between every segment and the next: its end minus the next start; zero for the last.

    **Arguments:**

    - `ends`, `starts`: the states at both ends of every segment, divided by the standard deviation of a gap.
    """
    return jnp.concatenate([ends[:-1] - starts[1:], jnp.zeros_like(ends[:1])])
