"""A stage of a fit."""

import dataclasses

from pdefit.inverse.fit.reweight import Reweight
from pdefit.inverse.optimizers.base import AbstractOptimizer
from pdefit.inverse.shooting.formulation import AbstractFormulation


@dataclasses.dataclass(frozen=True)
class Stage:
    """One optimizer at work: `formulation` may cut the record in another way than the fit's own (windows that grow stage by
    stage); `reweight` repeats the stage with the errors its residuals suggest."""

    optimizer: AbstractOptimizer
    max_iterations: int = 100
    formulation: AbstractFormulation | None = None
    reweight: Reweight | None = None
