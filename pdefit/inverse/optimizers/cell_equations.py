"""Normal equations of every grid point, in the scalars and in uniform changes of the fields of an initial state."""

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
    """Sums over observations of products of derivatives and residuals at each point, (s, K, K, n)."""

    gram: Float[Array, "... K K n"]

    def plus(self, r: PyTree, jac: PyTree) -> "_PointTally":
        gram = self.gram
        for residual, moved in zip(jax.tree.leaves(r), jax.tree.leaves(jac), strict=True):
            if residual.size == gram.shape[-1]:
                rows = jnp.concatenate([moved, residual[None]]).reshape(len(moved) + 1, -1).astype(jnp.float64)
                gram = gram + rows[:, None] * rows[None]
        return _PointTally(gram)


def has_points(functional: object) -> TypeGuard[Functional]:
    """True if the unknowns are scalars and fields of one initial state, all observed on the grid."""
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
    """Products of residuals and derivatives of every cell, and of the residuals of scalars alone.

    There is one tangent for each of k scalars and f fields, which change uniformly in space. Rows and columns are
    scalars, fields, and the residual itself. Priors of fields count with the cells.

    **Arguments:**

    - `functional`: a functional for which `has_points` is true.
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
    """Curvature at which a damping of one lets an element of a field move by a hundredth of the field's size.

    Marquardt's damping is a fraction of the curvature from the data. For an element that they do not determine this is
    zero, and the element would be unlimited.

    **Arguments:** as in `cell_equations`.
    """
    k, f = functional.controls.without_states.size, len(functional.controls.states.items)
    return (_REACH / functional.controls.sizes(theta)[k:].reshape(f, -1).T) ** 2
