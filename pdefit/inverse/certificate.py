"""The certificate: recorded evidence that the gradient of a fit is right, on the fit's own equations, data and controls."""

import dataclasses
import time
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from pdefit.arrays.trees import cast
from pdefit.integrate.adjoint import ROUND_OFF, StoreAll
from pdefit.integrate.plan import beginning
from pdefit.inverse.checks import Certificate as Certificate
from pdefit.inverse.checks import Check
from pdefit.inverse.compiled import GRADIENT, NORMAL, RESIDUALS
from pdefit.inverse.controls import FEW
from pdefit.inverse.cost import state_bytes
from pdefit.inverse.drivers import AbstractDriver, Hosted
from pdefit.inverse.fingerprint import fingerprint
from pdefit.inverse.functional import Functional
from pdefit.inverse.growth_watch import halved
from pdefit.inverse.objective import AbstractObjective
from pdefit.inverse.residual_kinds import typical_size
from pdefit.inverse.shortened import shortened
from pdefit.inverse.smooth_tangents import difference_gradient, smoothed
from pdefit.inverse.taylor import Remainder, direction, remainder, round_off
from pdefit.inverse.with_adjoint import with_tangents

# tangent against differences, relative; more is allowed only where measured round-off forbids it, and never more than COARSE
DIFFERENCES = 1e-6
COARSE = 1e-3
# gradient of a float32 run against its float64 twin
SINGLE = 1e-2
# forward solves that a certificate may cost whatever the fit costs, and the part of the fit beyond
SOLVES, SHARE = 20.0, 0.05
# bytes that storing every step may take, and states that a step keeps when it stores all its intermediate values
_STORED, _KEPT = 2e8, 20
# in forward solves: a gradient, a tangent, the differences of one direction
_GRADIENT, _TANGENT, _DIFFERENCES = 5.0, 2.0, 10.0
# tangents of converged steps agree much better than this factor
_EXPLODES = 10.0
# degrees beyond which a step with smooth tangents hardly leads down
_DOWNHILL = 80.0


def certify(
    functional: AbstractObjective,
    theta: Float[Array, " p"],
    *,
    key: PRNGKeyArray | None = None,
    fit_cost: float = 0.0,
    tangents: bool = False,
    driver: AbstractDriver | None = None,
) -> Certificate:
    """Test the residual map r(theta) and the gradient of J where a fit is about to start, or has ended.

    For a random direction v over all controls, and one for each control: J_r v by forward mode against central differences
    of r, whose remainder must fall as the square of the step; <J_r^T w, v> by the adjoint against <w, J_r v>, with random
    w, so that nothing degenerates at a perfect fit. Residuals of each kind (a variable, jumps, priors) weigh alike in all
    this. On a short horizon: the gradient of J against J_r^T r, and that of the run's adjoint against the one that stores
    every step. Gauss-Newton's matrix and gradient where the optimizer uses them (`tangents`). No control without
    influence. All in float64; a float32 run is certified on its float64 twin and compared with it.

    The `driver` of the fit, where it is hosted, is compared with the adjoint that stores every step. `fit_cost`, in forward
    solves, is what the fit may take: on the whole problem if 5 % of it, or 20 forward solves, suffice, else on the first
    observations that do.
    """
    begin = time.perf_counter()
    key = jax.random.key(0) if key is None else key
    if any(part.smooth_tangents for part, _ in functional.parts(theta)):
        return _inexact(functional, theta, key, fit_cost, tangents)
    whole = cast(functional, jnp.float64)
    hashes = fingerprint(functional)
    scope = _scope(whole, max(SOLVES, SHARE * fit_cost), tangents)
    part, theta = shortened(whole, jnp.asarray(theta, jnp.float64), scope["observations"])
    residual = RESIDUALS(part, theta)
    if not bool(jnp.all(jnp.isfinite(residual))):
        remedy = "the model blows up there; use a smaller dt, a better guess, or shorter segments"
        blown = Check("finite residuals", float("inf"), 0.0, False, remedy)
        return Certificate((blown,), scope, hashes, time.perf_counter() - begin)

    everything = direction(part.controls, theta, jax.random.fold_in(key, 1))
    scaled = _Scaled(part, theta, everything)
    w = jax.random.normal(jax.random.fold_in(key, 2), residual.shape)
    pulled = scaled.pull(theta, w)
    checks = [_finite(pulled)]
    noise = round_off(scaled, theta, everything)
    where = part.controls.elements
    steps = {"all controls": everything}
    if len(where) > 1:
        steps |= {path: jnp.where(moved, everything, 0.0) for path, moved in where.items()}
    for path, v in steps.items():
        checks += _along(scaled, theta, path, v, w, pulled, noise)
    checks += _influence(part, pulled)
    if tangents:
        checks += _normal_equations(part, theta, everything)
    checks += _short_horizon(part, theta, key, driver)
    if any(x.dtype == jnp.float32 for x in jax.tree.leaves(functional.problem) if eqx.is_array(x)):
        double, single = (GRADIENT(_shifted(cast(part, t), residual, key), theta) for t in (jnp.float64, jnp.float32))
        error = _relative(single, double)
        remedy = "single precision is not enough here; use dtype=float64"
        checks.append(_at_most("gradient in float32 against float64", error, SINGLE, remedy))
    return Certificate(tuple(checks), scope, hashes, time.perf_counter() - begin)


