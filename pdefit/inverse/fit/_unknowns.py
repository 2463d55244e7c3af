"""The unknowns that each variable determines, by which its residuals are smaller than its noise."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy import linalg

from pdefit.integrate.loop.batch import on_one_device
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.objective.compiled import EQUATIONS
from pdefit.inverse.objective.variants import with_tangents

# tangents, and unknowns, beyond which the matrix of each variable takes longer than a fit by gradients
_MOST_TANGENTS, _MOST = 200, 2000


def unknowns_by_variable(objective: AbstractObjective, theta: Float[Array, " p"]) -> list[dict[str, float]]:
    """The trace of the hat matrix over the values of each variable, for each recording.

        t_v = tr(A^-1 J_v^T J_v),    A = J_r^T J_r

    J_v is the Jacobian of the weighted residuals of variable v, and A the Gauss-Newton matrix of all residuals, those of
    priors included. So all t_v add up to the number of unknowns that the data determine: a shared unknown counts once,
    and an unknown that one variable alone depends on counts there. With more than 200 tangents the matrices are too
    dear, and each variable has a share of the unknowns in proportion to its values.

    **Arguments:**

    - `objective`, `theta`: the objective, and the point, (p,).

    Source: H. D. Patterson, R. Thompson, Biometrika 58:545 (1971), doi:10.1093/biomet/58.3.545: the residuals of v have
    the expected sum of squares sigma_v^2 (n_v - t_v).
    """
    parts = objective.parts(theta)
    counts = [{n: int(np.sum(part.fitted(n))) for n in part.observed} for part, _ in parts]
    if objective.tangents > _MOST_TANGENTS or theta.size > _MOST:
        total, each = sum(sum(of.values()) for of in counts), []
        for (part, own), of in zip(parts, counts, strict=True):
            shared = sum(c.size for c in part.controls.items if not c.own)
            rate = shared / max(total, 1) + (own.size - shared) / max(sum(of.values()), 1)
            each.append({n: rate * count for n, count in of.items()})
        return each
    objective = with_tangents(objective)
    found, (_, _, matrix) = on_one_device(EQUATIONS(objective, theta))
    groups, matrix = found.joined(), np.asarray(matrix)
    size = np.sqrt(np.where(np.diag(matrix) > 0, np.diag(matrix), 1.0))
    inverse = jnp.asarray(linalg.pinvh(matrix / np.outer(size, size)) / np.outer(size, size))
    # what a gauge holds lies beyond theta
    own = inverse.at[groups.columns[:, :, None], groups.columns[:, None, :]].get(mode="fill", fill_value=0.0)
    traces = {}
    for name in counts[0]:
        # an infinite sigma leaves the variable out
        blind = objective.reweighted({name: np.full_like(objective.observations.sigma[name], np.inf)})
        change = groups.matrix - on_one_device(EQUATIONS(blind, theta))[0].joined().matrix
        traces[name] = np.asarray(jnp.sum(own * change, axis=(1, 2))).reshape(len(parts), -1).sum(axis=1)
    return [{n: float(trace[e]) for n, trace in traces.items()} for e in range(len(parts))]
