"""Prior knowledge of a control, as residuals."""

import abc
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from pdefit._util.errors import PdefitError
from pdefit.systems.time_series import TimeSeries


class AbstractPrior(eqx.Module):
    """A density of a control in physical units. Its negative logarithm is half a squared residual."""

    @abc.abstractmethod
    def residual(self, x: Array) -> Array:
        """The distance between x and what was expected, in standard deviations, element by element."""

    def resolve_for(self, holder: Any) -> "AbstractPrior":
        """The prior of the array of a holder, such as the values of a time series.

        **Arguments:**

        - `holder`: the part of the problem whose attribute the control is.
        """
        return self


class Normal(AbstractPrior):
    """A normal density, x = mean +- deviation.

    **Arguments:**

    - `mean`: the expected value, in the control's unit.
    - `deviation`: the standard deviation, in the same unit.
    """

    mean: float
    deviation: float

    def __check_init__(self):
        if not self.deviation > 0:
            raise ValueError(f"A normal prior expects a positive deviation, but got {self.deviation}")

    def residual(self, x):
        return (x - self.mean) / self.deviation


class LogNormal(AbstractPrior):
    """A log-normal density, for a quantity known up to a factor exp(deviation).

    **Arguments:**

    - `median`: the expected value, in the control's unit.
    - `deviation`: the standard deviation of ln x.
    """

    median: float
    deviation: float

    def __check_init__(self):
        if not (self.median > 0 and self.deviation > 0):
            raise ValueError(f"A log-normal prior expects positive numbers, but got {self.median}, {self.deviation}")

    def residual(self, x):
        return (jnp.log(x) - jnp.log(self.median)) / self.deviation


class Measured(AbstractPrior):
    """The measurement of a time series as the prior of its values, for inputs that are noisy (errors in variables).

    The residuals are the series at the measured times minus the measured values, in standard deviations. A series with
    fewer knots than measurements is a regression spline.

    **Arguments:**

    - `series`: a `TimeSeries` with `sigma`; by default the one whose `values` are the control.
    """

    series: TimeSeries | None = None

    def resolve_for(self, holder):
        series = self.series or holder
        if not isinstance(series, TimeSeries) or series.measured is None:
            raise PdefitError("The prior `measured` is for the values of a time series with sigma; give its sigma")
        return Measured(series)

    def residual(self, x):
        assert self.series is not None, "bound controls have their series"
        return self.series.with_values(x).misfit()
