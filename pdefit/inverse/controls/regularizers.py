"""Regularizers: residuals of a control that are added to those of the data."""

import abc

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array


class AbstractRegularizer(eqx.Module):
    """Half a squared norm of residuals of one control, added to the objective.

    **Arguments:**

    - `control`: the path of the control, such as `y0.u`.
    """

    control: eqx.AbstractVar[str]

    @abc.abstractmethod
    def residual(self, x: Array) -> Array:
        """The residuals, as a vector, of the control's physical value x."""


class L2(AbstractRegularizer):
    """weight/2 * mean (x - reference)^2, which keeps a control near a value.

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
    """weight/2 * mean |grad x|^2, which keeps a field smooth.

    **Arguments:**

    - `control`: the path of the control, such as `y0.u`.
    - `weight`: the weight, in length squared over the control's unit squared.
    - `spacing`: the size of a cell, alike along all axes; default 1.
    """

    control: str
    weight: float
    spacing: float = 1.0

    def residual(self, x):
        slopes = [jnp.ravel(jnp.diff(x, axis=axis)) for axis in range(x.ndim)]
        return jnp.sqrt(self.weight / x.size) / self.spacing * jnp.concatenate(slopes)
