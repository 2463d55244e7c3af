"""Sensitivity algorithms: derivatives of a trajectory."""

from pathlib import Path
from typing import TYPE_CHECKING

from pdefit._util.late import late_names
from pdefit.adjoints.base import AbstractAdjoint as AbstractAdjoint
from pdefit.adjoints.base import AbstractReverse as AbstractReverse
from pdefit.adjoints.base import Checkpointed as Checkpointed
from pdefit.adjoints.base import StoreAll as StoreAll
from pdefit.adjoints.forward_mode import FiniteDifference as FiniteDifference
from pdefit.adjoints.forward_mode import Tangent as Tangent

if TYPE_CHECKING:
    from pdefit.lab.continuous_adjoints.backsolve import Backsolve as Backsolve
    from pdefit.lab.continuous_adjoints.interpolating import Interpolating as Interpolating

__getattr__, __dir__ = late_names(__name__, Path(__file__))
