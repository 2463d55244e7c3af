"""Sensitivity algorithms: derivatives of a trajectory."""

import importlib
import typing

from pdefit.adjoints.base import AbstractAdjoint as AbstractAdjoint
from pdefit.adjoints.base import AbstractReverse as AbstractReverse
from pdefit.adjoints.base import Checkpointed as Checkpointed
from pdefit.adjoints.base import StoreAll as StoreAll
from pdefit.adjoints.forward_mode import FiniteDifference as FiniteDifference
from pdefit.adjoints.forward_mode import Tangent as Tangent

if typing.TYPE_CHECKING:
    from pdefit.lab.continuous_adjoints.backsolve import Backsolve as Backsolve
    from pdefit.lab.continuous_adjoints.interpolating import Interpolating as Interpolating

# the continuous adjoints are loaded when they are first used
_LATE = {
    "Backsolve": "pdefit.lab.continuous_adjoints.backsolve",
    "Interpolating": "pdefit.lab.continuous_adjoints.interpolating",
}


def __getattr__(name: str) -> object:
    if name in _LATE:
        return getattr(importlib.import_module(_LATE[name]), name)
    raise AttributeError(f"module 'pdefit.adjoints' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*globals(), *_LATE])
