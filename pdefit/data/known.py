"""Facts about data in addition to their values: the reliability of sigma, and the origin of the data."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from pdefit.data.observations import Observations


@dataclasses.dataclass(frozen=True)
class Known:
    """Facts about the data of a fit that its verdict depends on.

    **Arguments:**

    - `sigma_known`: whether sigma was stated, or well estimated, before the fit; default True. Otherwise only the
      structure of residuals is tested, not their size. A sigma estimated by a stage of the fit is never known.
    - `sigma_exact`: whether sigma is known to better than a percent, as for a twin; default False.
    - `sigma_stated`: whether sigma was stated; default True. Otherwise residuals below a ten-thousandth of the range of
      the data mean that the data have no noise.
    - `unstated`: the variables without any sigma; default none.
    - `noiseless`: whether the data have no noise; default False.
    - `same_cells`: whether the data were simulated on the grid of the model; default False. Finer cells then move the
      estimate away from its true value, and are not tried.
    - `counts`: for variables that are counts, the value of one count (1, or the gain of a camera); default none. A
      scatter beyond Poisson's law is then reported.
    - `record`, `held`: the observations before frames were held out, and the indices of these frames; default none.
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