def _inexact(
    functional: AbstractObjective, theta: Array, key: PRNGKeyArray, fit_cost: float, tangents: bool
) -> Certificate:
    """The certificate of the smooth twin, which is what tangents are the derivative of, and whether steps with them lead down
    the residuals as they are."""
    twin, _ = functional.each(lambda part, own: (smoothed(part), own), theta)
    found = certify(twin, theta, key=key, fit_cost=fit_cost, tangents=tangents)
    begin = time.perf_counter()
    part, theta = shortened(functional, theta, found.scope["observations"])
    inexact = np.asarray(NORMAL(part, theta)[1])
    exact = difference_gradient(part, theta, np.full(theta.size, 1e-3))
    cosine = _over(float(inexact @ exact), float(np.linalg.norm(inexact) * np.linalg.norm(exact)))
    angle = float(np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0)))) if np.isfinite(cosine) else 90.0
    remedy = "the smooth twin is too far from the hard switches: make its switches narrower"
    check = _at_most("degrees between the gradient of smooth tangents and differences", angle, _DOWNHILL, remedy)
    seconds = found.seconds + time.perf_counter() - begin
    return Certificate((*found.checks, check), found.scope, fingerprint(functional), seconds)


@eqx.filter_jit
def _push(functional: AbstractObjective, theta: Array, v: Array) -> Array:
    return jax.jvp(functional.residuals, (theta,), (v,))[1]


@eqx.filter_jit
def _pull(functional: AbstractObjective, theta: Array, w: Array) -> Array:
    return jax.vjp(functional.residuals, theta)[1](w)[0]


class _Scaled:
    """The residual map with every kind of residual scaled to how strongly it answers to a direction."""

    def __init__(self, functional: AbstractObjective, theta: Array, v: Array):
        self.functional, self._pushed = functional, with_tangents(functional)
        answer = self._tangent(theta, v)
        if answer is None:
            answer = (RESIDUALS(functional, theta + 1e-4 * v) - RESIDUALS(functional, theta - 1e-4 * v)) / 2e-4
        self.size = typical_size(functional.kinds(), answer)

    def __call__(self, theta: Array) -> Array:
        return RESIDUALS(self.functional, theta) / self.size

    def push(self, theta: Array, v: Array) -> Array | None:
        """J_r v, or None where a reverse rule hides it."""
        tangent = self._tangent(theta, v)
        return None if tangent is None else tangent / self.size

    def pull(self, theta: Array, w: Array) -> Array:
        """J_r^T w by the adjoint."""
        return _pull(self.functional, theta, w / self.size)

    def _tangent(self, theta: Array, v: Array) -> Array | None:
        try:
            return _push(self._pushed, theta, v)
        except TypeError:
            # an adjoint with a reverse rule of its own
            return None


