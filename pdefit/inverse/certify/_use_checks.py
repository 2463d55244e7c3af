"""Checks of the derivatives that optimizers use, on a whole record and by the driver of the fit, against tangents."""

import itertools

import numpy as np
from jaxtyping import Array

from pdefit.adjoints.base import ROUND_OFF
from pdefit.inverse.certify._certified import Certified
from pdefit.inverse.certify._record import Check, at_most, over
from pdefit.inverse.controls.bound_control import FEW

# slope of J of a float32 run against that of its float64 twin
SINGLE = 1e-2


def gradient_of_the_run(subject: Certified) -> list[Check]:
    """Checks of value and gradient of J, where an optimizer uses them."""
    if not subject.used.gradient:
        return []
    value, gradient = subject.gradient
    wrong = "the run's gradient is wrong: compare with adjoint=store_all, or use stages=levenberg_marquardt"
    remedy = subject.remedy(wrong)
    slopes = subject.slopes(f"{subject.kind}gradient", subject.shifted, value, gradient, subject.accuracy, remedy)
    return [_finite(gradient), *slopes]


def normal_equations_of_the_run(subject: Certified) -> list[Check]:
    """Checks of gradient and matrix of Gauss-Newton, where an optimizer uses them."""
    if not subject.used.normal_equations:
        return []
    value, slope, matrix = subject.equations
    exact, remedy = subject.residuals.limit(ROUND_OFF), "the assembled Jacobian is wrong: use stages=lbfgs"
    # what the fit has is of the data as they are
    objective, name = subject.whole if subject.handed else subject.shifted, f"{subject.kind}Gauss-Newton gradient"
    slopes = subject.slopes(name, objective, value, slope, exact, remedy)
    image = np.asarray(matrix @ subject.residuals.v)
    return [_finite(slope), *slopes, subject.quadratic(f"{subject.kind}Gauss-Newton matrix", image, exact, remedy)]


def products_of_the_run(subject: Certified) -> list[Check]:
    """Checks of products with the Gauss-Newton matrix, where an optimizer uses them."""
    if not subject.used.products:
        return []
    exact, remedy = subject.residuals.limit(ROUND_OFF), "products with the Jacobian are wrong: use stages=lbfgs"
    image = subject.driver.product(subject.whole, subject.theta, subject.residuals.v)
    return [subject.quadratic(f"{subject.kind}Gauss-Newton products", image, exact, remedy)]


def influence(subject: Certified) -> list[Check]:
    """The check for elements of theta on which nothing depends.

    Of a field some may have none, far from every instrument.
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
    """The check of the gradient of a float32 run, along v, against that of its float64 twin.

    Near a minimum the terms of a gradient cancel, and their round-off is left. So its error is relative to the typical
    size that residuals of such a size give a gradient. As large an error moves the minimum by about a standard error.
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


def _finite(gradient: Array) -> Check:
    wrong = int(np.sum(~np.isfinite(gradient)))
    remedy = "guard the inputs of sqrt, division and powers with pdefit.safe_sqrt, safe_norm, safe_div"
    return at_most("non-finite elements of the gradient", wrong, 0.0, remedy)
