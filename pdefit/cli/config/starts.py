"""The section `starts` of a configuration."""

import dataclasses
from typing import Literal

from pdefit.inverse.members.draw_starts import Design, Starts, Within


@dataclasses.dataclass(frozen=True)
class StartsSettings:
    """Several starts of one fit, or of each of many members.

    **Arguments:**

    - `when`: always, or needed: only if the fit from the guess leaves a misfit that noise cannot explain.
    - `count`, `design`: the number of starts, and their design: sobol or latin_hypercube.
    - `within`: the distribution of the starts: bounds, prior, or a spread about the guess by `factor`.
    - `factor`: the factor of that spread.
    - `by`: the criterion that chooses among the optima: loss, or holdout (the frames that `holdout` keeps out of the
      fit).
    - `keep`: the number of starts that are fitted to the end; 0 for all. Members keep all.
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
