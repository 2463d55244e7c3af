"""The pressure of planar flows, a field that follows from the state."""

import abc

from jaxtyping import Array, PyTree

from pdefit.capabilities import AbstractDerived, FieldCoords
from pdefit_flow.operators import Edges, Velocity
from pdefit_flow.planar_flow import AbstractPlanarFlow
from pdefit_flow.projection import potential


class AbstractPressure(AbstractPlanarFlow, AbstractDerived):
    """A planar flow with its pressure, the potential subtracted by the projection of the velocity's rates.

    It is the pressure divided by the density, in units of velocity squared, with mean 0 over the box. It includes the
    gradient part of forces (the modified pressure). Its error is of second order in the cell size.
    """

    @abc.abstractmethod
    def rates(self, t: Array | float, y: PyTree) -> Velocity:
        """The rates of the velocity without pressure, each component on its faces.

        **Arguments:**

        - `t`: the time.
        - `y`: the state.
        """

    def rim_rates(self, t: Array | float) -> Edges | None:
        """The rates of the velocity prescribed on the rim of the box; None between walls.

        **Arguments:** `t`: the time.
        """
        return None

    def derived(self, t, y):
        return {"pressure": potential(self.grid, self.rates(t, y), edges=self.rim_rates(t))}

    def derived_coords(self):
        places = dict(zip(self.axes, self.positions(), strict=True))
        units = dict.fromkeys(self.axes, self.grid.length_unit)
        return {"pressure": FieldCoords(self.axes, places, self.unit_of(2, 2), "pressure", units)}
