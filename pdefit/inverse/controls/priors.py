"""Prior knowledge of a control as additional residuals: densities and regularizers."""

import abc
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from pdefit._util.errors import PdefitError
from pdefit.systems.time_series import TimeSeries


class AbstractPrior(eqx.Module):
    """Prior density of a control in physical units. Its negative logarithm is half the squared residual."""

    @abc.abstractmethod
    def residual(self, x: Array) -> Array:
        """Distance of x from its expected value, in standard deviations, element by element."""

    def resolve_for(self, holder: Any) -> "AbstractPrior":
        """The prior completed by the holder of the control, such as the time series of its values.

        **Arguments:**

        - `holder`: the part of the problem with the control as an attribute.
        """
        return self


class Normal(AbstractPrior):
    """Normal prior density, x = mean +- deviation.

    For a quantity of either sign. Not for a quantity known up to a factor (`LogNormal`), nor for limits (`bounds`).

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
    """Log-normal prior density, for a quantity known up to a factor exp(deviation).

    For positive quantities. Not if zero is possible (`Normal`).

    **Arguments:**

    - `median`: the median of x, in the control's unit.
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
    """Measurement of a time series as the prior of its values.

    For noisy inputs (errors in variables). Not for known inputs, which need no control.

    The residuals are the series at the measured times minus the measured values, in standard deviations. A series with
    fewer knots than measurements is a regression spline.

    **Arguments:**

    - `series`: a `TimeSeries` with `sigma`; by default the series whose `values` are the control.
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


class AbstractRegularizer(eqx.Module):
    """Half a squared norm of residuals of one control, added to the objective.

    **Arguments:**

    - `control`: the path of the control, such as `y0.u`.
    """

    control: eqx.AbstractVar[str]

    @abc.abstractmethod
    def residual(self, x: Array) -> Array:
        """Vector of residuals at the control's physical value x."""


class L2(AbstractRegularizer):
    """Penalty weight/2 * mean (x - reference)^2, which keeps a control near a value.

    For a control that should stay near a value. Not for its uncertainty, which a prior gives (`Normal`).

    **Arguments:**

    - `control`: the path of the control, such as `y0.u`.
    - `weight`: the weight, in one over the control's unit squared.
    - `reference`: the value, in the control's unit; default 0.
    """

    control: str
    weight: float
    reference: float = 0.0

    def residual(self, x):
        return jnp.sqrt(self.weight / x.size) * jnp.ravel(x - self.reference)


class H1(AbstractRegularizer):
    """Penalty weight/2 * mean |grad x|^2, which keeps a field smooth.

    For fields whose smoothness is set by hand. Not if a posterior is needed (`Smoothing` with an amplitude).

    Two such penalties on one control, along different axes, keep it smooth in time and in space.

    **Arguments:**

    - `control`: the path of the control, such as `y0.u` or `force.values`.
    - `weight`: the weight, in length squared over the control's unit squared, or in time squared along an axis of time.
    - `spacing`: the distance between neighbours, one for all axes or one for each of `axes`; default 1.
    - `axes`: the axes along which slopes are penalised, counted from 0; default all. Leave out axes of components.
    - `periodic`: whether the last element is a neighbour of the first, for all axes or for each of `axes`; default
      False.
    """

    control: str
    weight: float
    spacing: float | Sequence[float] = 1.0
    axes: Sequence[int] | None = None
    periodic: bool | Sequence[bool] = False

    def residual(self, x):
        return jnp.sqrt(self.weight / x.size) * jnp.concatenate([jnp.ravel(slope) for slope in _slopes(self, x)])


class TotalVariation(AbstractRegularizer):
    """Penalty weight * mean (sqrt(|grad x|^2 + slope^2) - slope), which keeps a field flat between edges.

    For fields of few levels with sharp borders, such as a scar. Not for smooth fields, which it turns into steps (`H1`,
    `Smoothing`).

    A jump costs its height times the length of its border, for any width. Slopes far below `slope` are penalised as in
    H1, with weight / slope. The residuals are r = grad x sqrt(2 / (sqrt(|grad x|^2 + slope^2) + slope)) in every cell:
    half their square is the penalty, and they are smooth even for flat x. Undamped Gauss-Newton overshoots the minimum
    of a steep slope, so use L-BFGS or a damped method.

    **Arguments:**

    - `control`: the path of the control, such as `D`.
    - `weight`: the weight, in length over the control's unit.
    - `slope`: the slope below which the penalty is quadratic, in the control's unit over length: a tenth of the slope of
      an edge.
    - `spacing`, `axes`, `periodic`: as in `H1`. Slopes are difference quotients to the next neighbour along each axis.

    Source: L. Rudin, S. Osher, E. Fatemi, Physica D 60:259 (1992), doi:10.1016/0167-2789(92)90242-F.
    """

    control: str
    weight: float
    slope: float
    spacing: float | Sequence[float] = 1.0
    axes: Sequence[int] | None = None
    periodic: bool | Sequence[bool] = False

    def __check_init__(self):
        if not self.slope > 0:
            raise ValueError(f"TotalVariation expects a slope above 0, but got {self.slope}")

    def residual(self, x):
        # the last cells of an axis that does not wrap have no next neighbour
        found = _slopes(self, x)
        widths = [[(0, n - m) for n, m in zip(x.shape, slope.shape, strict=True)] for slope in found]
        slopes = jnp.stack([jnp.pad(slope, ends) for slope, ends in zip(found, widths, strict=True)])
        # |r|^2 / 2 = sqrt(|g|^2 + s^2) - s without the root of a square, whose derivative at 0 does not exist
        root = jnp.sqrt(jnp.sum(slopes**2, axis=0) + self.slope**2)
        return jnp.sqrt(2 * self.weight / x.size) * jnp.ravel(slopes / jnp.sqrt(root + self.slope)[None])


def _slopes(penalty: H1 | TotalVariation, x: Array) -> list[Array]:
    """Difference quotients of neighbours along each axis of a penalty, one fewer for an axis with ends."""
    axes = tuple(range(x.ndim) if penalty.axes is None else penalty.axes)
    given = (penalty.spacing, penalty.periodic)
    if not {*axes} <= {*range(x.ndim)} or {np.size(of) for of in given} - {1, len(axes)}:
        raise PdefitError(
            f"{type(penalty).__name__} of {penalty.control} expects axes below {x.ndim}, and one spacing or one for each"
        )
    each = zip(axes, *(np.broadcast_to(of, len(axes)) for of in given), strict=True)
    return [(jnp.roll(x, -1, axis) - x if wraps else jnp.diff(x, axis=axis)) / length for axis, length, wraps in each]
