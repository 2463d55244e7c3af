"""Sensitivity algorithms: derivatives of a trajectory."""

from pdefit.adjoints.base import AbstractAdjoint as AbstractAdjoint
from pdefit.adjoints.base import AbstractReverse as AbstractReverse
from pdefit.adjoints.base import Checkpointed as Checkpointed
from pdefit.adjoints.base import StoreAll as StoreAll
from pdefit.adjoints.continuous.backsolve import Backsolve as Backsolve
from pdefit.adjoints.continuous.interpolating import Interpolating as Interpolating
from pdefit.adjoints.forward_mode import FiniteDifference as FiniteDifference
from pdefit.adjoints.forward_mode import Tangent as Tangent
