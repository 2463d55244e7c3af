"""From a laboratory's file to `Observations`."""

import logging
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from pdefit._util.errors import PdefitError
from pdefit.data.observations import Observations
from pdefit.data.readers.datasets import array, opened
from pdefit.data.readers.frames import Frames

log = logging.getLogger("pdefit")


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
    """Read a whole film into memory, and log a warning of what looks odd; the arguments are those of `Frames`."""
    with Frames(
        path, variables, sigma=sigma, units=units, time_unit=time_unit, time=time, start=start, stop=stop
    ) as frames:
        found, remarks = read_all(frames)
    for remark in remarks:
        log.warning(remark)
    return found


def read_all(frames: Frames) -> tuple[Observations, list[str]]:
    """All frames, and what looks odd about them: missing units, whole numbers beside a sigma that is finer than one."""
    values, errors = frames.arrays(0, frames.ts.size)
    remarks = []
    for field, value in values.items():
        if not np.any(np.isfinite(value)):
            raise PdefitError(
                f"All values of '{frames.variables[field]}' in '{frames.name}' are missing (NaN), or fill values, or outside "
                f"of the valid range; name another variable, or correct its attributes"
            )
        step, largest = frames.step(field), float(np.nanmax(np.abs(value)))
        if step is not None and np.max(errors[field]) < step < largest:
            remarks.append(
                f"'{frames.variables[field]}' in '{frames.name}' holds whole numbers up to {largest / step:g} without a scale "
                f"(scale_factor), but sigma of {field} is {np.max(errors[field]):g}, less than one of them; give the file a "
                f"scale, or sigma and the model in counts"
            )
    if frames.unitless:
        names, units = (", ".join(x) for x in (frames.unitless, frames.unitless.values()))
        remarks.append(
            f"'{frames.name}' states no unit for {names}; the model's are taken: {units} (an attribute `units` tells others)"
        )
    return Observations.build(frames.ts, values, errors), remarks


def read_arrays(path: Path, names: Mapping[str, str]) -> dict[str, np.ndarray]:
    """Arrays that belong to the system rather than to the film (reference parameters, labels), under the keys of `names`."""
    with opened(path) as file:
        return {key: array(file, name, path) for key, name in names.items()}
