"""What optimizers are given on a whole record, by the driver of the fit, against tangents."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from pdefit._util.trees import cast
from pdefit.adjoints.base import ROUND_OFF
from pdefit.inverse.certify.record import Check, at_most, over
from pdefit.inverse.certify.residual_checks import Residuals
from pdefit.inverse.certify.sketch import KEPT, SKETCH, Sketch, pull_sketch, push_sketch
from pdefit.inverse.certify.taylor import direction
from pdefit.inverse.controls.vector import FEW
from pdefit.inverse.fit.drivers import AbstractDriver, Hosted
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.objective.variants import shortened, with_tangents
from pdefit.inverse.optimizers.base import AbstractOptimizer

# gradient of a float32 run against its float64 twin
SINGLE = 1e-2
# residuals that are held at once to test matrices and products exactly
_HELD = 20_000_000
# random sums give the square of a norm to a few standard errors of sqrt(2 / number of sums)
_ESTIMATE = 8.0
# kinds of residuals that answer weakly are shifted more, by at most this
_MOST_SHIFT = 1e6

_ADJOINT = "the run's gradient is wrong: compare with adjoint=store_all, or use stages=levenberg_marquardt"
_JACOBIAN = "the assembled Jacobian is wrong: use stages=lbfgs"
_PRODUCTS = "products with the Jacobian are wrong: use stages=lbfgs"


@dataclasses.dataclass(frozen=True)
class Used:
    """Which derivatives the optimizers of a fit ask for."""

    gradient: bool
    products: bool
    normal_equations: bool

    @staticmethod
    def by(optimizers: Sequence[AbstractOptimizer] | None, objective: AbstractObjective) -> "Used":
        """What these optimizers ask for; without any named, all that the objective can give."""
        if optimizers is None:
            tangents = objective.runner.adjoint.has_tangents
            return Used(True, tangents, tangents and objective.controls.size <= FEW)
        return Used(
            any(not o.tangents for o in optimizers),
            any(o.most_products > 0 for o in optimizers),
            any(o.tangents for o in optimizers),
        )

    def without_tangents(self) -> "Used":
        """What is left where a reverse rule hides tangents."""
        return Used(True, False, False)


def use_checks(
    objective: AbstractObjective,
    theta: Float[Array, " p"],
    residuals: Residuals,
    key: PRNGKeyArray,
    used: Used,
    driver: AbstractDriver,
    single: AbstractObjective | None,
) -> list[Check]:
    """Value, gradient, products and normal equations of J along two random directions over all controls.

    Random errors are added to the data, so that gradients do not vanish at a perfect fit. `single` is the same objective in
    float32, where the fit is.
    """
    # targets that a driver reads from a file are those that were measured
    fixed = isinstance(driver, Hosted) and driver.targets is not None
    shifted = objective if fixed else _shifted(objective, residuals, key)
    accuracy = residuals.limit(ROUND_OFF if isinstance(driver, Hosted) else objective.runner.adjoint.accuracy)
    exact = residuals.limit(ROUND_OFF)
    probe = _Probe(shifted, theta, (residuals.v, direction(objective.controls, theta, jax.random.fold_in(key, 3))))
    kind = "hosted " if isinstance(driver, Hosted) else ""
    checks: list[Check] = []
    if used.gradient:
        value, gradient, _ = driver.watched_gradient(shifted, theta)
        checks += [_finite(gradient), *probe.slopes(f"{kind}gradient", value, gradient, accuracy, _ADJOINT)]
        checks += _influence(objective, gradient)
        if single is not None:
            coarse = driver.watched_gradient(_with_data(single, shifted), theta)[1]
            checks.append(_single(coarse, gradient))
    if used.normal_equations:
        value, slope, matrix = driver.normal_equations(shifted, theta)
        checks += [_finite(slope), *probe.slopes(f"{kind}Gauss-Newton gradient", value, slope, exact, _JACOBIAN)]
        if not used.gradient:
            checks += _influence(objective, jnp.diag(matrix))
            if single is not None:
                checks.append(_single(driver.normal_equations(_with_data(single, shifted), theta)[1], slope))

        def column(f: AbstractObjective, x: Array, v: Array) -> Array:
            return (matrix if f is shifted else driver.normal_equations(f, x)[2]) @ v

        checks += _quadratic(f"{kind}Gauss-Newton matrix", probe, column, exact, _JACOBIAN, key)
    if used.products:
        checks += _quadratic(f"{kind}Gauss-Newton products", probe, driver.product, exact, _PRODUCTS, key)
    return checks


class _Probe:
    """J at theta, its slopes along some directions, and how the residuals move along each."""

    def __init__(self, objective: AbstractObjective, theta: Array, along: tuple[Array, ...]):
        self.objective, self.theta, self.along = objective, theta, along
        here = SKETCH(objective, theta)
        self.value = float(here.half_square)
        try:
            moved = [push_sketch(with_tangents(objective), theta, v)[1] for v in along]
            self.slope = [float(m.half_square) for m in moved]
            self.moved: list[Sketch] | None = moved
        except TypeError:
            # equations with a reverse rule of their own
            nothing = jax.tree.map(jnp.zeros_like, here.kinds)
            gradient = pull_sketch(objective, theta, Sketch(nothing, jnp.ones(())))
            self.slope, self.moved = [float(jnp.vdot(gradient, v)) for v in along], None

    def slopes(self, name: str, value: Any, gradient: Array, limit: float, remedy: str) -> list[Check]:
        """A value and a gradient of J against those of the residuals."""
        size = float(np.linalg.norm(self.slope))
        gaps = [abs(float(jnp.vdot(gradient, v)) - s) for v, s in zip(self.along, self.slope, strict=True)]
        off = over(abs(float(value) - self.value), abs(self.value))
        return [
            at_most(f"{name} against tangents", over(max(gaps), size), limit, remedy),
            at_most(
                f"J beside its {name}, against its residuals", off, ROUND_OFF, "J and its residuals are not the same"
            ),
        ]


def _quadratic(
    name: str,
    probe: _Probe,
    product: Callable[[AbstractObjective, Array, Array], Array],
    limit: float,
    remedy: str,
    key: PRNGKeyArray,
) -> list[Check]:
    """J_r^T J_r v against tangents: exactly on the whole record, or where its residuals would fill the memory, exactly on a
    beginning of it and by random sums on the whole."""
    if probe.moved is None:
        return []
    objective, theta, (v, u) = probe.objective, probe.theta, probe.along
    held, checks = jax.eval_shape(objective.residuals, theta).size, []
    if held > _HELD:
        sums = jnp.concatenate(probe.moved[0].kinds)
        estimate, bend = float(jnp.sum(sums**2)), float(jnp.vdot(product(objective, theta, v), v))
        allowed = _ESTIMATE * (2 / sums.size) ** 0.5
        checks.append(at_most(f"{name} against random sums", over(abs(bend - estimate), estimate), allowed, remedy))
        total = objective.observations.ts.shape[-1]
        objective, theta = shortened(objective, theta, max(2, total * _HELD // held))
        v, u = (direction(objective.controls, theta, jax.random.fold_in(key, k)) for k in (4, 5))
    vv, uu, uv = map(float, _dots(with_tangents(objective), theta, v, u))
    found = product(objective, theta, v)
    gaps = over(abs(float(jnp.vdot(found, v)) - vv), vv), over(abs(float(jnp.vdot(found, u)) - uv), (uu * vv) ** 0.5)
    return [*checks, at_most(f"{name} against tangents", max(gaps), limit, remedy)]


@eqx.filter_jit
def _dots(objective: AbstractObjective, theta: Array, v: Array, u: Array) -> tuple[Array, Array, Array]:
    """|J v|^2, |J u|^2 and <J u, J v>."""
    jv, ju = (jax.jvp(objective.residuals, (theta,), (x,))[1] for x in (v, u))
    return jnp.vdot(jv, jv), jnp.vdot(ju, ju), jnp.vdot(ju, jv)


def _shifted(objective: AbstractObjective, residuals: Residuals, key: PRNGKeyArray) -> AbstractObjective:
    """The objective with random errors, as large as its residuals and at least one sigma, added to the data; more to variables
    that answer weakly, so that all weigh alike."""
    data = objective.observations
    count = max(objective.observed_values, 1)
    size = max(1.0, float(jnp.sqrt(2 * residuals.here.half_square / count)))
    # sums of more values are larger
    part = objective.parts(residuals.theta)[0][0]
    answers = [
        s / np.sqrt(max(x.size / KEPT, 1.0)) for s, x in zip(residuals.sizes, part.observed.values(), strict=False)
    ]
    strongest = max(map(float, answers), default=1.0)

    def shift(i: int, name: str) -> Array:
        value = data.values[name]
        draw = jax.random.normal(jax.random.fold_in(key, 100 + i), value.shape)
        factor = min(strongest / float(answers[i]), _MOST_SHIFT)
        return (value + (size * factor * draw * data.sigma[name])).astype(value.dtype)

    values = {name: shift(i, name) for i, name in enumerate(part.observed)}
    return eqx.tree_at(lambda f: f.observations.values, objective, {**data.values, **values})


def _with_data(single: AbstractObjective, shifted: AbstractObjective) -> AbstractObjective:
    """The float32 objective with the data of its twin."""
    return eqx.tree_at(lambda f: f.observations.values, single, cast(shifted.observations.values, jnp.float32))


def _single(coarse: Array, fine: Array) -> Check:
    error = over(float(jnp.linalg.norm(coarse - fine)), float(jnp.linalg.norm(fine)))
    remedy = "single precision is not enough here; use dtype=float64"
    return at_most("gradient in float32 against float64", error, SINGLE, remedy)


def _finite(gradient: Array) -> Check:
    wrong = int(jnp.sum(~jnp.isfinite(gradient)))
    remedy = "guard the inputs of sqrt, division and powers with pdefit.safe_sqrt, safe_norm, safe_div"
    return at_most("non-finite elements of the gradient", wrong, 0.0, remedy)


def _influence(objective: AbstractObjective, gradient: Array) -> list[Check]:
    """Elements of theta on which nothing depends; of a field some may, e.g. far from every instrument."""
    silent, zero, first = [], np.asarray(gradient) == 0, 0
    names = objective.controls.names() if objective.controls.size <= FEW else []
    for control in objective.controls.items:
        own = zero[first : first + control.size]
        if own.all():
            silent.append(control.path)
        elif control.size <= FEW and names:
            silent += [names[first + int(k)] for k in np.flatnonzero(own)]
        first += control.size
    remedy = f"the data say nothing about {', '.join(silent)}: give a prior, observe more, or remove the control"
    return [at_most("controls without influence", len(silent), 0.0, remedy)]
