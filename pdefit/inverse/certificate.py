"""The certificate: recorded evidence that the gradient of a fit is right, on the fit's own equations, data and controls."""

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from pdefit.arrays.trees import cast
from pdefit.integrate.adjoint import StoreAll
from pdefit.inverse.controls import FEW
from pdefit.inverse.fingerprint import fingerprint
from pdefit.inverse.functional import Functional
from pdefit.inverse.taylor import Remainder, direction, remainder, round_off

# tangent against differences, relative; more is allowed only where measured round-off forbids it, and never more than COARSE
DIFFERENCES = 1e-6
COARSE = 1e-3
# two derivatives of the same discrete map differ by round-off alone
ROUND_OFF = 1e-8
# gradient of a float32 run against its float64 twin
SINGLE = 1e-2
# forward solves that a certificate may cost whatever the fit costs, and the part of the fit beyond
SOLVES, SHARE = 20.0, 0.05
# in forward solves: a gradient, a tangent, the differences of one direction
_GRADIENT, _TANGENT, _DIFFERENCES = 5.0, 2.0, 10.0


@dataclasses.dataclass(frozen=True)
class Check:
    """One comparison: the relative `error` found, the `limit` it must not exceed, and what a failure means. `note` says
    what else is wrong when the error itself is small enough."""

    name: str
    error: float
    limit: float
    passed: bool
    remedy: str = ""
    note: str = ""
    detail: dict[str, Any] = dataclasses.field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.name}: {self.error:.1e} (limit {self.limit:.1e}{self.note and ', ' + self.note})"


