"""The section `starts` of a configuration."""

import dataclasses
from typing import Literal

from pdefit.inverse.members.draw_starts import Design, Starts, Within


@dataclasses.dataclass(frozen=True)
class StartsSettings:
    """Many starts of one fit, or of each of many members.

    **Arguments:**

    - `when`: always, or needed: only where the fit from the guess leaves a misfit that noise cannot explain.
    - `count`, `design`: number of starts, and how they are spread: sobol or latin_hypercube.
    - `within`: what numbers are drawn from: bounds, prior, or spread about the guess by `factor`.
    - `factor`: that factor.
    - `by`: what chooses among the optima: loss, or holdout, the frames that `holdout` keeps out of the fit.
    - `keep`: number of starts that are fitted to the end; 0 for all. Those of members all are.
    """

    when: Literal["always", "needed"] = "always"
    count: int = Starts.count
    design: Design = Starts.design
    within: Within = Starts.within
    factor: float = Starts.factor
    keep: int = Starts.keep
    by: Literal["loss", "holdout"] = "loss"

    def __post_init__(self) -> None:
        # which refuses what makes no sense
        _ = self.points

    @property
    def points(self) -> Starts:
        """The starts."""
        return Starts(self.count, self.design, self.within, self.factor, self.keep)
