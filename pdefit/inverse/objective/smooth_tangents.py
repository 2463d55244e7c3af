"""Exact residuals with smooth tangents, for equations with hard switches.

A derivative does not contain a hard switch. A smooth model fitted to data of a hard one is biased: by a quarter, with
switches as wide as gradients need them. So residuals come from the hard system. The tangents J of Gauss-Newton come
from the smooth system linearised along the hard trajectory. If the residuals r can vanish, nothing is lost. If they
cannot, the fit ends at J^T r = 0, which is not exactly the minimum of |r|^2. `inexact_bias` estimates the difference.
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pdefit._util.errors import PdefitError
from pdefit.inverse.linear.determined_inverse import determined_inverse
from pdefit.inverse.objective.compiled import normal_equations, value_of
from pdefit.inverse.objective.record_residuals import AbstractRecord
from pdefit.inverse.problem.problem import Problem
from pdefit.systems.capabilities import AbstractSwitched
from pdefit.systems.system import AbstractSystem


def check_switches(system: AbstractSystem, smooth_tangents: bool) -> None:
    """Refuse smooth tangents if there is no hard switch to replace."""
    if smooth_tangents and not (isinstance(system, AbstractSwitched) and not system.is_smooth):
        raise PdefitError(
            f"smooth_tangents expects a system with hard switches and a smooth twin, which {type(system).__name__} is not "
            f"here; set smooth_tangents=false, or make its switches hard (is_smooth: false)"
        )


def _twin(system: AbstractSystem) -> AbstractSystem:
    """The smooth twin of a system with hard switches."""
    assert isinstance(system, AbstractSwitched)
    return system.smoothed()


def followed(functional: AbstractRecord, theta: Float[Array, " p"]) -> Problem:
    """The problem for tangents: the problem at theta, or its smooth twin with `smooth_tangents`."""
    problem = functional.at(theta)
    if not functional.smooth_tangents:
        return problem
    return eqx.tree_at(lambda p: p.system, problem, _twin(problem.system))


def smoothed(functional: AbstractRecord) -> AbstractRecord:
    """The functional with smooth residuals too, whose exact derivative is its smooth tangents."""
    return eqx.tree_at(
        lambda f: (f.problem.system, f.smooth_tangents), functional, (_twin(functional.problem.system), False)
    )


def difference_gradient(functional: AbstractRecord, theta: Float[Array, " p"], steps: np.ndarray) -> np.ndarray:
    """Gradient dJ/dtheta of the exact residuals by central differences: 2 p forward runs.

    **Arguments:**

    - `functional`: the objective of one record.
    - `theta`: the point, (p,).
    - `steps`: the step of each element, (p,).
    """

    def slope(k: int) -> float:
        e = jnp.zeros(theta.size).at[k].set(steps[k])
        return float(value_of(functional, theta + e) - value_of(functional, theta - e)) / (2 * float(steps[k]))

    return np.asarray([slope(k) for k in range(theta.size)])


def inexact_bias(functional: AbstractRecord, theta: Float[Array, " p"]) -> np.ndarray:
    """Distance between an estimate with smooth tangents and the minimum of J, in search space, (p,).

    It is one Gauss-Newton step with the gradient by differences, -A^-1 dJ/dtheta. Steps are a third of a standard
    error, so that switches that cross between instants of a trajectory average out.

    **Arguments:**

    - `functional`: the functional with smooth tangents.
    - `theta`: the estimate, (p,).
    """
    value, _, matrix = normal_equations(functional, theta)
    free = functional.controls.bounds.free(theta)
    inverse = determined_inverse(np.asarray(matrix), free).matrix
    deviation = jnp.sqrt(2 * value / max(functional.observed_values - np.count_nonzero(free), 1))
    steps = np.clip(np.asarray(deviation) * np.sqrt(np.diag(inverse)) / 3, 1e-6, 1e-2)
    # what is at a bound stays there
    return -inverse @ difference_gradient(functional, theta, steps)
