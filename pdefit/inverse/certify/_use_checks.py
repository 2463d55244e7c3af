"""Checks of the optimizers' derivatives, on a whole record and by the driver of the fit, against tangents."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np

from pdefit.adjoints.base import ROUND_OFF
from pdefit.inverse.certify._certified import Certified, Numbers
from pdefit.inverse.certify._record import Check, at_most, over
from pdefit.inverse.certify._residual_checks import of_steps
from pdefit.inverse.certify._sketch import pull_sketch
from pdefit.inverse.controls.bound_control import FEW
from pdefit.inverse.objective.abstract import AbstractObjective

# slope of J of a float32 run against that of its float64 twin
SINGLE = 1e-2


def gradient_of_the_run(subject: Certified) -> list[Check]:
    """Checks of the value and gradient of J, if an optimizer uses them."""
    if not subject.used.gradient:
        return []
    wrong = "the run's gradient is wrong: compare with adjoint=store_all, or use stages=levenberg_marquardt"
    slopes = _slopes(
        subject, f"{subject.kind}gradient", subject.shifted, subject.gradient, subject.accuracy, subject.remedy(wrong)
    )
    return [_finite(subject.gradient[1]), *slopes]


def normal_equations_of_the_run(subject: Certified) -> list[Check]:
    """Checks of the gradient and the Gauss-Newton matrix, if an optimizer uses them."""
    if not subject.used.normal_equations:
        return []
    value, slope, matrix = subject.equations
    exact, remedy = subject.residuals.limit(ROUND_OFF), "the assembled Jacobian is wrong: use stages=lbfgs"
    # what the fit has is of the data as they are
    objective, name = subject.whole if subject.handed else subject.shifted, f"{subject.kind}Gauss-Newton gradient"
    slopes = _slopes(subject, name, objective, (value, slope), exact, remedy)
    image = np.asarray(matrix @ np.asarray(subject.residuals.v))
    return [_finite(slope), *slopes, _quadratic(subject, f"{subject.kind}Gauss-Newton matrix", image, exact, remedy)]


def products_of_the_run(subject: Certified) -> list[Check]:
    """Checks of products with the Gauss-Newton matrix, if an optimizer uses them."""
    if not subject.used.products:
        return []
    exact, remedy = subject.residuals.limit(ROUND_OFF), "products with the Jacobian are wrong: use stages=lbfgs"
    image = subject.driver.product(subject.whole, subject.theta, subject.residuals.v)
    return [_quadratic(subject, f"{subject.kind}Gauss-Newton products", image, exact, remedy)]


def influence(subject: Certified) -> list[Check]:
    """Check that every control changes the objective: its gradient must not be exactly zero.

    Single elements of a field may have a gradient of zero, far from every instrument.
    """
    controls = subject.whole.controls
    if not (subject.used.gradient or subject.used.normal_equations):
        return []
    felt = subject.gradient[1] if subject.used.gradient else subject.equations[2].diagonal()
    silent, zero = [], np.asarray(felt) == 0
    names = controls.names() if controls.size <= FEW else []
    for control, span in controls.spans:
        own = zero[span]
        if own.all():
            silent.append(control.path)
        elif not control.is_field and names:
            silent += [names[span][int(k)] for k in np.flatnonzero(own)]
    remedy = f"the data say nothing about {', '.join(silent)}: give a prior, observe more, or remove the control"
    return [at_most("controls without influence", len(silent), 0.0, remedy)]


def single_precision(subject: Certified) -> list[Check]:
    """Check of the gradient of a float32 run, along v, against its float64 twin's.

    Near a minimum the terms of a gradient cancel, and their round-off remains. So its error is relative to the typical
    size of a gradient from residuals of this size. An error of relative size 1 moves the minimum by about a standard
    error.
    """
    if subject.single is None:
        return []
    if subject.used.gradient:
        coarse, fine = subject.driver.watched_gradient(subject.shifted_single, subject.theta)[1], subject.gradient[1]
    elif subject.used.normal_equations:
        coarse, fine = subject.driver.normal_equations(subject.shifted_single, subject.theta)[1], subject.equations[1]
    else:
        return []
    coarse, fine = (float(np.vdot(gradient, subject.residuals.v)) for gradient in (coarse, fine))
    # gaps between segments and priors count in standard deviations, too
    kinds = itertools.zip_longest(subject.levels.values(), subject.residuals.change.kinds, fillvalue=1.0)
    typical = sum(level**2 * float(np.sum(np.square(kind))) for level, kind in kinds)
    error = over(abs(coarse - fine), (fine**2 + typical) ** 0.5)
    remedy = "single precision is not enough here; use dtype=float64"
    return [at_most("gradient in float32 against float64", error, SINGLE, remedy)]


def _slopes(
    subject: Certified,
    name: str,
    objective: AbstractObjective,
    found: tuple[Numbers, Numbers],
    limit: float,
    remedy: str,
) -> list[Check]:
    """Checks of a value and a gradient of J against sums over the residuals and their Jacobian.

    **Arguments:**

    - `subject`: the subject of the certificate.
    - `name`: the name of the gradient.
    - `objective`: the objective with this J, `whole` or `shifted`.
    - `found`: J and its gradient, (p,).
    - `limit`, `remedy`: the limit of the gradient's check, and the remedy if it fails.
    """
    (value, gradient), residuals, shifts = found, subject.residuals, objective is not subject.whole
    here, moved = subject.shifted_value if shifts else residuals.here.half_square, residuals.moved
    if moved is None:
        # equations with a reverse rule of their own
        half_square = jax.tree.map(jnp.zeros_like, residuals.here)._replace(half_square=jnp.ones(()))
        slope = size = float(np.vdot(pull_sketch(objective, subject.theta, half_square), residuals.v))
    else:
        slope, size = float(moved.half_square), 0.0
        for level, kind in zip(subject.levels.values(), moved.kinds, strict=False):
            slope -= level * float(np.sum(kind)) if shifts else 0.0
            size += level**2 * float(np.sum(np.square(kind)))
        size = (slope**2 + size) ** 0.5
    gap, off = abs(float(np.vdot(gradient, residuals.v)) - slope), abs(float(value) - float(here))
    if over(gap, abs(size)) > limit:
        limit = max(limit, subject.rounded, 0.0 if moved is None else of_steps(residuals, residuals.v, moved))
    of_value, because = f"J beside its {name}, against its residuals", "J and its residuals are not the same"
    return [
        at_most(f"{name} against tangents", over(gap, abs(size)), limit, remedy),
        at_most(of_value, over(off, abs(float(here))), ROUND_OFF, because),
    ]


def _quadratic(subject: Certified, name: str, image: Numbers, limit: float, remedy: str) -> Check:
    """Check of J_r^T J_r v, the `image`, against the tangent along v."""
    assert subject.residuals.moved is not None
    square = float(subject.residuals.moved.change)
    gap = abs(float(np.vdot(image, subject.residuals.v)) - square)
    return at_most(f"{name} against tangents", over(gap, square), limit, remedy)


def _finite(gradient: Numbers) -> Check:
    wrong = int(np.sum(~np.isfinite(gradient)))
    remedy = "guard the inputs of sqrt, division and powers with pdefit.safe_sqrt, safe_norm, safe_div"
    return at_most("non-finite elements of the gradient", wrong, 0.0, remedy)
