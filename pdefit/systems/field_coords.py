"""Coordinates of the fields of any system."""

import numpy as np
from jaxtyping import PyTree

from pdefit._util.trees import named_fields
from pdefit.systems.capabilities import AbstractDerived, AbstractGridded, FieldCoords
from pdefit.systems.system import AbstractSystem


def field_coords(system: AbstractSystem, y: PyTree) -> dict[str, FieldCoords]:
    """Coordinates of every field of a state: those that the system states, or else running numbers.

    **Arguments:**

    - `system`: the equations.
    - `y`: a state, or arrays of its shapes.
    """
    if isinstance(system, AbstractGridded):
        return system.coords()
    return {
        name: FieldCoords(
            dims=tuple(f"{name}_{i}" for i in range(np.ndim(x))),
            coords={f"{name}_{i}": np.arange(n) for i, n in enumerate(np.shape(x))},
        )
        for name, x in named_fields(y).items()
    }


def derived_coords(system: AbstractSystem) -> dict[str, FieldCoords]:
    """Coordinates of every derived field; empty for a system that has none.

    **Arguments:** `system`: the equations.
    """
    return system.derived_coords() if isinstance(system, AbstractDerived) else {}
