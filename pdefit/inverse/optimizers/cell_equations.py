"""Normal equations of every grid point, in the numbers and in uniform changes of the fields of an initial state."""

from typing import NamedTuple, TypeGuard

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from pdefit.adjoints.tangent.tangents_together import jvp_many
from pdefit.inverse.controls.bound_control import FEW
from pdefit.inverse.controls.theta import Controls
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.objective.normal_equations import Tangents
from pdefit.systems.grid import AbstractGrid

# a damping of one lets an element that the data do not tell move by one over this of its field's size
_REACH = 100.0


class _PointTally(NamedTuple):
    """The sum over observations of products of what moves at each point: (s, K, K, n)."""

    gram: Float[Array, "... K K n"]

    def plus(self, r: PyTree, jac: PyTree) -> "_PointTally":
        gram = self.gram
        for residual, moved in zip(jax.tree.leaves(r), jax.tree.leaves(jac), strict=True):
            if residual.size == gram.shape[-1]:
                rows = jnp.concatenate([moved, residual[None]]).reshape(len(moved) + 1, -1).astype(jnp.float64)
                gram = gram + rows[:, None] * rows[None]
        return _PointTally(gram)


def has_points(functional: object) -> TypeGuard[Functional]:
    """Test for unknowns that have normal equations point by point: numbers and fields of one initial state, all seen there."""
    if not isinstance(functional, Functional) or functional.groups != 1:
        return False
    numbers, fields = functional.controls.without_states, functional.controls.states.items
    gridded = isinstance(getattr(functional.problem.system, "grid", None), AbstractGrid)
    if numbers.size > FEW or not fields or not (gridded or all(c.is_field for c in fields)):
        return False
    if not all(c.kind == "initial" and c.is_plain for c in fields):
        return False
    shapes = {c.shape for c in fields}
    return len(shapes) == 1 and shapes <= {x.shape for x in functional.observed.values()}


def cell_equations(
    functional: Functional, theta: Float[Array, " p"]
) -> tuple[Float[Array, "K K n"], Float[Array, "l l"]]:
    """Products of residuals and derivatives of every cell, and of the residuals of numbers alone.

    There is one tangent for each of k numbers and f fields, which change everywhere alike. Rows and columns are numbers,
    fields, and the residual itself. Priors of fields count with the cells.

    **Arguments:**

    - `functional`: one for which `has_points`.
    - `theta`: the point, (p,).
    """
    numbers, fields = functional.controls.without_states, functional.controls.states.items
    k, n = numbers.size, fields[0].size
    seeds = np.zeros((k + len(fields), theta.size))
    seeds[:k, :k] = np.eye(k)
    for i in range(len(fields)):
        seeds[k + i, k + i * n : k + (i + 1) * n] = 1
    owners = tuple(Controls((c,)) for c in numbers.items for _ in range(c.size))
    owners += tuple(Controls((c,)) for c in fields)
    size = len(seeds) + 1
    tangents = Tangents(functional, theta, jnp.asarray(seeds), owners)
    state = tangents.start(_PointTally(jnp.zeros((1, size, size, n))))
    gram = tangents.advance(state, functional.schedule).total.gram[0]
    extra, moved = jvp_many(functional.extra_residuals, (theta,), (jnp.asarray(seeds),))
    of_cells = [r.size == n for r in extra]
    points = [[x for x, here in zip(part, of_cells, strict=True) if here] for part in (extra, moved)]
    gram = _PointTally(gram).plus(*points).gram
    corner = jnp.zeros((k + 1, k + 1))
    for r, jac, here in zip(extra, moved, of_cells, strict=True):
        if not here:
            rows = jnp.concatenate([jac[:k], r[None]]).reshape(k + 1, -1)
            corner = corner + rows @ rows.T
    return gram, corner


def restraint(functional: Functional, theta: Float[Array, " p"]) -> Float[Array, "n f"]:
    """The curvature at which a damping of one lets an element of a field move by a hundredth of the field's size.

    Marquardt's damping is a part of the curvature that the data give. Of an element that they do not tell this is
    nothing, and it would go anywhere.

    **Arguments:** as of `cell_equations`.
    """
    k, f = functional.controls.without_states.size, len(functional.controls.states.items)
    return (_REACH / functional.controls.sizes(theta)[k:].reshape(f, -1).T) ** 2
