"""Facts about data that stand beside their values: how well sigma is known, and where the data come from."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from pdefit.data.observations import Observations


@dataclasses.dataclass(frozen=True)
class Known:
    """Facts about the data of a fit that its verdict depends on.

    **Arguments:**

    - `sigma_known`: whether sigma was stated, or well estimated, before the fit; default True. Otherwise only the
      structure of residuals is tested, and not their size. A sigma that a stage of the fit estimates is never known.
    - `sigma_exact`: whether sigma is known to better than a percent, as of a twin; default False.
    - `sigma_stated`: whether sigma was stated; default True. Otherwise residuals below a ten-thousandth of the range
      of the data are residuals of data without noise.
    - `unstated`: the variables without any sigma; default none.
    - `noiseless`: whether the data have no noise; default False.
    - `same_cells`: whether the data were simulated on the cells of the model; default False. Finer cells then move the
      estimate away from its true value, and are not tried.
    - `counts`: by variable of counts the values for one count (1, or the gain of a camera); default none. A scatter
      beyond Poisson's law is then reported as such.
    - `record`, `held`: the observations before frames were kept out of the fit, and the indices of these frames; default
      none.
    """

    sigma_known: bool = True
    sigma_exact: bool = False
    sigma_stated: bool = True
    unstated: tuple[str, ...] = ()
    noiseless: bool = False
    same_cells: bool = False
    counts: Mapping[str, float] = dataclasses.field(default_factory=dict)
    record: Observations | None = None
    held: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0, int))
