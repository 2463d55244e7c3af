"""Forces on a sphere with unknown values: at knots, or as coefficients of harmonics."""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pdefit.capabilities import AbstractSmoothed
from pdefit_sphere.knot_smoother import KnotSmoother
from pdefit_sphere.knots import knots_in_time, places, projection, time_weights, weighted


class AbstractForce(eqx.Module):
    """A tangent force per mass on a sphere, f = grad psi + n x grad chi with the gradient of the unit sphere."""

    times: eqx.AbstractVar[tuple[float, ...]]

    @abc.abstractmethod
    def potentials(self, t: Array) -> Float[Array, "P 2"]:
        """The coefficients of psi and chi at a time, packed as in `Sphere.pack`, in the unit of the force.

        **Arguments:**

        - `t`: the time, in the system's time unit.
        """

    @property
    @abc.abstractmethod
    def coefficients(self) -> Float[Array, "K P 2"]:
        """The coefficients of psi and chi at the knots in time."""


class HarmonicForce(AbstractForce):
    """A force of vector harmonics whose coefficients are cubic splines in time.

    Splines are natural: their second derivatives are continuous, and they are linear outside of the knots.

    **Arguments:**

    - `degree`: the largest degree of harmonics.
    - `knots`: the number of knots in time; default 1 for a constant force.
    - `times`: the first and the last knot, or all, in the system's time unit; None for a constant force.
    - `values`: the coefficients of psi and chi at the knots, (K_t, P, 2) with P = degree (degree + 2); default 0.
    - `method`: `cubic`.
    """

    values: Array
    times: tuple[float, ...] = eqx.field(static=True)

    def __init__(self, degree: int, knots: int = 1, times: Any = None, values: Any = None, method: str = "cubic"):
        _check(method)
        self.times = knots_in_time(times, knots)
        self.values = _values(values, (knots, degree * (degree + 2), 2))

    def potentials(self, t):
        return weighted(time_weights(self.times, t), self.values)

    @property
    def coefficients(self):
        return self.values


class KnotForce(AbstractForce, AbstractSmoothed):
    """A force between tangent vectors at knots in time, theta and phi, by cubic splines.

    Their second derivatives are continuous. In time splines are natural, and linear outside of the knots. In phi they
    are periodic. Along theta they cross the poles, half a knot distance from the nearest knots. The force is the
    projection of the spline onto harmonics up to `degree`, which is smooth at the poles, too. Higher harmonics have no
    effect on a flow of that degree.

    `smoothing` of its values has a length in radians, a time, an order and an amplitude. Values then have harmonics up
    to `degree` only, with a factor (1 + length^2 l (l + 1))^-order for degree l.

    **Arguments:**

    - `knots`: the numbers of knots in time, along theta and along phi.
    - `times`: the first and the last knot, or all, in the system's time unit; None for one knot in time.
    - `degree`: the largest degree of harmonics; by default the largest that the knots resolve.
    - `values`: the components along theta and phi at the knots, (K_t, K_theta, K_phi, 2); default 0.
    - `method`: `cubic`.
    """

    values: Array
    times: tuple[float, ...] = eqx.field(static=True)
    degree: int = eqx.field(static=True)

    def __init__(
        self, knots: Any, times: Any = None, degree: int | None = None, values: Any = None, method: str = "cubic"
    ):
        _check(method)
        if len(knots) != 3 or min(knots) < 1 or knots[1] < 2 or knots[2] < 4:
            raise ValueError(
                f"KnotForce expects numbers of knots in time (1 or more), theta (2) and phi (4), but got {knots}"
            )
        self.times = knots_in_time(times, knots[0])
        self.degree = max(1, min(knots[1] - 1, (knots[2] - 1) // 2)) if degree is None else int(degree)
        self.values = _values(values, (*knots, 2))

    def smoother(self, name, length, time, order, amplitude):
        return KnotSmoother(self.values.shape[:3], self.times, self.degree, length, time, order, amplitude)

    @property
    def places(self) -> tuple[np.ndarray, np.ndarray]:
        """The colatitudes and longitudes of the knots, in radians."""
        _, along, around, _ = self.values.shape
        return places((along, around))

    def potentials(self, t):
        return self._projected(weighted(time_weights(self.times, t), self.values))

    @property
    def coefficients(self):
        return jax.vmap(self._projected)(self.values)

    def _projected(self, values: Array) -> Array:
        matrix = jnp.asarray(projection(values.shape[:2], self.degree), values.dtype)
        return jnp.tensordot(matrix, values, 3, precision=jax.lax.Precision.HIGHEST)


def _check(method: str) -> None:
    if method != "cubic":
        raise ValueError(
            f"A force on a sphere expects method cubic, but got {method}: where its rotation or delay are unknown, linear "
            f"pieces put kinks into the residuals, and no certificate of the gradient can pass"
        )


def _values(values: Any, shape: tuple[int, ...]) -> Array:
    if values is None:
        return jnp.zeros(shape)
    given = jnp.asarray(values, None if isinstance(values, jax.Array) else float)
    if given.shape != shape:
        raise ValueError(f"A force with these knots expects values of shape {shape}, but got {given.shape}")
    return given