def _scope(functional: AbstractObjective, budget: float, tangents: bool) -> dict[str, Any]:
    """How much of the record the budget allows to be certified."""
    single, total = len(functional.controls.elements), functional.observations.ts.shape[-1]
    directions = 1 + (single if single > 1 else 0)
    cost = 6 + _GRADIENT + directions * (_TANGENT + _DIFFERENCES) + tangents * (_GRADIENT + 1 + functional.tangents)
    count = total if cost <= budget else max(2, int(np.ceil(total * budget / cost)))
    if functional.controls.nodes:
        # each window's start is a control of its own: none may be left out
        count = total
    return {"observations": count, "of": total, "forward_solves": cost, "budget": budget}


def _shifted(functional: AbstractObjective, residual: Array, key: PRNGKeyArray) -> AbstractObjective:
    """The functional with random errors, as large as its residuals and at least one sigma, added to the data."""
    data = functional.observations
    size = jnp.maximum(1.0, jnp.sqrt(jnp.mean(residual**2)))

    def shift(i: int, name: str) -> Array:
        value = data.values[name]
        draw = jax.random.normal(jax.random.fold_in(key, 100 + i), value.shape)
        return (value + (size * draw * data.sigma[name])).astype(value.dtype)

    values = {name: shift(i, name) for i, name in enumerate(data.values)}
    return eqx.tree_at(lambda f: f.observations.values, functional, values)


def _at_most(name: str, error: float | int, limit: float, remedy: str) -> Check:
    return Check(name, float(error), limit, error <= limit, remedy)


def _finite(gradient: Array) -> Check:
    wrong = int(jnp.sum(~jnp.isfinite(gradient)))
    remedy = "guard the inputs of sqrt, division and powers with pdefit.safe_sqrt, safe_norm, safe_div"
    return _at_most("non-finite elements of the gradient", wrong, 0.0, remedy)


def _along(scaled: _Scaled, theta: Array, path: str, v: Array, w: Array, pulled: Array, noise: float) -> list[Check]:
    """Tangent against differences, and adjoint against tangent, along one direction."""
    slope, tangent = float(jnp.vdot(pulled, v)), scaled.push(theta, v)

    def gap(answer: Array) -> float:
        """Between <J^T w, v> and <w, J v>, in units of what random w make of it."""
        return _over(abs(slope - float(jnp.vdot(w, answer))), float(jnp.linalg.norm(answer)))

    def error(difference: Array) -> float:
        return gap(difference) if tangent is None else _relative(difference, tangent)

    known = 0.0 if tangent is None else float(jnp.linalg.norm(tangent))
    found = remainder(scaled, theta, v, error, noise, known)
    what = "gradient" if tangent is None else "tangent"
    checks = [_against_differences(f"{path}: {what} against differences", found)]
    if tangent is not None:
        if not checks[0].passed and (cause := _explodes(scaled, theta, v, known)):
            checks[0] = dataclasses.replace(checks[0], remedy=cause)
        remedy = "the adjoint is wrong: compare with adjoint=store_all"
        limit = scaled.functional.sweep.adjoint.accuracy
        checks.append(_at_most(f"{path}: gradient against tangent", gap(tangent), limit, remedy))
    return checks


def _explodes(scaled: _Scaled, theta: Array, v: Array, known: float) -> str | None:
    """A sentence that names dt, where half the step makes the tangent, of this norm, that much smaller: no switch does so."""
    part, unit = scaled.functional, scaled.functional.problem.system.time_unit
    # adaptive steps are halved as they are, but chosen by tolerances
    if part.steps is not None:
        return None
    finer, theta = part.each(halved, theta)
    times = _over(known, float(jnp.linalg.norm(_push(with_tangents(finer), theta, v) / scaled.size)))
    if np.isfinite(times) and times < _EXPLODES:
        return None
    return (
        f"the tangent is {times:.0e} times that of half the step: dt = {part.dt:.3g} {unit} is too large for the linearised "
        f"equations, though the forward run survives it; set dt={part.dt / 2:.2g} or less"
    )


def _against_differences(name: str, found: Remainder) -> Check:
    limit = min(max(DIFFERENCES, 10 * found.round_off), COARSE)
    detail = {"steps": found.steps, "errors": found.errors, "rates": found.rates, "round_off": found.round_off}
    remedy = (
        "a switch (a comparison, where, round) or a stop_gradient in the equations hides part of the derivative; "
        "use a smooth switch, or correct the derivative"
    )
    if found.silent and found.round_off > COARSE:
        note = "less than round-off: the data do not see it, and neither do differences"
        return Check(name, found.best, limit, True, remedy, note, detail)
    note = "" if found.smooth else "but not falling as the square of the step"
    return Check(name, found.best, limit, found.best <= limit and found.smooth, remedy, note, detail)


