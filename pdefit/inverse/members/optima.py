"""Distinct optima of many fits of one objective."""

import dataclasses

import numpy as np
from jaxtyping import Float, Int


@dataclasses.dataclass(frozen=True)
class Optima:
    """The distinct optima reached by the fits of one objective.

    **Arguments:**

    - `label`: for each fit the index of its optimum, from 0 for the lowest J; -1 if there is none.
    - `reached`: the number of fits that reached each optimum.
    - `best`: for each optimum the fit with the lowest J.
    """

    label: Int[np.ndarray, " E"]
    reached: Int[np.ndarray, " o"]
    best: Int[np.ndarray, " o"]


# two fits are at one optimum when they are nearer than this, in standard errors or as a part of every control
_NEAR, _SAME = 1.0, 1e-3


def find_optima(
    theta: Float[np.ndarray, "E p"],
    loss: Float[np.ndarray, " E"],
    matrix: Float[np.ndarray, "E p p"] | None,
    sizes: Float[np.ndarray, " p"],
    values: int,
) -> Optima:
    """Distinct optima of several fits, separated by their distance in standard errors.

    Two fits are at one optimum if their difference in the metric of the matrix is at most a standard error on average,
    or if no unknown differs by more than a thousandth of its size. Without a matrix, they are if J agrees to a
    thousandth.

    **Arguments:**

    - `theta`, `loss`: the end points of the fits, and J there; not finite for fits that do not count.
    - `matrix`: J_r^T J_r there; None for many unknowns.
    - `sizes`: the step in each element of theta that changes its control by the control's own magnitude, (p,).
    - `values`: the number of residuals.
    """
    label, best = np.full(len(theta), -1), list[int]()
    for e in np.argsort(loss, kind="stable"):
        if not np.isfinite(loss[e]):
            continue
        for k, b in enumerate(best):
            if _alike(theta[e] - theta[b], loss[[e, b]], None if matrix is None else matrix[b], sizes, values):
                label[e] = k
                break
        else:
            label[e] = len(best)
            best.append(int(e))
    return Optima(label, np.bincount(label[label >= 0], minlength=len(best)), np.array(best, int))


def _alike(step: np.ndarray, losses: np.ndarray, matrix: np.ndarray | None, sizes: np.ndarray, values: int) -> bool:
    if matrix is None:
        return bool(losses[0] - losses[1] <= _SAME * losses[1])
    if np.all(np.abs(step) <= _SAME * sizes):
        return True
    variance = max(2 * losses[1] / max(values - step.size, 1), np.finfo(float).tiny)
    return bool(step @ matrix @ step <= _NEAR**2 * variance * step.size)
