"""Checks of the derivatives that optimizers use, on a whole record and by the driver of the fit, against tangents."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from pdefit.adjoints.base import ROUND_OFF
from pdefit.inverse.certify._certified import HELD, Certified, Probe, tangent_products
from pdefit.inverse.certify._record import Check, at_most, over
from pdefit.inverse.certify.direction import direction
from pdefit.inverse.controls.vector import FEW
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.objective.variants import shortened, with_tangents

# gradient of a float32 run against its float64 twin
SINGLE = 1e-2
# random sums give the square of a norm to a few standard errors of sqrt(2 / number of sums)
_ESTIMATE = 8.0


def gradient_of_the_run(subject: Certified) -> list[Check]:
    """Checks of value and gradient of J, where an optimizer uses them."""
    if not subject.used.gradient:
        return []
    value, gradient = subject.gradient
    remedy = "the run's gradient is wrong: compare with adjoint=store_all, or use stages=levenberg_marquardt"
    slopes = subject.probe.slopes(f"{subject.kind}gradient", value, gradient, subject.accuracy, remedy)
    return [_finite(gradient), *slopes]


def normal_equations_of_the_run(subject: Certified) -> list[Check]:
    """Checks of gradient and matrix of Gauss-Newton, where an optimizer uses them."""
    if not subject.used.normal_equations:
        return []
    value, slope, matrix = subject.equations
    exact, remedy = subject.residuals.limit(ROUND_OFF), "the assembled Jacobian is wrong: use stages=lbfgs"

    def column(f: AbstractObjective, x: Array, v: Array) -> Array:
        return (matrix if f is subject.shifted else subject.driver.normal_equations(f, x)[2]) @ v

    slopes = subject.probe.slopes(f"{subject.kind}Gauss-Newton gradient", value, slope, exact, remedy)
    name = f"{subject.kind}Gauss-Newton matrix"
    return [_finite(slope), *slopes, *_quadratic(name, subject.probe, column, exact, remedy, subject.key)]


def products_of_the_run(subject: Certified) -> list[Check]:
    """Checks of products with the Gauss-Newton matrix, where an optimizer uses them."""
    if not subject.used.products:
        return []
    exact, remedy = subject.residuals.limit(ROUND_OFF), "products with the Jacobian are wrong: use stages=lbfgs"
    name = f"{subject.kind}Gauss-Newton products"
    return _quadratic(name, subject.probe, subject.driver.product, exact, remedy, subject.key)


def influence(subject: Certified) -> list[Check]:
    """The check for elements of theta on which nothing depends.

    Of a field some may have none, far from every instrument.
    """
    controls = subject.whole.controls
    if not (subject.used.gradient or subject.used.normal_equations):
        return []
    felt = subject.gradient[1] if subject.used.gradient else jnp.diag(subject.equations[2])
    silent, zero, first = [], np.asarray(felt) == 0, 0
    names = controls.names() if controls.size <= FEW else []
    for control in controls.items:
        own = zero[first : first + control.size]
        if own.all():
            silent.append(control.path)
        elif not control.is_field and names:
            silent += [names[first + int(k)] for k in np.flatnonzero(own)]
        first += control.size
    remedy = f"the data say nothing about {', '.join(silent)}: give a prior, observe more, or remove the control"
    return [at_most("controls without influence", len(silent), 0.0, remedy)]


def single_precision(subject: Certified) -> list[Check]:
    """The check of the gradient of a float32 run against that of its float64 twin."""
    if subject.single is None:
        return []
    if subject.used.gradient:
        coarse, fine = subject.driver.watched_gradient(subject.shifted_single, subject.theta)[1], subject.gradient[1]
    elif subject.used.normal_equations:
        coarse, fine = subject.driver.normal_equations(subject.shifted_single, subject.theta)[1], subject.equations[1]
    else:
        return []
    error = over(float(jnp.linalg.norm(coarse - fine)), float(jnp.linalg.norm(fine)))
    remedy = "single precision is not enough here; use dtype=float64"
    return [at_most("gradient in float32 against float64", error, SINGLE, remedy)]


def _finite(gradient: Array) -> Check:
    wrong = int(jnp.sum(~jnp.isfinite(gradient)))
    remedy = "guard the inputs of sqrt, division and powers with pdefit.safe_sqrt, safe_norm, safe_div"
    return at_most("non-finite elements of the gradient", wrong, 0.0, remedy)


def _quadratic(
    name: str,
    probe: Probe,
    product: Callable[[AbstractObjective, Array, Array], Array],
    limit: float,
    remedy: str,
    key: PRNGKeyArray,
) -> list[Check]:
    """Checks of J_r^T J_r v against tangents, exactly on the whole record.

    Where its residuals would fill the memory, the check is exact on a beginning of it and by random sums on the whole.
    """
    objective, theta, (v, u), checks, products = probe.objective, probe.theta, probe.along, [], probe.products
    if products is None:
        if probe.moved is None:
            return []
        sums = jnp.concatenate(probe.moved[0].kinds)
        estimate, bend = float(jnp.sum(sums**2)), float(jnp.vdot(product(objective, theta, v), v))
        allowed = _ESTIMATE * (2 / sums.size) ** 0.5
        checks.append(at_most(f"{name} against random sums", over(abs(bend - estimate), estimate), allowed, remedy))
        total = objective.observations.ts.shape[-1]
        objective, theta = shortened(objective, theta, max(2, total * HELD // probe.count))
        v, u = (direction(objective.controls, theta, jax.random.fold_in(key, k)) for k in (4, 5))
        products = tangent_products(with_tangents(objective), theta, jnp.stack([v, u]))[2]
    (vv, uv), (_, uu) = np.asarray(products)
    found = product(objective, theta, v)
    gaps = over(abs(float(jnp.vdot(found, v)) - vv), vv), over(abs(float(jnp.vdot(found, u)) - uv), (uu * vv) ** 0.5)
    return [*checks, at_most(f"{name} against tangents", max(gaps), limit, remedy)]
