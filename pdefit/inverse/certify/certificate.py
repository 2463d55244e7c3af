"""The certificate: recorded evidence that a fit's derivatives are right, on its own equations, data and controls."""

import dataclasses
import time
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from pdefit.inverse.certify._certified import Certified, Used
from pdefit.inverse.certify._certified import NormalEquations as NormalEquations
from pdefit.inverse.certify._record import Certificate as Certificate
from pdefit.inverse.certify._record import Check, at_most, over
from pdefit.inverse.certify._residual_checks import against_differences, of_steps
from pdefit.inverse.certify._smooth_checks import smooth_checks
from pdefit.inverse.certify._use_checks import (
    gradient_of_the_run,
    influence,
    normal_equations_of_the_run,
    products_of_the_run,
    single_precision,
)
from pdefit.inverse.controls.bound_control import FEW
from pdefit.inverse.fit.drivers import AbstractDriver, Traced
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.objective.fingerprint import fingerprint
from pdefit.inverse.objective.smooth_tangents import smoothed
from pdefit.inverse.objective.variants import shortened
from pdefit.inverse.optimizers.base import AbstractOptimizer


def each_control(subject: Certified) -> list[Check]:
    """Checks of tangent against differences, and adjoint against tangent, for each control separately.

    If all controls were tested together on more of the record, these checks only name the failing control.
    """
    if not subject.one_by_one and subject.together.passed:
        return []
    residuals, checks = subject.short, []
    elements = residuals.objective.controls.elements
    # one control, tested on the whole record: the direction over all controls is its own
    alone = subject.one_by_one and len(elements) == 1 and residuals is subject.residuals and residuals.moved is not None
    by_adjoint = subject.used.gradient or residuals.moved is None
    pulled = residuals.random_pull(jax.random.fold_in(subject.key, 2)) if by_adjoint else None
    for path, moved in elements.items():
        v = jax.device_put(np.where(moved, residuals.v, 0.0))
        if alone:
            tangent = residuals.moved
            checks.append(dataclasses.replace(subject.together, name=f"{path}: tangent against differences"))
        else:
            tangent = residuals.tangent(v)
            checks.append(against_differences(residuals, path, v, tangent, pulled))
        if pulled is not None and tangent is not None:
            w, gradient = pulled
            answer = tangent.scaled(residuals.sizes)
            # relative to the size that a random w gives it
            gap = over(abs(float(np.vdot(gradient, v)) - float(np.vdot(w, answer))), float(np.linalg.norm(answer)))
            remedy = subject.remedy("the adjoint is wrong: compare with adjoint=store_all")
            limit = residuals.limit(residuals.objective.runner.adjoint.accuracy)
            if gap > limit:
                limit = max(limit, of_steps(residuals, v, tangent))
            checks.append(at_most(f"{path}: gradient against tangent", gap, limit, remedy))
    return checks


def smooth_twin(subject: Certified) -> list[Check]:
    """Checks of the smooth tangents of hard switches against the change of the residuals."""
    if not subject.has_twin:
        return []
    return smooth_checks(*shortened(subject.objective, subject.theta, subject.scope["observations"]))


# all checks in their order; the limit and the remedy of each are in its function
CHECKS: tuple[Callable[[Certified], list[Check]], ...] = (
    lambda subject: [subject.together],
    gradient_of_the_run,
    normal_equations_of_the_run,
    products_of_the_run,
    influence,
    single_precision,
    each_control,
    smooth_twin,
)


def certify(
    objective: AbstractObjective,
    theta: Float[Array, " p"],
    *,
    key: PRNGKeyArray | None = None,
    fit_cost: float = 0.0,
    optimizers: Sequence[AbstractOptimizer] | None = None,
    driver: AbstractDriver | None = None,
    equations: NormalEquations | None = None,
) -> Certificate:
    """Tests of the derivatives of a fit at its start or its end.

    On the whole record, along a random direction v over all controls, the tangent J_r v of the residuals r(theta) is
    compared with central differences. The gradient, the Gauss-Newton products and the normal equations that the
    `driver` computes for the `optimizers` are compared with tangents. On as much of the record as the budget allows,
    each control is tested separately: tangent against differences, adjoint against tangent. No control may be without
    influence.

    All tests run in float64. A float32 run is certified on its float64 twin and compared with it.

    **Arguments:**

    - `objective`: the minimised objective, a `Functional` or `Recordings`.
    - `theta`: the point, (p,).
    - `key`: the key of random directions and errors; default `jax.random.key(0)`.
    - `fit_cost`: the cost of the fit in forward solves, default 0. The tests of every control may take 5 % of it, or
      20.
    - `optimizers`: the optimizers of the fit; by default all kinds of derivatives are tested.
    - `driver`: the driver of the fit; default `Traced()`.
    - `equations`: J, its gradient (p,) and the Gauss-Newton matrix (p, p) that a fit by normal equations has at theta.
      They are tested instead of new ones. Near a minimum, where gradients vanish, a wrong factor of the gradient goes
      unnoticed: give them only if the guess was certified.
    """
    begin = time.perf_counter()
    theta, tested = jnp.asarray(theta, jnp.float64), objective
    if any(part.smooth_tangents for part, _ in objective.parts(theta)):
        # tangents are those of the smooth twin, which is tested first
        tested, _ = objective.each(lambda part, own: (smoothed(part), own), theta)
    key = jax.random.key(0) if key is None else key
    if optimizers is None:
        tangents = objective.runner.adjoint.has_tangents
        kinds = True, tangents, tangents and objective.controls.size <= FEW
    else:
        by_tangents, products = any(o.tangents for o in optimizers), any(o.most_products > 0 for o in optimizers)
        kinds = any(not o.tangents for o in optimizers), products, by_tangents
    subject = Certified(objective, tested, theta, key, Used(*kinds, driver or Traced(), equations), fit_cost)
    if subject.residuals.finite:
        checks = [found for check in CHECKS for found in check(subject)]
    else:
        remedy = "the model blows up there; use a smaller dt, a better guess, or shorter segments"
        checks = [Check("finite residuals", float("inf"), 0.0, False, remedy)]
    return Certificate(tuple(checks), subject.scope, fingerprint(objective), time.perf_counter() - begin)