@dataclasses.dataclass(frozen=True)
class Certificate:
    """What was checked, on which part of the problem (`scope`), and of what (`hashes` of equations, data and flags)."""

    checks: tuple[Check, ...]
    scope: dict[str, Any]
    hashes: dict[str, str]
    seconds: float

    @property
    def passed(self) -> bool:
        return all(check.passed for check in self.checks)

    @property
    def reason(self) -> str:
        """The failed checks and what to do about the first, in one sentence; empty when passed."""
        failed = [c for c in self.checks if not c.passed]
        return f"{'; '.join(map(str, failed))}; {failed[0].remedy}" if failed else ""

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers and text, for certificate.json."""
        return {"passed": self.passed, "reason": self.reason, **dataclasses.asdict(self)}


def certify(
    functional: Functional,
    theta: Float[Array, " p"],
    *,
    key: PRNGKeyArray | None = None,
    fit_cost: float = 0.0,
    tangents: bool = False,
) -> Certificate:
    """Test the residual map r(theta) and the gradient of J where a fit is about to start, or has ended.

    For a random direction over all controls, and one for each control: J_r v by forward mode against central differences
    of r, whose remainder must fall as the square of the step; the gradient of J against J_r v, with the data shifted by
    random errors, so that nothing degenerates at a perfect fit; the checkpointed gradient against the stored one on a
    short horizon; Gauss-Newton's matrix and gradient where the optimizer uses them (`tangents`); no control without
    influence. All in float64; a float32 run is certified on its float64 twin and compared with it.

    `fit_cost`, in forward solves, is what the fit may take: on the whole problem if 5 % of it, or 20 forward solves,
    suffice, else on the first observations that do.
    """
    begin = time.perf_counter()
    key = jax.random.key(0) if key is None else key
    whole = cast(functional, jnp.float64)
    hashes = fingerprint(functional)
    part, scope = _scope(whole, max(SOLVES, SHARE * fit_cost), tangents)
    theta = jnp.asarray(theta, jnp.float64)
    residual = RESIDUALS(part, theta)
    if not bool(jnp.all(jnp.isfinite(residual))):
        remedy = "the model blows up there; use a smaller dt, a better guess, or shorter segments"
        blown = Check("finite residuals", float("inf"), 0.0, False, remedy)
        return Certificate((blown,), scope, hashes, time.perf_counter() - begin)

    shifted = _shifted(part, residual, key)
    gradient = GRADIENT(shifted, theta)
    cotangent = RESIDUALS(shifted, theta)
    checks = [_finite(gradient)]
    everything = direction(part.controls, theta, jax.random.fold_in(key, 1))
    noise = round_off(lambda x: RESIDUALS(part, x), theta, everything)
    paths = ["all controls", *(c.path for c in part.controls.items)]
    steps = [everything, *_single(part, everything)] if len(paths) > 2 else [everything]
    for path, v in zip(paths[: len(steps)], steps, strict=True):
        checks += _along(part, theta, path, v, gradient, cotangent, noise)
    checks += _influence(part, gradient)
    if tangents:
        checks += _normal_equations(shifted, theta, gradient, everything)
    checks += _stored(shifted, theta, key)
    if any(x.dtype == jnp.float32 for x in jax.tree.leaves(functional.problem) if eqx.is_array(x)):
        single = GRADIENT(_shifted(cast(part, jnp.float32), residual, key), theta)
        error = _relative(single, gradient)
        remedy = "single precision is not enough here; use dtype=float64"
        checks.append(Check("gradient in float32 against float64", error, SINGLE, error <= SINGLE, remedy))
    return Certificate(tuple(checks), scope, hashes, time.perf_counter() - begin)


RESIDUALS: Callable = eqx.filter_jit(Functional.residuals)
GRADIENT: Callable = eqx.filter_jit(lambda functional, theta: functional.value_and_grad(theta)[1])


@eqx.filter_jit
def _tangent(functional: Functional, theta: Array, v: Array) -> Array:
    return jax.jvp(functional.residuals, (theta,), (v,))[1]


def _scope(functional: Functional, budget: float, tangents: bool) -> tuple[Functional, dict[str, Any]]:
    """The part of a problem that the budget allows to be certified, and the record of it."""
    p, items, total = functional.controls.size, functional.controls.items, functional.observations.ts.size
    directions = 1 + (len(items) if len(items) > 1 else 0)
    cost = 4 + _GRADIENT + directions * (_TANGENT + _DIFFERENCES) + tangents * (1 + p)
    count = total if cost <= budget else max(2, int(np.ceil(total * budget / cost)))
    if any(c.path.split(".")[0] == "nodes" for c in items):
        # each window's start is a control of its own: none may be left out
        count = total
    record = {"observations": count, "of": total, "forward_solves": cost, "budget": budget}
    return functional if count == total else functional.first(count), record


def _shifted(functional: Functional, residual: Array, key: PRNGKeyArray) -> Functional:
    """The functional with random errors, as large as its residuals and at least one sigma, added to the data."""
    data = functional.observations
    size = jnp.maximum(1.0, jnp.sqrt(jnp.mean(residual**2)))

    def shift(i: int, name: str) -> Array:
        value = data.values[name]
        draw = jax.random.normal(jax.random.fold_in(key, 100 + i), value.shape)
        return (value + (size * draw * data.sigma[name])).astype(value.dtype)

    values = {name: shift(i, name) for i, name in enumerate(data.values)}
    return eqx.tree_at(lambda f: f.observations.values, functional, values)


def _single(functional: Functional, v: Array) -> list[Array]:
    """The direction v for one control at a time."""
    edges = np.cumsum([0, *(c.size for c in functional.controls.items)])
    index = np.arange(v.size)
    return [jnp.where((index >= a) & (index < b), v, 0.0) for a, b in zip(edges[:-1], edges[1:], strict=True)]


def _finite(gradient: Array) -> Check:
    wrong = int(jnp.sum(~jnp.isfinite(gradient)))
    remedy = "guard the inputs of sqrt, division and powers with pdefit.safe_sqrt, safe_norm, safe_div"
    return Check("non-finite elements of the gradient", float(wrong), 0.0, wrong == 0, remedy)


def _along(
    functional: Functional, theta: Array, path: str, v: Array, gradient: Array, cotangent: Array, noise: float
) -> list[Check]:
    """Tangent against differences, and gradient against tangent, along one direction."""
    size = float(jnp.sqrt(jnp.mean(cotangent**2)))
    slope = float(jnp.vdot(gradient, v))
    try:
        tangent = _tangent(functional, theta, v)
    except TypeError:
        tangent = None  # an adjoint with a reverse rule of its own has no forward mode

    def error(difference: Array) -> float:
        if tangent is not None:
            return _relative(difference, tangent)
        return abs(slope - float(jnp.vdot(cotangent, difference))) / max(
            size * float(jnp.linalg.norm(difference)), _TINY
        )

    known = 0.0 if tangent is None else float(jnp.linalg.norm(tangent))
    found = remainder(lambda x: RESIDUALS(functional, x), theta, v, error, noise, known)
    what = "gradient" if tangent is None else "tangent"
    checks = [_against_differences(f"{path}: {what} against differences", found)]
    if tangent is not None:
        gap = abs(slope - float(jnp.vdot(cotangent, tangent))) / max(size * known, _TINY)
        gap = gap if known or slope else 0.0
        remedy = "the adjoint is wrong: compare with adjoint=store_all"
        checks.append(Check(f"{path}: gradient against tangent", gap, ROUND_OFF, gap <= ROUND_OFF, remedy))
    return checks


def _against_differences(name: str, found: Remainder) -> Check:
    limit = min(max(DIFFERENCES, 10 * found.round_off), COARSE)
    detail = {"steps": found.steps, "errors": found.errors, "rates": found.rates, "round_off": found.round_off}
    remedy = (
        "a switch (a comparison, where, round) or a stop_gradient in the equations hides part of the derivative; "
        "use a smooth switch, or correct the derivative"
    )
    note = "" if found.smooth else "but not falling as the square of the step"
    return Check(name, found.best, limit, found.best <= limit and found.smooth, remedy, note, detail)


def _influence(functional: Functional, gradient: Array) -> list[Check]:
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
    return [Check("controls without influence", float(len(silent)), 0.0, not silent, remedy)]


def _normal_equations(functional: Functional, theta: Array, gradient: Array, v: Array) -> list[Check]:
    """What Gauss-Newton steps are made of, against adjoint and tangent."""
    _, slope, matrix = eqx.filter_jit(Functional.normal_equations)(functional, theta)
    curvature = float(jnp.sum(_tangent(functional, theta, v) ** 2))
    # element by element, in units of what each could be: masses of planets differ by decades
    scale = jnp.sqrt(jnp.diag(matrix)) * jnp.linalg.norm(RESIDUALS(functional, theta))
    gap = float(jnp.max(jnp.abs(slope - gradient) / jnp.maximum(scale, _TINY)))
    bend = abs(float(v @ matrix @ v) - curvature) / max(curvature, _TINY)
    remedy = "the assembled Jacobian is wrong: use stages=lbfgs"
    return [
        Check("Gauss-Newton gradient against adjoint", gap, ROUND_OFF, gap <= ROUND_OFF, remedy),
        Check("Gauss-Newton matrix against tangent", bend, ROUND_OFF, bend <= ROUND_OFF, remedy),
    ]


def _stored(functional: Functional, theta: Array, key: PRNGKeyArray) -> list[Check]:
    """The gradient of the run's adjoint against the one that stores every step, on a short horizon."""
    if isinstance(functional.adjoint, StoreAll):
        return []
    short = functional.first(min(functional.observations.ts.size, 4))
    stored = eqx.tree_at(lambda f: f.adjoint, short, StoreAll())
    error = _relative(GRADIENT(short, theta), GRADIENT(stored, theta))
    remedy = "checkpoints are restored wrongly: use adjoint=store_all"
    return [Check("checkpointed against stored gradient", error, ROUND_OFF, error <= ROUND_OFF, remedy)]


_TINY = float(np.finfo(float).tiny)


def _relative(found: Array, expected: Array) -> float:
    """|found - expected| / |expected|; 0 where both vanish, infinite where only `expected` does."""
    gap, size = float(jnp.linalg.norm(found - expected)), float(jnp.linalg.norm(expected))
    return gap / size if size > 0 else (0.0 if gap == 0 else float("inf"))
