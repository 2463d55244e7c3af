"""The classical Runge-Kutta method."""

from collections.abc import Callable
from typing import ClassVar

import diffrax
import numpy as np


class RK4(diffrax.AbstractERK):
    """The classical fourth-order method with four stages, for constant steps.

    For smooth equations that are not stiff. Not for stiff ones (`diffrax.Kvaerno5`), diffusion on fine grids (`RKC`) or
    adaptive steps (`diffrax.Tsit5`): it has no error estimate.

    It is stable on the negative real axis up to |h lambda| = 2.785 and on the imaginary axis up to 2.828.

    **Arguments:**

    - `scan_kind`: the loop over stages inside diffrax; pdefit's own time loop does not use it.

    Source: W. Kutta, Z. Math. Phys. 46:435 (1901).
    """

    tableau: ClassVar[diffrax.ButcherTableau] = diffrax.ButcherTableau(
        a_lower=(np.array([0.5]), np.array([0.0, 0.5]), np.array([0.0, 0.0, 1.0])),
        b_sol=np.array([1 / 6, 1 / 3, 1 / 3, 1 / 6]),
        # diffrax demands an error estimate of every tableau, so zeros stand for none
        b_error=np.zeros(4),
        c=np.array([0.5, 0.5, 1.0]),
    )
    interpolation_cls: ClassVar[Callable[..., diffrax.AbstractLocalInterpolation]] = (
        diffrax.ThirdOrderHermitePolynomialInterpolation.from_k
    )

    def order(self, terms):
        return 4
