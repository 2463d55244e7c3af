"""The certificate: recorded evidence that the derivatives a fit uses are right, on its own equations, data and controls."""

import math
import time
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from pdefit._util.trees import cast
from pdefit.inverse.certify.record import Certificate as Certificate
from pdefit.inverse.certify.record import Check, at_most, over
from pdefit.inverse.certify.residual_checks import Residuals
from pdefit.inverse.certify.smooth_checks import smooth_checks
from pdefit.inverse.certify.taylor import direction
from pdefit.inverse.certify.use_checks import Used, use_checks
from pdefit.inverse.fit.drivers import AbstractDriver, Traced
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.objective.fingerprint import fingerprint
from pdefit.inverse.objective.smooth_tangents import smoothed
from pdefit.inverse.objective.variants import shortened
from pdefit.inverse.optimizers.base import AbstractOptimizer

# Forward solves that the tests of every control may cost whatever the fit costs; the part of the fit beyond; and the values
# that may be updated where a forward solve is small (about a second).
SOLVES, SHARE, UPDATES = 20.0, 0.05, 2e8
# in forward solves: a product with the adjoint, a tangent, the differences of one direction
_GRADIENT, _TANGENT, _DIFFERENCES = 5.0, 2.0, 18.0
# values below which a step costs no less
_SMALL_STATE = 1000


def certify(
    objective: AbstractObjective,
    theta: Float[Array, " p"],
    *,
    key: PRNGKeyArray | None = None,
    fit_cost: float = 0.0,
    optimizers: Sequence[AbstractOptimizer] | None = None,
    driver: AbstractDriver | None = None,
) -> Certificate:
    """Test the derivatives of a fit where it is about to start, or has ended.

    On the whole record, along a random direction v over all controls: the tangent J_r v of the residuals r(theta) against
    central differences; then the gradient, the Gauss-Newton products and the normal equations that the `driver` gives to the
    `optimizers`, against tangents. On as much of the record as the budget allows, for every control by itself: tangent against
    differences, adjoint against tangent. No control may be without influence. All is done in float64; a float32 run is
    certified on its float64 twin and compared with it.

    **Arguments:**

    - `objective`, `theta`: what is minimised, and where
    - `key`: draws directions and errors
    - `fit_cost`: what the fit may take, in forward solves. The tests of every control may take 5 % of it, or 20
    - `optimizers`: those of the fit; without them all kinds of derivatives are tested
    - `driver`: who evaluates in the fit (default: `Traced()`)
    """
    begin = time.perf_counter()
    key = jax.random.key(0) if key is None else key
    theta, used = jnp.asarray(theta, jnp.float64), Used.by(optimizers, objective)
    tested = objective
    if any(part.smooth_tangents for part, _ in objective.parts(theta)):
        # tangents are those of the smooth twin, which is tested first
        tested, _ = objective.each(lambda part, own: (smoothed(part), own), theta)
    checks, scope = _checks(tested, theta, key, fit_cost, used, driver or Traced())
    if tested is not objective:
        checks += smooth_checks(*shortened(objective, theta, scope["observations"]))
    return Certificate(tuple(checks), scope, fingerprint(objective), time.perf_counter() - begin)


def _checks(
    objective: AbstractObjective, theta: Array, key: PRNGKeyArray, fit_cost: float, used: Used, driver: AbstractDriver
) -> tuple[list[Check], dict[str, Any]]:
    """All comparisons, and on how much of the record."""
    whole = cast(objective, jnp.float64)
    single = objective if _is_single(objective) else None
    scope = _scope(whole, fit_cost)
    residuals = Residuals(whole, theta, direction(whole.controls, theta, jax.random.fold_in(key, 1)))
    if not residuals.finite:
        remedy = "the model blows up there; use a smaller dt, a better guess, or shorter segments"
        return [Check("finite residuals", float("inf"), 0.0, False, remedy)], scope
    if residuals.moved is None:
        used = used.without_tangents()
    checks = [residuals.differences("all controls", residuals.v, residuals.moved)]
    checks += use_checks(whole, theta, residuals, key, used, driver, single)
    part, own = shortened(whole, theta, scope["observations"])
    if part is not whole:
        residuals = Residuals(part, own, direction(part.controls, own, jax.random.fold_in(key, 1)))
    return checks + _each_control(residuals, jax.random.fold_in(key, 2), used), scope


def _is_single(objective: AbstractObjective) -> bool:
    return any(x.dtype == jnp.float32 for x in jax.tree.leaves(objective.problem) if eqx.is_array(x))


def _each_control(residuals: Residuals, key: PRNGKeyArray, used: Used) -> list[Check]:
    """Tangent against differences, and adjoint against tangent, for every control by itself."""
    elements, checks = residuals.objective.controls.elements, []
    pulled = residuals.random_pull(key) if used.gradient or residuals.moved is None else None
    for path, moved in elements.items():
        v = jnp.where(moved, residuals.v, 0.0)
        tangent = residuals.tangent(v)
        checks.append(residuals.differences(path, v, tangent, pulled))
        if pulled is not None and tangent is not None:
            w, gradient = pulled
            answer = tangent.scaled(residuals.sizes)
            # in units of what random w make of it
            gap = over(abs(float(jnp.vdot(gradient, v) - jnp.vdot(w, answer))), float(jnp.linalg.norm(answer)))
            remedy = "the adjoint is wrong: compare with adjoint=store_all"
            limit = residuals.limit(residuals.objective.runner.adjoint.accuracy)
            checks.append(at_most(f"{path}: gradient against tangent", gap, limit, remedy))
    return checks


def _scope(objective: AbstractObjective, fit_cost: float) -> dict[str, Any]:
    """How much of the record the tests of every control may take."""
    single, total = len(objective.controls.elements), objective.observations.ts.shape[-1]
    budget = max(SOLVES, SHARE * fit_cost, UPDATES / _updates(objective))
    cost = _GRADIENT + single * (_TANGENT + _DIFFERENCES)
    count = total if cost <= budget else max(2, math.ceil(total * budget / cost))
    if objective.controls.nodes:
        # each window's start is a control of its own: none may be left out
        count = total
    return {"observations": count, "of": total, "forward_solves": cost, "budget": budget}


def _updates(objective: AbstractObjective) -> float:
    """Values that one forward solve updates, about."""
    found = 0.0
    for part, _ in objective.parts(objective.theta0):
        values = sum(x.size for x in jax.tree.leaves(part.problem.y0))
        found += part.layout.time_grid.steps * max(values, _SMALL_STATE)
    return found