def _influence(functional: AbstractObjective, gradient: Array) -> list[Check]:
    """Elements of theta on which nothing depends; of a field some may, e.g. far from every instrument."""
    silent, zero, first = [], np.asarray(gradient) == 0, 0
    names = functional.controls.names() if functional.controls.size <= FEW else []
    for control in functional.controls.items:
        own = zero[first : first + control.size]
        if own.all():
            silent.append(control.path)
        elif control.size <= FEW and names:
            silent += [names[first + int(k)] for k in np.flatnonzero(own)]
        first += control.size
    remedy = f"the data say nothing about {', '.join(silent)}: give a prior, observe more, or remove the control"
    return [_at_most("controls without influence", len(silent), 0.0, remedy)]


def _normal_equations(functional: AbstractObjective, theta: Array, v: Array) -> list[Check]:
    """What Gauss-Newton steps are made of, against adjoint and tangent."""
    r = RESIDUALS(functional, theta)
    _, slope, matrix = NORMAL(functional, theta)
    curvature = float(jnp.sum(_push(functional, theta, v) ** 2))
    # element by element, in units of what each could be: masses of planets differ by decades
    scale = jnp.sqrt(jnp.diag(matrix)) * jnp.linalg.norm(r)
    gap = float(jnp.max(jnp.abs(slope - _pull(functional, theta, r)) / jnp.maximum(scale, _TINY)))
    bend = abs(float(v @ matrix @ v) - curvature) / max(curvature, _TINY)
    remedy = "the assembled Jacobian is wrong: use stages=lbfgs"
    return [
        _at_most("Gauss-Newton gradient against adjoint", gap, ROUND_OFF, remedy),
        _at_most("Gauss-Newton matrix against tangent", bend, ROUND_OFF, remedy),
    ]


def _few_steps(functional: Functional, theta: Array) -> tuple[Functional, Array]:
    """As many steps of every interval as fit into memory with all their intermediate values."""
    plan = functional.layout.plan
    kept = state_bytes(functional.starts(functional.problem)) * plan.intervals * _KEPT
    return functional.with_plan(beginning(plan, max(1, int(_STORED / kept)))), theta


def _short_horizon(
    functional: AbstractObjective, theta: Array, key: PRNGKeyArray, driver: AbstractDriver | None
) -> list[Check]:
    """Where it is cheap: the gradient of J against the residuals it is made of, with shifted data; and that of the run's
    adjoint, and of its driver, against the adjoint which stores every step."""
    short, theta = shortened(functional, theta, min(functional.observations.ts.shape[-1], 4))
    short, theta = short.each(_few_steps, theta)
    short = _shifted(short, RESIDUALS(short, theta), key)
    gradient = GRADIENT(short, theta)
    error, limit = _relative(_pull(short, theta, RESIDUALS(short, theta)), gradient), short.sweep.adjoint.accuracy
    remedy = "J and its residuals are not the same objective"
    checks = [_at_most("gradient of J against its residuals", error, limit, remedy)]
    expected = GRADIENT(eqx.tree_at(lambda f: f.sweep.adjoint, short, StoreAll()), theta)
    remedy = "the run's adjoint is wrong: use adjoint=store_all"
    if not isinstance(functional.sweep.adjoint, StoreAll):
        error = _relative(gradient, expected)
        checks.append(_at_most("the run's against the stored gradient", error, limit, remedy))
    if isinstance(driver, Hosted):
        error = _relative(driver.gradient(short, theta), expected)
        checks.append(_at_most("hosted against stored gradient", error, ROUND_OFF, remedy))
    return checks


_TINY = float(np.finfo(float).tiny)


def _relative(found: Array, expected: Array) -> float:
    """|found - expected| / |expected|."""
    return _over(float(jnp.linalg.norm(found - expected)), float(jnp.linalg.norm(expected)))


def _over(gap: float, size: float) -> float:
    """gap / size; 0 where both vanish, infinite where only the size does."""
    return gap / size if size > 0 else (0.0 if gap == 0 else float("inf"))
