"""The classical Runge-Kutta method."""

from collections.abc import Callable
from typing import ClassVar

import diffrax
import numpy as np


class RK4(diffrax.AbstractERK):
    """Kutta's classical fourth-order method with four stages, for constant steps (it has no error estimate).

    Stable on the negative real axis up to |h lambda| = 2.785 and on the imaginary axis up to 2.828.

    Source: W. Kutta, Z. Math. Phys. 46:435 (1901).
    """

    tableau: ClassVar[diffrax.ButcherTableau] = diffrax.ButcherTableau(
        a_lower=(np.array([0.5]), np.array([0.0, 0.5]), np.array([0.0, 0.0, 1.0])),
        b_sol=np.array([1 / 6, 1 / 3, 1 / 3, 1 / 6]),
        # diffrax wants an error estimate of every tableau: zeros stand for none
        b_error=np.zeros(4),
        c=np.array([0.5, 0.5, 1.0]),
    )
    interpolation_cls: ClassVar[Callable[..., diffrax.AbstractLocalInterpolation]] = (
        diffrax.ThirdOrderHermitePolynomialInterpolation.from_k
    )

    def order(self, terms):
        return 4
