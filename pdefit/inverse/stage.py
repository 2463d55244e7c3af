"""A stage of a fit."""

import dataclasses

from pdefit.inverse.formulation import AbstractFormulation
from pdefit.inverse.optimize.base import AbstractOptimizer
from pdefit.inverse.reweight import Reweight


@dataclasses.dataclass(frozen=True)
class Stage:
    """One optimizer at work: `formulation` may cut the record in another way than the fit's own (windows that grow stage by
    stage); `reweight` repeats the stage with the errors its residuals suggest."""

    optimizer: AbstractOptimizer
    max_iterations: int = 100
    formulation: AbstractFormulation | None = None
    reweight: Reweight | None = None
