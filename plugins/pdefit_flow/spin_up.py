"""Preparation of a flow by a run."""

from typing import Any

import pdefit
from pdefit.solvers import RK4
from pdefit_flow.planar_flow import AbstractPlanarFlow


class SpinUp(pdefit.AbstractPreparation):
    """Preparation that lets a flow develop from the system's initial state, disturbed by the seed.

    It runs in parts of equal length, between which progress is shown and a blow-up is detected.

    **Arguments:**

    - `duration`: the length of the run, in the system's time unit.
    - `parts`: the number of parts; default 20.
    """

    duration: float
    parts: int = 20

    def __check_init__(self):
        if not 0 < self.duration < float("inf") or self.parts < 1:
            raise ValueError(
                f"SpinUp expects a duration above 0 in one part or more, but got {self.duration} and {self.parts}"
            )

    @property
    def solver(self):
        return RK4()

    def start(self, system, key):
        if not isinstance(system, AbstractPlanarFlow):
            raise pdefit.PdefitError(f"SpinUp prepares a flow (flow/rayleigh_benard, ...), not {type(system).__name__}")
        return system.project(system.init(key))

    def kicks(self, system, key):
        return [(_same, self.duration / self.parts)] * self.parts


def _same(y: Any) -> Any:
    return y
