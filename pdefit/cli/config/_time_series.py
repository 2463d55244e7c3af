"""Time series of a configuration, whose numbers stand in it or in a data file."""

from typing import Any

from pdefit._util.errors import PdefitError
from pdefit.data.readers.locate import locate
from pdefit.data.readers.observations import read_arrays
from pdefit.systems.time_series import TimeSeries


def time_series(
    values: list[Any] | str,
    times: list[float] | str,
    path: str | None = None,
    method: str = "cubic",
    sigma: float | list[Any] | str | None = None,
    knots: int | list[float] | None = None,
) -> TimeSeries:
    """A `TimeSeries` from numbers, or from variables of a data file.

    **Arguments:**

    - `values`, `times`, `sigma`: as of `TimeSeries`, or the names of variables of the file.
    - `path`: the data file.
    - `method`, `knots`: as of `TimeSeries`.
    """
    given = {"values": values, "times": times, "sigma": sigma}
    named = {word: name for word, name in given.items() if isinstance(name, str)}
    if named and path is None:
        raise PdefitError(f"{', '.join(named)} of a time series are names, which expect a data file; set path")
    read = {} if path is None else read_arrays(locate(path), named)
    return TimeSeries(**{**given, **read}, method=method, knots=knots)
