"""Regularizers: what is asked of a control beyond fitting the data, as residuals."""

import abc

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array


class AbstractRegularizer(eqx.Module):
    """Half a squared norm of residuals of one control, added to the objective.

    **Arguments:** `control` is its dotted path.
    """

    control: eqx.AbstractVar[str]

    @abc.abstractmethod
    def residual(self, x: Array) -> Array:
        """Residuals of the control's physical value."""


class L2(AbstractRegularizer):
    """weight/2 * mean (x - reference)^2, which keeps a control near a value.

    **Arguments:** `control` is its dotted path, `reference` in its unit, `weight` in one over its unit squared.
    """

    control: str
    weight: float
    reference: float = 0.0

    def residual(self, x):
        return jnp.sqrt(self.weight / x.size) * jnp.ravel(x - self.reference)


class H1(AbstractRegularizer):
    """weight/2 * mean |grad x|^2, which keeps a field smooth.

    **Arguments:** `control` is its dotted path, `weight` the weight, `spacing` the size of a cell.
    """

    control: str
    weight: float
    spacing: float = 1.0

    def residual(self, x):
        slopes = [jnp.ravel(jnp.diff(x, axis=axis)) for axis in range(x.ndim)]
        return jnp.sqrt(self.weight / x.size) / self.spacing * jnp.concatenate(slopes)
