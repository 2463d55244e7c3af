"""From a laboratory's file to `Observations`."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from pdefit.errors import PdefitError
from pdefit.files.datasets import array, opened
from pdefit.files.frames import Frames
from pdefit.systems.observations import Observations


def read_observations(
    path: Path,
    variables: Mapping[str, str],
    *,
    sigma: Mapping[str, str | float] | None = None,
    units: Mapping[str, str] | None = None,
    time_unit: str | None = None,
    time: str = "time",
    start: float = -np.inf,
    stop: float = np.inf,
) -> Observations:
    """Read a whole film into memory; the arguments are those of `Frames`."""
    with Frames(
        path, variables, sigma=sigma, units=units, time_unit=time_unit, time=time, start=start, stop=stop
    ) as frames:
        values, errors = frames.arrays(0, frames.ts.size)
    for field, value in values.items():
        if not np.any(np.isfinite(value)):
            raise PdefitError(f"All values of '{variables[field]}' in '{path.name}' are missing (NaN)")
    return Observations.build(frames.ts, values, errors)


def read_arrays(path: Path, names: Mapping[str, str]) -> dict[str, np.ndarray]:
    """Arrays that belong to the system rather than to the film (reference parameters, labels), under the keys of `names`."""
    with opened(path) as file:
        return {key: array(file, name, path) for key, name in names.items()}
