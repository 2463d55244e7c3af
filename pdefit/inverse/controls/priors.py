"""Prior knowledge of a control, as residuals."""

import abc

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array


class AbstractPrior(eqx.Module):
    """A density of a control in physical units. Its negative logarithm is half a squared residual."""

    @abc.abstractmethod
    def residual(self, x: Array) -> Array:
        """The distance between x and what was expected, in standard deviations, element by element."""


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
