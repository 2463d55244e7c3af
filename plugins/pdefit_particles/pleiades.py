"""The Pleiades problem: seven stars in a plane, with close encounters."""

import numpy as np

_X = (3.0, 3.0, -1.0, -3.0, 2.0, -2.0, 2.0)
_Y = (3.0, -3.0, 2.0, 0.0, 0.0, -4.0, 4.0)
_VX = (0.0, 0.0, 0.0, 0.0, 0.0, 1.75, -1.5)
_VY = (0.0, 0.0, 0.0, -1.25, 1.0, 0.0, 0.0)


def pleiades(gravity):
    """A `Gravity` system with masses 1 to 7 (G = 1), and its initial state. The reference solution ends at t = 3.

    **Arguments:**

    - `gravity`: `Gravity`, or a function with its arguments.

    Source: E. Hairer, S. P. Norsett, G. Wanner, Solving Ordinary Differential Equations I (1993), section II.10,
    doi:10.1007/978-3-540-78862-1; F. Mazzia and C. Magherini, Test Set for IVP Solvers (2008).
    """
    position, velocity = np.stack([_X, _Y], axis=-1), np.stack([_VX, _VY], axis=-1)
    system = gravity(
        gm=np.arange(1.0, 8.0),
        names=tuple(f"star{i}" for i in range(1, 8)),
        position=position,
        velocity=velocity,
        length_unit="1",
    )
    return system, system.init(None)
